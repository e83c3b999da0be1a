{{/* What members are selected by. */}}
{{- define "steward-etcd.selector" -}}
app.kubernetes.io/name: steward-etcd
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: member
{{- end }}

{{/* The labels of every object. Takes root and component. */}}
{{- define "steward-etcd.labels" -}}
app.kubernetes.io/name: steward-etcd
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: butler
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* A reference to an image. Takes image and default: the tag if it has none. */}}
{{- define "steward-etcd.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .default }}
{{- end -}}
{{- end }}

{{/* The domain of the members, under the domain of the cluster, which pods add themselves. */}}
{{- define "steward-etcd.domain" -}}
{{ .Release.Name }}-members.{{ .Release.Namespace }}.svc
{{- end }}

{{/* The host of each member, as a list in JSON. */}}
{{- define "steward-etcd.hosts" -}}
{{- $hosts := list -}}
{{- range $number := until (int .Values.replicas) -}}
{{- $hosts = append $hosts (printf "%s-%d.%s" $.Release.Name $number (include "steward-etcd.domain" $)) -}}
{{- end -}}
{{- toJson $hosts -}}
{{- end }}

{{/* Who the members are when the store begins. */}}
{{- define "steward-etcd.initialCluster" -}}
{{- $members := list -}}
{{- range $host := include "steward-etcd.hosts" . | fromJsonArray -}}
{{- $members = append $members (printf "%s=https://%s:2380" (splitList "." $host | first) $host) -}}
{{- end -}}
{{- join "," $members -}}
{{- end }}

{{/* Where pods of all kinds may run. */}}
{{- define "steward-etcd.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
