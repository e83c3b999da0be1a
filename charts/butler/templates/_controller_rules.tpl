{{/* All that the controllers do in all namespaces. docs/architecture/controllers.md says why. */}}
{{- define "butler.controller.rules" -}}
# The platform and its tenants, as far as the controllers only look.
- apiGroups: [butler.butlerlabs.dev]
  resources: [butlerconfigs, teams]
  verbs: [get, list, watch]
# Finalizers are taken and given back by patches.
- apiGroups: [butler.butlerlabs.dev]
  resources: [tenantclusters, providerconfigs, networkpools]
  verbs: [get, list, watch, patch]
- apiGroups: [butler.butlerlabs.dev]
  resources:
    - butlerconfigs/status
    - tenantclusters/status
    - providerconfigs/status
    - networkpools/status
    - ipallocations/status
  verbs: [patch]
# What tenant clusters ask providers and pools for. Addresses whose owner is gone are collected.
- apiGroups: [butler.butlerlabs.dev]
  resources: [ipallocations, imagesyncs, loadbalancerrequests]
  verbs: [get, list, watch, create, patch, delete]
# The pages on which grants are written.
- apiGroups: [butler.butlerlabs.dev]
  resources: [networkpoolledgers]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [butler.butlerlabs.dev]
  resources: [networkpools/finalizers]
  verbs: [update]
# Machines for Cluster API.
- apiGroups: [butler.butlerlabs.dev]
  resources: [machinerequests]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [butlermachines]
  verbs: [get, list, watch, patch]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [butlerclusters/status, butlermachines/status]
  verbs: [patch]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [butlerclusters/finalizers, butlermachines/finalizers]
  verbs: [update]
# What tenant clusters are made of.
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters, machinedeployments, machinehealthchecks]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [cluster.x-k8s.io]
  resources: [machines, machinesets]
  verbs: [get, list, watch]
- apiGroups: [controlplane.cluster.x-k8s.io]
  resources: [stewardcontrolplanes, kamajicontrolplanes, kubeadmcontrolplanes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [bootstrap.cluster.x-k8s.io]
  resources: [kubeadmconfigtemplates]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources:
    - butlerclusters
    - butlermachinetemplates
    - nutanixclusters
    - nutanixmachinetemplates
    - kubevirtclusters
    - kubevirtmachinetemplates
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [steward.butlerlabs.dev]
  resources: [tenantcontrolplanes]
  verbs: [get, list, watch]
# All but our own may come later: their definitions are waited for.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames:
    - clusters.cluster.x-k8s.io
    - machines.cluster.x-k8s.io
    - machinesets.cluster.x-k8s.io
    - machinedeployments.cluster.x-k8s.io
    - machinehealthchecks.cluster.x-k8s.io
    - stewardcontrolplanes.controlplane.cluster.x-k8s.io
    - kamajicontrolplanes.controlplane.cluster.x-k8s.io
    - kubeadmcontrolplanes.controlplane.cluster.x-k8s.io
    - kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io
    - nutanixclusters.infrastructure.cluster.x-k8s.io
    - nutanixmachinetemplates.infrastructure.cluster.x-k8s.io
    - kubevirtclusters.infrastructure.cluster.x-k8s.io
    - kubevirtmachinetemplates.infrastructure.cluster.x-k8s.io
    - tenantcontrolplanes.steward.butlerlabs.dev
    - gateways.gateway.networking.k8s.io
  verbs: [list, watch]
# Namespaces of tenant clusters, and of clusters without a team.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch, create, patch, delete]
# Who of a team may do what in the namespace of its cluster: look, and read the kubeconfigs.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [view]
  verbs: [bind]
# Where the one entrance is, if all API servers of tenants are behind one.
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways]
  verbs: [get, list, watch]
# Credentials are judged by their shape, bootstrap data is handed on or translated; of all others only metadata is asked for.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
{{- if .Values.controller.capx.enabled }}
# CAPX reads the credentials of its provider in the namespace of each cluster.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, update]
{{- end }}
{{- if .Values.controller.userData.enabled }}
# User data of machines whose system cannot read bootstrap data as it is. It goes with its machine, by the garbage collector.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}
# Addresses that the management cluster uses itself.
- apiGroups: [""]
  resources: [services, nodes]
  verbs: [get, list, watch]
{{- if .Values.controller.kamaji.enabled }}
# Kamaji's control planes, which are only looked at, and what Cluster API reads of them.
- apiGroups: [kamaji.clastix.io]
  resources: [tenantcontrolplanes]
  verbs: [get, list, watch]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [tenantcontrolplanes.kamaji.clastix.io]
  verbs: [list, watch]
- apiGroups: [controlplane.cluster.x-k8s.io]
  resources: [kamajicontrolplanes/status, stewardcontrolplanes/status]
  verbs: [patch]
# Kubeconfigs are called after clusters, whose names are not known beforehand.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, patch]
# An owner of what is made can be named even where that is guarded.
- apiGroups: [kamaji.clastix.io]
  resources: [tenantcontrolplanes/finalizers]
  verbs: [update]
{{- end }}
{{ include "butler.rules.events" . }}
{{- include "butler.rules.metrics" . }}
{{- if .Values.webhooks.enabled }}
# Its own webhooks. A missing configuration is created by a patch, which names it.
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
  resourceNames: [butler-controller]
  verbs: [get, list, watch, create, patch]
{{- end }}
{{- end }}

{{/* What it does in its own namespace besides the lease. */}}
{{- define "butler.controller.localRules" -}}
{{- if .Values.webhooks.enabled -}}
# The certificates of its webhooks.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [butler-controller-webhook-certificate]
  verbs: [get, list, watch, update]
{{- end -}}
{{- end }}
