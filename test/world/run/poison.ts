/** Where the world's own harness may ask what time it really is: for rates and progress. */
export const realNowMs: () => number = performance.now.bind(performance);

/**
 * From here on the wall clock, timers and randomness of the process throw: whatever runs in the world and asks for them
 * would make a run depend on more than its seed. Not undone; for a process or thread that only simulates.
 */
export function poisonClocks(): void {
  const RealDate = Date;
  const poisoned = (what: string) => (): never => {
    throw new Error(`${what} was asked for in the world, which has a clock and chance of its own`);
  };
  const PoisonedDate = new Proxy(RealDate, {
    construct: (target, values: []) =>
      values.length === 0 ? poisoned('new Date()')() : new target(...values),
    get: (target, key: keyof DateConstructor) =>
      key === 'now' ? poisoned('Date.now()') : target[key],
  });
  Object.assign(globalThis, {
    Date: PoisonedDate,
    setTimeout: poisoned('setTimeout'),
    setInterval: poisoned('setInterval'),
  });
  Math.random = poisoned('Math.random()');
  performance.now = poisoned('performance.now()');
  AbortSignal.timeout = poisoned('AbortSignal.timeout()');
}
