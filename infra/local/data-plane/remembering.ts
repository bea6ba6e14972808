/** More different values than one shard ever has at a time. */
const limit = 1_000;

/**
 * The same pure function, which remembers what it made of a value: records are looked at far more often than they are
 * written. It forgets everything when it holds too much, so that it never grows without bound.
 */
export function remembering<T>(compute: (value: string) => T): (value: string) => T {
  const known = new Map<string, T>();
  return (value) => {
    const before = known.get(value);
    if (before !== undefined) {
      return before;
    }
    if (known.size >= limit) {
      known.clear();
    }
    const made = compute(value);
    known.set(value, made);
    return made;
  };
}
