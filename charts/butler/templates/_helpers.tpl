{{/* What pods of a component are selected by. Takes the component's name. */}}
{{- define "butler.selector" -}}
app.kubernetes.io/name: {{ . }}
app.kubernetes.io/part-of: butler
{{- end }}

{{/* The labels of every object. Takes root and component. */}}
{{- define "butler.labels" -}}
{{ include "butler.selector" .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* One image for all components. */}}
{{- define "butler.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
The settings of a provider: its own, else those that the controller has too. Takes root and settings. A loop, because the
merge functions take false and 0 for absent.
*/}}
{{- define "butler.provider.settings" -}}
{{- $settings := dict "enabled" true "replicas" 1 "extraArgs" list "podAnnotations" dict "affinity" dict -}}
{{- range $key, $value := pick .root.Values.controller "resources" "topologySpreadConstraints" -}}
{{- $_ := set $settings $key $value -}}
{{- end -}}
{{- range $key, $value := .settings | default dict -}}
{{- $_ := set $settings $key $value -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end }}

{{/*
A ServiceAccount with a ClusterRole of the same name. Takes root, component, and rules: the rules as text.
The token is mounted by the pods that need it, not by every pod of the account.
*/}}
{{- define "butler.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .component }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .component }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .component }}
subjects:
  - kind: ServiceAccount
    name: {{ .component }}
    namespace: {{ .root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
rules:
  # Which replica works.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ .component }}.butlerlabs.dev]
    verbs: [get, list, watch, update]
  {{- with .localRules }}
  {{- . | nindent 2 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .component }}
subjects:
  - kind: ServiceAccount
    name: {{ .component }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Whether readers of metrics must be allowed to: something, or nothing. */}}
{{- define "butler.metrics.guarded" -}}
{{- if and .Values.metrics.enabled .Values.metrics.authorization -}}
guarded
{{- end -}}
{{- end }}

{{/* Asking who reads metrics, and whether they may. Both are answered, and neither is written down. */}}
{{- define "butler.rules.metrics" -}}
{{- if include "butler.metrics.guarded" . }}
# Who reads metrics, and whether they may.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- end }}

{{/* Telling what happened. */}}
{{- define "butler.rules.events" -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, get, patch]
{{- end }}
