import { traceparentAnnotation, traceparentTime } from '#shared/api/annotations.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import { type LeftContext, parseTraceparent } from '#shared/kernel/trace.ts';

/** What annotations say of the trace of whoever changed an object. */
export type FoundContext =
  | { readonly kind: 'none' }
  | { readonly kind: 'left'; readonly left: LeftContext; readonly ignored?: string }
  | { readonly kind: 'ignored'; readonly ignored: string };

const none: FoundContext = { kind: 'none' };

/** Beyond it a time is none, in characters. */
const maxTimeLength = 64;

/**
 * Reads the two annotations. What is no trace context is ignored, and a time that is none makes it one of unknown age;
 * `ignored` says which annotation it was, and nothing of its value.
 */
export function contextIn(annotations: Readonly<Record<string, string>>): FoundContext {
  const traceparent = annotations[traceparentAnnotation];
  if (traceparent === undefined) {
    return none;
  }
  const context = parseTraceparent(traceparent.trim());
  if (context === undefined) {
    return { kind: 'ignored', ignored: `${traceparentAnnotation} is no W3C traceparent` };
  }
  const time = annotations[traceparentTime];
  const at = time === undefined ? undefined : instantOf(time.trim());
  const left: LeftContext = { context, at };
  return time !== undefined && at === undefined
    ? { kind: 'left', left, ignored: `${traceparentTime} is neither Unix seconds nor RFC 3339` }
    : { kind: 'left', left };
}

/** The one that was left later; one whose time nobody knows is the older. */
export function laterOf(
  one: LeftContext | undefined,
  other: LeftContext | undefined,
): LeftContext | undefined {
  if (one === undefined || other === undefined) {
    return one ?? other;
  }
  return (other.at ?? -Infinity) > (one.at ?? -Infinity) ? other : one;
}

function instantOf(text: string): Instant | undefined {
  if (text.length > maxTimeLength) {
    return undefined;
  }
  // Ten digits are a time until the year 2286.
  return /^\d{9,10}$/.test(text) ? ((Number(text) * 1000) as Instant) : parseInstant(text);
}
