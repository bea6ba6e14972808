/** A request is given up when its signal says so. The signal may outlive many requests, and forgets each that is answered. */
export function rejectOnAbort(
  signal: AbortSignal | undefined,
  answered: Promise<unknown>,
  reject: (error: Error) => void,
): void {
  const onAbort = (): void => reject(new Error('aborted'));
  const forget = (): void => signal?.removeEventListener('abort', onAbort);
  signal?.addEventListener('abort', onAbort);
  answered.then(forget, forget);
}
