import { createHash } from 'node:crypto';

/** What {@link hashed} makes. */
export const hashPattern = /^sha256:[0-9a-f]{12}$/;

/** Stands for a text that is not kept: the same for the same text, and of a hash the hash itself. */
export function hashed(text: string, ...salt: readonly string[]): string {
  if (hashPattern.test(text)) {
    return text;
  }
  const hash = createHash('sha256').update(JSON.stringify([...salt, text]));
  return `sha256:${hash.digest('hex').slice(0, 12)}`;
}
