import { type Hint, hintSchema, maxHintBytes } from '#events/hint.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';

/** For whom hints are accepted: by the names of the variables that say it. */
export interface HintReaderConfig {
  /** The cluster id. */
  readonly MILLRACE_CLUSTER_ID: string;
  /** Those that are worked in; every one where there is none. */
  readonly MILLRACE_NAMESPACES: readonly string[];
}

/** Why a hint is refused that may be good elsewhere. */
export const otherCluster = 'the hint is of another cluster';

/**
 * A hint of this cluster, an allowed namespace and this step's kind, or the sentence why not: what a function accepts, and
 * what is worth sending to it again.
 *
 * @param kind what the step reconciles
 */
export function readHint(
  body: string,
  kind: ResourceKind,
  config: HintReaderConfig,
): Hint | string {
  if (Buffer.byteLength(body) > maxHintBytes) {
    // Also bounds what the refusals below may quote.
    return `the message is longer than the ${maxHintBytes} bytes of a hint`;
  }
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    return 'the message is not JSON';
  }
  const parsed = hintSchema.safeParse(json);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const parts = [issue?.path.join('.') ?? '', issue?.message ?? ''].filter((part) => part !== '');
    return `the message is no hint: ${parts.join(' ')}`;
  }
  const hint = parsed.data;
  if (hint.source !== config.MILLRACE_CLUSTER_ID) {
    return otherCluster;
  }
  if (hint.data.kind !== kind || !hint.subject.startsWith(`${resourceTypes[kind].plural}/`)) {
    return `the hint is not about a ${kind}`;
  }
  if (
    config.MILLRACE_NAMESPACES.length > 0 &&
    !config.MILLRACE_NAMESPACES.includes(hint.data.namespace)
  ) {
    return 'the namespace is not among those allowed';
  }
  return hint;
}
