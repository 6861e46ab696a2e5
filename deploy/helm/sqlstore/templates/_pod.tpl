{{- /* The Pod of both modes. */}}
{{- define "sqlstore.pod" -}}
{{- $v := .Values }}
{{- $pg := $v.datastore.postgres }}
{{- $onPostgres := include "sqlstore.onPostgres" . | eq "true" }}
metadata:
  labels: # without the chart's version, whose change restarts no Pod
    {{- include "sqlstore.selector" . | nindent 4 }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $v.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "sqlstore.serviceAccount" . }}
  automountServiceAccountToken: false
  # Variables of Services whose names begin with sqlstore would look like settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $v.terminationGracePeriodSeconds }}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $v.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $v.affinity }}
  affinity:
    {{- toYaml $v.affinity | nindent 4 }}
  {{- else if $onPostgres }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "sqlstore.selector" . | nindent 16 }}
  {{- end }}
  {{- if $v.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml $v.topologySpreadConstraints | nindent 4 }}
  {{- else if $onPostgres }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "sqlstore.selector" . | nindent 10 }}
  {{- end }}
  # The user of the image.
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: sqlstore
      image: {{ printf "%s:%s" $v.image.repository (default .Chart.AppVersion $v.image.tag) | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args:
        - serve
        - --name=$(POD_NAME)
        - --data-dir=/data
        {{- if $onPostgres }}
        {{- with $pg.dsn }}
        - {{ printf "--datastore=%s" . | quote }}
        {{- end }}
        {{- if $pg.passwordSecret.name }}
        - --datastore-password-file=/etc/sqlstore/postgres/{{ $pg.passwordSecret.key }}
        {{- end }}
        {{- with $pg.maxConnections }}
        - --datastore-max-connections={{ . }}
        {{- end }}
        {{- end }}
        - --listen-client-urls={{ include "sqlstore.scheme" . }}://0.0.0.0:2379
        - --advertise-client-urls={{ include "sqlstore.url" . }}
        - --listen-metrics-urls=http://0.0.0.0:{{ $v.metrics.port }}
        # {{ if not $v.tls.plaintext }}Clients use https. {{ end }}The port of metrics and health has no TLS.
        - --insecure-plaintext
        {{- if $v.tls.plaintext }}
        # They keep web pages out, in the browser of somebody who forwards the port. gRPC does not mind them.
        - --cors={{ include "sqlstore.url" . }}
        - --host-whitelist={{ include "sqlstore.hosts" . | fromYamlArray | join "," }},localhost,127.0.0.1
        {{- else }}
        - --cert-file=/etc/sqlstore/tls/tls.crt
        - --key-file=/etc/sqlstore/tls/tls.key
        {{- if $v.tls.clientAuth }}
        - --client-cert-auth
        {{- if $v.tls.clientCA.secret }}
        - --trusted-ca-file=/etc/sqlstore/client-ca/{{ $v.tls.clientCA.key }}
        {{- else }}
        - --trusted-ca-file=/etc/sqlstore/tls/ca.crt
        {{- end }}
        {{- end }}
        {{- end }}
        {{- with $v.backups }}
        {{- if .to }}
        - {{ printf "--backup-to=%s" .to | quote }}
        - --backup-interval={{ .interval }}
        - --backup-full-interval={{ .fullInterval }}
        - --backup-keep={{ .keep }}
        {{- range .recipients }}
        - --backup-recipient={{ . }}
        {{- end }}
        {{- end }}
        {{- end }}
        {{- range $v.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        # For "kubectl exec ... -- sqlstore status".
        - name: SQLSTORE_ENDPOINT
          value: http://127.0.0.1:{{ $v.metrics.port }}
        {{- with $pg.dsnSecret.name }}
        - name: SQLSTORE_DATASTORE
          valueFrom:
            secretKeyRef:
              name: {{ . }}
              key: {{ $pg.dsnSecret.key }}
        {{- end }}
        {{- if or $pg.ca.secret $pg.ca.configMap }}
        - name: PGSSLROOTCERT
          value: /etc/sqlstore/postgres-ca/{{ $pg.ca.key }}
        {{- end }}
        {{- with $v.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $v.backups.credentialsSecret }}
      envFrom:
        - secretRef:
            name: {{ . }}
      {{- end }}
      ports:
        - name: client
          containerPort: 2379
        - name: metrics
          containerPort: {{ $v.metrics.port }}
      # /livez does not fail with the database, where a restart would not help; a start that takes long answers it.
      livenessProbe:
        httpGet:
          path: /livez
          port: metrics
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      # Without space, reads and deletes are still served, and must reach the Pod to make space.
      readinessProbe:
        httpGet:
          path: /readyz?exclude=NOSPACE
          port: metrics
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      # The image has no shell for a command.
      lifecycle:
        preStop:
          sleep:
            seconds: 5
      resources:
        {{- toYaml $v.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: data
          mountPath: /data
        - name: tmp
          mountPath: /tmp
        {{- if not $v.tls.plaintext }}
        - name: tls
          mountPath: /etc/sqlstore/tls
          readOnly: true
        {{- end }}
        {{- if $v.tls.clientCA.secret }}
        - name: client-ca
          mountPath: /etc/sqlstore/client-ca
          readOnly: true
        {{- end }}
        {{- if $pg.passwordSecret.name }}
        - name: postgres
          mountPath: /etc/sqlstore/postgres
          readOnly: true
        {{- end }}
        {{- if or $pg.ca.secret $pg.ca.configMap }}
        - name: postgres-ca
          mountPath: /etc/sqlstore/postgres-ca
          readOnly: true
        {{- end }}
        {{- with $v.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if $onPostgres }}
    - name: data # snapshots while they are sent
      emptyDir: {}
    {{- end }}
    {{- if not $v.tls.plaintext }}
    - name: tls
      secret:
        secretName: {{ include "sqlstore.tlsSecret" . }}
        defaultMode: 0440
    {{- end }}
    {{- if $v.tls.clientCA.secret }}
    - name: client-ca
      secret:
        secretName: {{ $v.tls.clientCA.secret }}
        items: # the authority's key has no place here
          - key: {{ $v.tls.clientCA.key }}
            path: {{ $v.tls.clientCA.key }}
    {{- end }}
    {{- if $pg.passwordSecret.name }}
    - name: postgres
      secret:
        secretName: {{ $pg.passwordSecret.name }}
        defaultMode: 0440
        items:
          - key: {{ $pg.passwordSecret.key }}
            path: {{ $pg.passwordSecret.key }}
    {{- end }}
    {{- if or $pg.ca.secret $pg.ca.configMap }}
    - name: postgres-ca
      {{- if $pg.ca.secret }}
      secret:
        secretName: {{ $pg.ca.secret }}
      {{- else }}
      configMap:
        name: {{ $pg.ca.configMap }}
      {{- end }}
        items:
          - key: {{ $pg.ca.key }}
            path: {{ $pg.ca.key }}
    {{- end }}
    {{- with $v.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
