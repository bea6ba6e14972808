import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import type { Variables } from './config.ts';

/**
 * The sampler that `OTEL_TRACES_SAMPLER` names (OpenTelemetry Specification, "General SDK Configuration"). One that it does not
 * know, and none, is `parentbased_always_on`: whoever began a trace says whether it is recorded.
 */
export function samplerOf({
  OTEL_TRACES_SAMPLER: sampler = '',
  OTEL_TRACES_SAMPLER_ARG: samplerArgument,
}: Variables): Sampler {
  switch (sampler.trim()) {
    case 'always_on':
      return new AlwaysOnSampler();
    case 'always_off':
      return new AlwaysOffSampler();
    case 'traceidratio':
      return new TraceIdRatioBasedSampler(ratioOf(samplerArgument));
    case 'parentbased_always_off':
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({
        root: new TraceIdRatioBasedSampler(ratioOf(samplerArgument)),
      });
    default:
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
  }
}

/** All of them where it is no share. */
function ratioOf(text: string | undefined): number {
  const ratio = Number.parseFloat(text ?? '');
  return ratio >= 0 && ratio <= 1 ? ratio : 1;
}
