{{/*
A container that prepares the store. Takes root, name and arguments: what butler is told.
*/}}
{{- define "steward-etcd.preparation.container" -}}
name: {{ .name }}
image: {{ include "steward-etcd.image" (dict "image" .root.Values.butler.image "default" .root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ .root.Values.butler.image.pullPolicy }}
args:
  - steward-etcd
  - {{ .name }}
  - --name={{ .root.Release.Name }}
  - --namespace={{ .root.Release.Namespace }}
  {{- range .arguments }}
  - {{ . | quote }}
  {{- end }}
# Why it failed is in the status of the pod too.
terminationMessagePolicy: FallbackToLogsOnError
{{- with .root.Values.butler.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Before the members start: their certificates. */}}
{{- define "steward-etcd.preparation.certificates" -}}
{{- $arguments := list -}}
{{- $names := concat (include "steward-etcd.hosts" . | fromJsonArray) (list (printf "%s.%s.svc" .Release.Name .Release.Namespace)) .Values.certificates.extraDnsNames -}}
{{- range $names -}}
{{- $arguments = append $arguments (printf "--dns-name=%s" .) -}}
{{- end -}}
{{- include "steward-etcd.preparation.container" (dict "root" $ "name" "certificates" "arguments" $arguments) -}}
{{- end }}

{{/* Once they run: authentication, and the certificate of the administrator. */}}
{{- define "steward-etcd.preparation.administrator" -}}
{{- $arguments := list -}}
{{- range include "steward-etcd.hosts" . | fromJsonArray -}}
{{- $arguments = append $arguments (printf "--endpoint=%s:2379" .) -}}
{{- end -}}
{{- include "steward-etcd.preparation.container" (dict "root" $ "name" "administrator" "arguments" $arguments) -}}
{{- end }}

{{/* A pod for that. */}}
{{- define "steward-etcd.preparation.administratorSpec" -}}
{{ include "steward-etcd.preparation.pod" (dict "root" $ "account" (printf "%s-certificates" .Release.Name)) }}
containers:
  - {{ include "steward-etcd.preparation.administrator" . | nindent 4 | trim }}
{{- end }}

{{/* The labels of such pods. Without versions: they do not change what is run. */}}
{{- define "steward-etcd.preparation.selector" -}}
app.kubernetes.io/name: steward-etcd
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: certificates
app.kubernetes.io/part-of: butler
{{- end }}

{{/* The rest of such a pod. Takes root and account. */}}
{{- define "steward-etcd.preparation.pod" -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: true
enableServiceLinks: false
restartPolicy: OnFailure
{{ with include "steward-etcd.placement" .root | trim -}}
{{ . }}
{{ end -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/*
Who may keep the certificates: the Secrets of this store and no others; creating cannot be limited to names.
Takes root, account and annotations (text, may be empty).
*/}}
{{- define "steward-etcd.preparation.account" -}}
{{- $labels := include "steward-etcd.labels" (dict "root" .root "component" "certificates") -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
rules:
  - apiGroups: [""]
    resources: [secrets]
    verbs: [create]
  - apiGroups: [""]
    resources: [secrets]
    resourceNames:
      {{- range list "ca" "peer-ca" "server" "peer" "root-client" }}
      - {{ $.root.Release.Name }}-{{ . }}
      {{- end }}
    verbs: [get, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .account }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
