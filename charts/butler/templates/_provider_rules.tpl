{{/* What every provider does. */}}
{{- define "butler.provider.rules" -}}
- apiGroups: [butler.butlerlabs.dev]
  resources: [machinerequests, loadbalancerrequests]
  verbs: [get, list, watch, patch]
- apiGroups: [butler.butlerlabs.dev]
  resources: [machinerequests/status, loadbalancerrequests/status]
  verbs: [patch]
- apiGroups: [butler.butlerlabs.dev]
  resources: [machinerequests/finalizers, loadbalancerrequests/finalizers]
  verbs: [update]
- apiGroups: [butler.butlerlabs.dev]
  resources: [providerconfigs]
  verbs: [get, list, watch]
# Addresses are asked for, never taken.
- apiGroups: [butler.butlerlabs.dev]
  resources: [ipallocations]
  verbs: [get, list, watch, create, patch, delete]
# Credentials of the infrastructure and user data of machines are read by name; of all others only metadata is asked for, to
# see when they change.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
{{ include "butler.rules.events" . }}
{{- end }}
