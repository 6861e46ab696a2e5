{{- define "sqlstore.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* Short enough for the names that are made of it. */}}
{{- define "sqlstore.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "sqlstore.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "sqlstore.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sqlstore.selector" -}}
app.kubernetes.io/name: {{ include "sqlstore.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sqlstore.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "sqlstore.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sqlstore.onPostgres" -}}
{{- with .Values.datastore.postgres }}{{ if or .dsn .dsnSecret.name }}true{{ end }}{{ end }}
{{- end }}

{{- define "sqlstore.replicas" -}}
{{- if kindIs "invalid" .Values.replicas }}{{ ternary 2 1 (include "sqlstore.onPostgres" . | eq "true") }}
{{- else }}{{ int .Values.replicas }}{{ end }}
{{- end }}

{{- define "sqlstore.serviceAccount" -}}
{{- default (include "sqlstore.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "sqlstore.scheme" -}}
{{- ternary "http" "https" .Values.tls.plaintext }}
{{- end }}

{{- /* Where clients inside the cluster connect. */}}
{{- define "sqlstore.url" -}}
{{- include "sqlstore.scheme" . }}://{{ include "sqlstore.fullname" . }}.{{ .Release.Namespace }}.svc:
{{- .Values.service.port }}
{{- end }}

{{- /* The names of the Service. */}}
{{- define "sqlstore.hosts" -}}
{{- $fullname := include "sqlstore.fullname" . -}}
- {{ $fullname }}
- {{ $fullname }}.{{ .Release.Namespace }}
- {{ $fullname }}.{{ .Release.Namespace }}.svc
- {{ $fullname }}.{{ .Release.Namespace }}.svc.cluster.local
{{- end }}

{{- define "sqlstore.tlsSecret" -}}
{{- if .Values.tls.certManager.enabled }}{{ include "sqlstore.fullname" . }}-server
{{- else }}{{ .Values.tls.existingSecret }}{{ end }}
{{- end }}

{{- define "sqlstore.job" -}}
{{- default (printf "%s-etcd" (include "sqlstore.fullname" .)) .Values.metrics.serviceMonitor.job }}
{{- end }}

{{- /* Flags that the chart sets, and the values to use instead. */}}
{{- define "sqlstore.flags" -}}
name: the name of the Pod
datastore: datastore
datastore-password-file: datastore.postgres.passwordSecret
datastore-max-connections: datastore.postgres.maxConnections
data-dir: datastore.sqlite
listen-client-urls: tls
advertise-client-urls: service
listen-metrics-urls: metrics.port
insecure-plaintext: tls.plaintext
cert-file: tls
key-file: tls
trusted-ca-file: tls.clientCA
client-cert-auth: tls.clientAuth
backup-to: backups.to
backup-interval: backups.interval
backup-full-interval: backups.fullInterval
backup-keep: backups.keep
backup-recipient: backups.recipients
{{- end }}
