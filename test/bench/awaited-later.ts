/**
 * For a promise that is awaited only after others. Its failure is told then; until somebody awaits it, Node would take it
 * for an error that nobody handles, and end the process.
 */
export function awaitedLater<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}
