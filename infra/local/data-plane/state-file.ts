import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import type { DataPlaneState } from './state.ts';

/** The layout of the state. A file of another one is refused, since nothing could be made of half of it. */
const version = 1;

const fileSchema = z.object({
  version: z.literal(version),
  state: z.custom<DataPlaneState>((value) => typeof value === 'object' && value !== null),
});

/** Keeps the state in one file that is always whole: it is written beside and renamed. */
export class StateFile {
  readonly #path: string;

  constructor(folder: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#path = join(folder, 'state.json');
  }

  /** Throws where the file is there and cannot be read: starting anew would lose data without a word. */
  load(): DataPlaneState | undefined {
    if (!existsSync(this.#path)) {
      return undefined;
    }
    const parsed = fileSchema.safeParse(JSON.parse(readFileSync(this.#path, 'utf8')));
    if (!parsed.success) {
      throw new Error(`${this.#path} is no state of this version`);
    }
    return parsed.data.state;
  }

  /** Synchronous, so that nothing of a state comes out before the state is kept. */
  keep(state: DataPlaneState): void {
    const beside = `${this.#path}.new`;
    writeFileSync(beside, JSON.stringify({ version, state }), { mode: 0o600 });
    renameSync(beside, this.#path);
  }
}
