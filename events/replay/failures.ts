import type { Hint } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { SegmentReader } from '#shared/archive/archive.ts';
import type { Span } from '#shared/archive/find-segments.ts';
import { readArchive } from '#shared/archive/read-archive.ts';
import { nameOfTarget } from './selection.ts';

/** Why the last look failed that a step made for a hint; `undefined` where nobody knows. */
export type ReasonOf = (step: StepName, hint: Hint) => string | undefined;

/** Hints whose failures are kept; of those before, that of their target counts. */
const maxHints = 200_000;

/**
 * Why looks failed, as an archive has it. A hint that shared its look with others about the same target is not named there: then
 * the last failure of its step on that target counts.
 */
export async function failuresIn(
  reader: SegmentReader,
  cluster: string,
  steps: readonly StepName[],
  span: Span,
  signal: AbortSignal,
): Promise<ReasonOf> {
  const byHint = new Map<string, string>();
  const byTarget = new Map<string, string>();
  const query = { ...span, kinds: ['decision'], cluster, steps } as const;
  for await (const each of readArchive(reader, query)) {
    signal.throwIfAborted();
    if (each.kind === 'entry' && each.entry.kind === 'decision') {
      const { step, target, hint, result } = each.entry;
      if (result.kind === 'failed') {
        byTarget.set(keyOf(step, target), result.reason);
        byHint.delete(hint.id);
        byHint.set(hint.id, result.reason);
        const [oldest] = byHint.size > maxHints ? byHint.keys() : [];
        byHint.delete(oldest ?? '');
      }
    }
  }
  // A hint's id ends with its step.
  return (step, { id, data }) => byHint.get(id) ?? byTarget.get(keyOf(step, data));
}

function keyOf(step: StepName, target: Parameters<typeof nameOfTarget>[0]): string {
  return `${step} ${nameOfTarget(target)}`;
}
