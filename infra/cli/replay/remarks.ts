import type { HintRemark } from '#events/replay/replay-hints.ts';
import type { LetterRemark } from '#events/replay/replay-letters.ts';
import type { OutputFormat } from '../output.ts';
import { remark } from '../terminal.ts';
import { counted } from './told.ts';

/** Remarks that are told one by one; the rest is counted. */
const maxRemarks = 20;
/** The same where a program reads them. */
const maxRemarksInJson = 1_000;

/** What is said about single letters and lines while it goes on: the first few, and how many more. */
export class Remarks {
  readonly all: (LetterRemark | HintRemark)[] = [];
  readonly #output: OutputFormat;
  #count = 0;

  constructor(output: OutputFormat) {
    this.#output = output;
  }

  readonly add = (one: LetterRemark | HintRemark): void => {
    this.#count += 1;
    if (this.all.length < maxRemarksInJson) {
      this.all.push(one);
    }
    if (this.#output === 'table' && this.#count <= maxRemarks) {
      const what = 'where' in one ? one.where : `${one.step}, letter ${one.id}`;
      remark(`${what}: ${one.why}`);
    }
  };

  tellRest(): void {
    if (this.#output === 'table' && this.#count > maxRemarks) {
      remark(`and ${counted(this.#count - maxRemarks, 'more remark')}`);
    }
  }
}
