import { compare, valid } from 'semver';

/** Which of two releases is the newer one, as a comparison for sorting; `undefined` where one of them is no version. */
export function compareVersions(one: string, other: string): number | undefined {
  return valid(one) === null || valid(other) === null ? undefined : compare(one, other);
}
