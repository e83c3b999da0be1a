{{/* All that the controllers do in all namespaces. docs/architecture/controllers.md says why. */}}
{{- define "butler.controller.rules" -}}
# The platform and its tenants, as far as the controllers only look.
- apiGroups: [butler.butlerlabs.dev]
  resources: [butlerconfigs, teams, tenantclusters, loadbalancerrequests]
  verbs: [get, list, watch]
# Finalizers are taken and given back by patches.
- apiGroups: [butler.butlerlabs.dev]
  resources: [providerconfigs, networkpools]
  verbs: [get, list, watch, patch]
- apiGroups: [butler.butlerlabs.dev]
  resources: [butlerconfigs/status, providerconfigs/status, networkpools/status, ipallocations/status]
  verbs: [patch]
# Addresses whose owner is gone are collected.
- apiGroups: [butler.butlerlabs.dev]
  resources: [ipallocations]
  verbs: [get, list, watch, patch, delete]
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
  resources: [butlerclusters, butlermachines]
  verbs: [get, list, watch, patch]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [butlerclusters/status, butlermachines/status]
  verbs: [patch]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [butlerclusters/finalizers, butlermachines/finalizers]
  verbs: [update]
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters, machines]
  verbs: [get, list, watch]
# Cluster API may come later: its definitions are waited for.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [clusters.cluster.x-k8s.io, machines.cluster.x-k8s.io]
  verbs: [list, watch]
# Namespaces of clusters without a team.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch, create, patch]
# Credentials are judged by their shape, bootstrap data is handed on; of all others only metadata is asked for.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
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
  resources: [kamajicontrolplanes, stewardcontrolplanes]
  verbs: [get]
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
