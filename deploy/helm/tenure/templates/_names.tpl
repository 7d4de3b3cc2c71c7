{{- define "tenure.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "tenure.selector" -}}
app.kubernetes.io/name: tenure
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tenure.labels" -}}
{{ include "tenure.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "tenure.scheme" -}}
{{- if .Values.tls.existingSecret -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{- define "tenure.publicUrl" -}}
{{- .Values.publicUrl | default (printf "%s://%s.%s.svc:%v" (include "tenure.scheme" .) (include "tenure.name" .) .Release.Namespace .Values.service.port) -}}
{{- end -}}
