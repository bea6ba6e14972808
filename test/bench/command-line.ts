import { parseArgs } from 'node:util';
import { describeError } from '#shared/kernel/errors.ts';
import type { Part } from './part.ts';

/** What the command line asks for, or what is wrong with it. */
export type Request =
  | { readonly kind: 'help' }
  | { readonly kind: 'wrong'; readonly problem: string }
  | {
      readonly kind: 'measure';
      readonly parts: readonly Part[];
      readonly isJson: boolean;
      readonly isLong: boolean;
      readonly scale: number;
    };

/** A quick look may be as small as this, and no machine is asked for more than ten times the usual. */
const scales = { least: 0.001, most: 10 };

export function helpText(parts: readonly Part[]): string {
  return `npm run bench [-- [<part>...] [--json] [--long] [--scale <factor>]]

Measures what the product is held to, beside a peer where there is one. All parts, when none is named:

${parts.map(({ name, title }) => `  ${name.padEnd(8)} ${title}`).join('\n')}

  --json            the last line of stdout is one JSON object
  --long            ten minutes instead of one for what is watched over time
  --scale <factor>  sizes and rates times this, for a quick look; the goals are about 1
  --help            this text

A goal that is missed is shown and does not change the exit code. It is 1 when a part could not be measured, and 2 for a
wrong command line. Example: npm run bench -- step drains --scale 0.1
`;
}

/** @param words the command line without the program */
export function readCommandLine(words: readonly string[], parts: readonly Part[]): Request {
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        long: { type: 'boolean', default: false },
        scale: { type: 'string', default: '1' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      return { kind: 'help' };
    }
    const unknown = positionals.filter((name) => !parts.some((part) => part.name === name));
    if (unknown.length > 0) {
      const known = parts.map(({ name }) => name).join(', ');
      return wrong(`there is no part ${unknown.join(', ')}; there are ${known}`);
    }
    const scale = Number(values.scale);
    if (!(scale >= scales.least && scale <= scales.most)) {
      return wrong(`--scale must be a number from ${scales.least} to ${scales.most}`);
    }
    const isChosen = ({ name }: Part) => positionals.length === 0 || positionals.includes(name);
    return {
      kind: 'measure',
      parts: parts.filter(isChosen),
      isJson: values.json,
      isLong: values.long,
      scale,
    };
  } catch (error) {
    return wrong(describeError(error));
  }
}

function wrong(problem: string): Request {
  return { kind: 'wrong', problem };
}
