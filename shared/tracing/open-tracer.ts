import type { Tracer } from '#shared/kernel/trace.ts';
import { type Variables, isTracingOn } from './config.ts';
import type { OtlpOptions } from './otlp-tracer.ts';

/**
 * The tracer that a process's environment asks for; `undefined` where it asks for none, and then OpenTelemetry's SDK is not
 * even loaded.
 */
export async function openTracer(
  environment: Variables,
  options: OtlpOptions,
): Promise<Tracer | undefined> {
  if (!isTracingOn(environment)) {
    return undefined;
  }
  const { otlpTracer } = await import('./otlp-tracer.ts');
  return otlpTracer(environment, options);
}
