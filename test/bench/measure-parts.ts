import { describeError } from '#shared/kernel/errors.ts';
import type { Figure } from './figure.ts';
import type { Part } from './part.ts';

export interface Measured {
  readonly figures: readonly Figure[];
  /** Names of the parts that broke. */
  readonly broken: readonly string[];
}

/** One part after the other, because each needs the whole machine. One that breaks is said, and the others go on. */
export async function measureParts(
  parts: readonly Part[],
  options: { readonly scale: number; readonly isLong: boolean },
  say: (line: string) => void,
): Promise<Measured> {
  const figures: Figure[] = [];
  const broken: string[] = [];
  for (const { name, measure } of parts) {
    const log = (text: string): void => say(`${name}: ${text}`);
    try {
      figures.push(...(await measure({ ...options, log })));
    } catch (error) {
      broken.push(name);
      log(`could not be measured: ${describeError(error)}`);
    }
  }
  return { figures, broken };
}
