import type { Figure } from './figure.ts';

export interface PartOptions {
  /** 1 for the sizes that the goals are about; 0.1 for a quick look at a tenth of them. */
  readonly scale: number;
  /** Minutes instead of one, where time itself is measured. */
  readonly isLong: boolean;
  /** One line about how far it is. */
  readonly log: (text: string) => void;
}

/** One group of figures that can be measured by itself. */
export interface Part {
  readonly name: string;
  /** For people who choose: what is measured. */
  readonly title: string;
  readonly measure: (options: PartOptions) => Promise<readonly Figure[]>;
}

/** A size at this scale, at least 1. */
export function scaled(size: number, { scale }: Pick<PartOptions, 'scale'>): number {
  return Math.max(1, Math.round(size * scale));
}
