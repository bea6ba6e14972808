/** A read whose answer is kept. */
export interface KeptRead<T> {
  (): Promise<T>;
  /** The next who asks is not answered by what is kept: it was found to be no longer good. */
  forget(): void;
}

/**
 * A read whose answer is used for so long before it is made again. Who asks meanwhile shares it; a failure is not kept.
 *
 * @param nowMs milliseconds of the clock that ages are counted by. The wall clock is for handlers, since a monotonic one
 *   may stand still while a sandbox is frozen between invocations. A process that runs for ever brings a monotonic one,
 *   which nobody sets back.
 */
export function keepRead<T>(
  read: () => Promise<T>,
  keptMs: number,
  nowMs: () => number = () => Date.now(),
): KeptRead<T> {
  let kept: { readonly answer: Promise<T>; readonly staleAtMs: number } | undefined;
  const ask = () => {
    if (kept === undefined || nowMs() >= kept.staleAtMs) {
      const answer = read();
      kept = { answer, staleAtMs: nowMs() + keptMs };
      answer.catch(() => {
        kept = kept?.answer === answer ? undefined : kept;
      });
    }
    return kept.answer;
  };
  const forget = () => {
    kept = undefined;
  };
  return Object.assign(ask, { forget });
}
