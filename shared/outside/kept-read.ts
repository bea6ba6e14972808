/**
 * A read whose answer is used for so long before it is made again. Who asks meanwhile shares it; a failure is not kept.
 *
 * Ages are counted by the wall clock, since a monotonic one may stand still while a sandbox is frozen between invocations.
 */
export function keepRead<T>(read: () => Promise<T>, keptMs: number): () => Promise<T> {
  let kept: { readonly answer: Promise<T>; readonly staleAtMs: number } | undefined;
  return () => {
    if (kept === undefined || Date.now() >= kept.staleAtMs) {
      const answer = read();
      kept = { answer, staleAtMs: Date.now() + keptMs };
      answer.catch(() => {
        kept = kept?.answer === answer ? undefined : kept;
      });
    }
    return kept.answer;
  };
}
