/**
 * Which of two releases is the newer one, as a comparison for sorting: by their numbers, and a pre-release before the
 * release that it precedes. `undefined` where one of them is no version.
 */
export function compareVersions(one: string, other: string): number | undefined {
  const [a, b] = [partsOf(one), partsOf(other)];
  if (a === undefined || b === undefined) {
    return undefined;
  }
  for (const position of [0, 1, 2] as const) {
    if (a.numbers[position] !== b.numbers[position]) {
      return a.numbers[position] - b.numbers[position];
    }
  }
  if (a.preRelease === b.preRelease) {
    return 0;
  }
  if (a.preRelease === '' || b.preRelease === '') {
    return a.preRelease === '' ? 1 : -1;
  }
  return a.preRelease < b.preRelease ? -1 : 1;
}

function partsOf(version: string) {
  const found = /^(\d+)\.(\d+)\.(\d+)(?:-(.+))?$/.exec(version);
  if (found === null) {
    return undefined;
  }
  const [, major, minor, patch, preRelease = ''] = found;
  return { numbers: [Number(major), Number(minor), Number(patch)] as const, preRelease };
}
