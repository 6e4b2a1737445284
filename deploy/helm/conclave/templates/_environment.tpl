{{- define "conclave.temporal" -}}
- {name: TEMPORAL_ADDRESS, value: {{ required "temporal.address is missing: HOST:PORT of the Temporal service" .Values.temporal.address | quote }}}
- {name: TEMPORAL_NAMESPACE, value: {{ .Values.temporal.namespace | quote }}}
{{- if .Values.temporal.tls }}
- {name: TEMPORAL_TLS, value: "true"}
{{- end }}
{{- with .Values.temporal.apiKeySecret }}{{- if .name }}
- name: TEMPORAL_API_KEY
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}{{- end }}
{{- if .Values.temporal.certificateSecret }}
- {name: TEMPORAL_TLS_CLIENT_CERT_PATH, value: /etc/temporal/tls.crt}
- {name: TEMPORAL_TLS_CLIENT_KEY_PATH, value: /etc/temporal/tls.key}
{{- end }}
{{- if .Values.temporal.authoritySecret }}
- {name: TEMPORAL_TLS_SERVER_CA_CERT_PATH, value: /etc/temporal-authority/ca.crt}
{{- end }}
{{- end -}}

{{- define "conclave.environment" -}}
{{ include "conclave.temporal" . }}
- {name: AWS_REGION, value: {{ .Values.bucket.region | quote }}}
{{- with .Values.bucket.endpoint }}
- {name: AWS_ENDPOINT_URL_S3, value: {{ . | quote }}}
{{- end }}
{{- with .Values.bucket.credentialsSecret }}
- name: AWS_ACCESS_KEY_ID
  valueFrom: {secretKeyRef: {name: {{ . }}, key: access-key}}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ . }}, key: secret-key}}
{{- end }}
{{- with .Values.payloadKeySecret }}
- name: CONCLAVE_PAYLOAD_KEY
  valueFrom: {secretKeyRef: {name: {{ . }}, key: key}}
{{- end }}
{{- end -}}

{{- define "conclave.certificateMounts" -}}
{{- if .Values.temporal.certificateSecret }}
- {name: certificate, mountPath: /etc/temporal, readOnly: true}
{{- end }}
{{- if .Values.temporal.authoritySecret }}
- {name: authority, mountPath: /etc/temporal-authority, readOnly: true}
{{- end }}
{{- end -}}

{{- define "conclave.certificateVolumes" -}}
{{- with .Values.temporal.certificateSecret }}
- name: certificate
  secret: {secretName: {{ . }}}
{{- end }}
{{- with .Values.temporal.authoritySecret }}
- name: authority
  secret: {secretName: {{ . }}}
{{- end }}
{{- end -}}
