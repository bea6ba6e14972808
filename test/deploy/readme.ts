import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const root = new URL('../../', import.meta.url);

/** A text of the README that is another one here, and why. */
export interface Substitution {
  readonly find: string;
  readonly replace: string;
  readonly why: string;
}

/** A README as what it is meant to be: commands that somebody copies in their order. */
export class Readme {
  readonly #text: string;
  readonly #substitutions: readonly Substitution[];

  private constructor(text: string, substitutions: readonly Substitution[]) {
    this.#text = text;
    this.#substitutions = substitutions;
  }

  /** Throws where a substitution is for something that it does not say any more. */
  static async read(path: string, substitutions: readonly Substitution[]): Promise<Readme> {
    const text = await readFile(fileURLToPath(new URL(path, root)), 'utf8');
    const stale = substitutions.find(({ find }) => !text.includes(find));
    if (stale !== undefined) {
      throw new Error(`${path} does not say any more: ${stale.find}`);
    }
    return new Readme(text, substitutions);
  }

  /**
   * The blocks of a language right below a heading, before the next heading of whatever level.
   *
   * @param heading as it stands there: `### 1. Build`
   */
  blocks(heading: string, language: 'sh' | 'yaml'): readonly string[] {
    return this.#blocksUntil(heading, language, /^#+ /);
  }

  /** The same of a whole chapter, before the next one. */
  chapter(heading: string, language: 'sh' | 'yaml'): readonly string[] {
    return this.#blocksUntil(heading, language, /^## /);
  }

  #blocksUntil(heading: string, language: string, end: RegExp): readonly string[] {
    const below = this.#text.split(`\n${heading}\n`);
    if (below.length !== 2) {
      throw new Error(`the heading "${heading}" is there ${below.length - 1} times`);
    }
    const fenced = before(end, below[1] ?? '').matchAll(/^```(\w+)\n(.*?)^```$/gms);
    const blocks = [...fenced].flatMap(([, found, block = '']) =>
      found === language ? [this.#substituted(block)] : [],
    );
    if (blocks.length === 0) {
      throw new Error(`there is nothing to do below "${heading}"`);
    }
    return blocks;
  }

  #substituted(block: string): string {
    return this.#substitutions.reduce(
      (text, { find, replace }) => text.replaceAll(find, () => replace),
      block,
    );
  }
}

/** Up to the next heading of that form; a comment of a shell is none. */
function before(heading: RegExp, text: string): string {
  const lines = text.split('\n');
  let isFenced = false;
  const end = lines.findIndex((line) => {
    isFenced = line.startsWith('```') ? !isFenced : isFenced;
    return !isFenced && heading.test(line);
  });
  return lines.slice(0, end === -1 ? undefined : end).join('\n');
}
