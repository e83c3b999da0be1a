{{/*
A component that runs in the cluster: its Deployment, and what protects and finds its pods.
Takes root, component (its name), arguments (a list), settings (replicas, resources, …) and webhookPort, if it has one.
*/}}
{{- define "butler.workload" -}}
{{- $values := .root.Values -}}
{{- $settings := .settings -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
spec:
  replicas: {{ $settings.replicas }}
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "butler.selector" .component | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  template:
    metadata:
      # Without versions of the chart: what is the same in two of them need not start anew.
      labels:
        {{- include "butler.selector" .component | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: butler
        {{- with $settings.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ .component }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      # Work under way is finished within 25 seconds of being asked to stop.
      terminationGracePeriodSeconds: 40
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: butler
          image: {{ include "butler.image" .root | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args:
            {{- range .arguments }}
            - {{ . | quote }}
            {{- end }}
            - --leader-elect=true
            - --health-probe-bind-address=:8081
            - --metrics-bind-address={{ ternary ":8080" "0" $values.metrics.enabled }}
            {{- if include "butler.metrics.guarded" .root }}
            - --metrics-require-authorization=true
            {{- end }}
            {{- range $settings.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            - name: BUTLER_LOG
              value: {{ $values.log.filter | quote }}
            - name: BUTLER_LOG_FORMAT
              value: {{ $values.log.format | quote }}
          ports:
            - name: health
              containerPort: 8081
            {{- if $values.metrics.enabled }}
            - name: metrics
              containerPort: 8080
            {{- end }}
            {{- with .webhookPort }}
            - name: webhook
              containerPort: {{ . }}
            {{- end }}
          livenessProbe:
            httpGet:
              path: /healthz
              port: health
            initialDelaySeconds: 10
            periodSeconds: 20
            timeoutSeconds: 5
          readinessProbe:
            httpGet:
              path: /readyz
              port: health
            periodSeconds: 5
            timeoutSeconds: 5
          {{- with $settings.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $settings.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $settings.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        - {{ toYaml . | indent 10 | trim }}
          labelSelector:
            matchLabels:
              {{- include "butler.selector" $.component | nindent 14 }}
          # The pods of one revision are spread, whatever those of the last one do.
          matchLabelKeys: [pod-template-hash]
        {{- end }}
      {{- end }}
{{- if $values.metrics.enabled }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .component }}-metrics
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "butler.selector" .component | nindent 4 }}
  ports:
    - name: metrics
      port: 8080
      targetPort: metrics
{{- end }}
{{- if $values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  # A pod that is not ready protects nobody and must not hold up a node's drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "butler.selector" .component | nindent 6 }}
{{- end }}
{{- if $values.networkPolicy.enabled }}
---
# What goes out is left alone: the API server and the infrastructure are addresses that only you know.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "butler.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "butler.selector" .component | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
    # The kubelet and the API server call from addresses of nodes, which no selector matches.
    - ports:
        - port: health
        {{- if .webhookPort }}
        - port: webhook
        {{- end }}
    {{- if $values.metrics.enabled }}
    - ports:
        - port: metrics
      {{- with $values.networkPolicy.metricsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
{{- end }}
{{- end }}
