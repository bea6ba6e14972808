/** A process's environment, or the part of it that is OpenTelemetry's. */
export type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Whether anything is to be traced, by OpenTelemetry's own variables: an endpoint is named, and nothing switches it off. Read
 * before its SDK is loaded, and by hand, because each handler carries it along.
 */
export function isTracingOn(variables: Variables): boolean {
  const {
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint = '',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: tracesEndpoint = '',
    OTEL_TRACES_EXPORTER: exporter,
    OTEL_SDK_DISABLED: disabled = '',
  } = variables;
  return (
    `${endpoint}${tracesEndpoint}`.trim() !== '' &&
    exporter !== 'none' &&
    disabled.trim().toLowerCase() !== 'true'
  );
}
