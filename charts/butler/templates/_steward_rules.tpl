{{/* All that Steward does in all namespaces. Tenants' control planes may be in any. */}}
{{- define "butler.steward.rules" -}}
# Finalizers are taken and given back by patches.
- apiGroups: [steward.butlerlabs.dev]
  resources: [tenantcontrolplanes, datastores, kubeconfiggenerators]
  verbs: [get, list, watch, patch]
- apiGroups: [steward.butlerlabs.dev]
  resources: [tenantcontrolplanes/status, datastores/status, kubeconfiggenerators/status]
  verbs: [patch]
- apiGroups: [steward.butlerlabs.dev]
  resources: [tenantcontrolplanes/finalizers, kubeconfiggenerators/finalizers]
  verbs: [update]
# Control planes of Cluster API: each has a TenantControlPlane, which goes before it does.
- apiGroups: [steward.butlerlabs.dev]
  resources: [tenantcontrolplanes]
  verbs: [create, delete]
- apiGroups: [controlplane.cluster.x-k8s.io]
  resources: [stewardcontrolplanes]
  verbs: [get, list, watch, patch]
- apiGroups: [controlplane.cluster.x-k8s.io]
  resources: [stewardcontrolplanes/status]
  verbs: [patch]
- apiGroups: [controlplane.cluster.x-k8s.io]
  resources: [stewardcontrolplanes/finalizers]
  verbs: [update]
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters]
  verbs: [get, list, watch]
# Infrastructure that is told the endpoint. Kinds of --dynamic-infrastructure-clusters need a role of their own.
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources:
    - awsclusters
    - azureclusters
    - butlerclusters
    - hetznerclusters
    - ionoscloudclusters
    - kubevirtclusters
    - nutanixclusters
    - openstackclusters
    - packetclusters
    - proxmoxclusters
    - tinkerbellclusters
    - vsphereclusters
  verbs: [get, list, watch, patch]
# Infrastructure that its owner tells; it is compared.
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [metal3clusters, metalstackclusters]
  verbs: [get, list, watch]
# Infrastructure whose own controller does not declare it ready.
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [kubevirtclusters/status, nutanixclusters/status, packetclusters/status]
  verbs: [patch]
# Certificates, keys and kubeconfigs of control planes, and the credentials of data stores.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
# What a control plane runs by.
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# How it is reached.
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [tlsroutes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [traefik.io]
  resources: [ingressroutetcps]
  verbs: [get, list, watch, create, patch, delete]
# Those two, and Cluster API, may come later: their definitions are waited for. Those of infrastructure say which version is meant.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
# Which namespaces a KubeconfigGenerator speaks of.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
{{ include "butler.rules.events" . }}
{{- include "butler.rules.metrics" . }}
{{- if .Values.webhooks.enabled }}
# Its own webhooks. A missing configuration is created by a patch, which names it.
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
  resourceNames: [steward]
  verbs: [get, list, watch, create, patch]
{{- end }}
{{- end }}

{{/* What it does in its own namespace besides the lease. */}}
{{- define "butler.steward.localRules" -}}
{{- if .Values.webhooks.enabled -}}
# The certificates of its webhooks.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [steward-webhook-certificate]
  verbs: [get, list, watch, update]
{{- end -}}
{{- end }}
