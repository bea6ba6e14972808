import { constants, existsSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { type DataPlaneState, noBackups } from './state.ts';

/**
 * The layout of the state. A file of another one is refused, since nothing could be made of half of it; one of the version
 * before had no backups, and all else as it is now.
 */
const version = 3;
const versionWithoutBackups = 2;

const names = ['state-0.json', 'state-1.json'] as const;

const slotSchema = z
  .object({
    version: z.literal([version, versionWithoutBackups]),
    sequence: z.int(),
    state: z.custom<DataPlaneState>((value) => typeof value === 'object' && value !== null),
    end: z.int(),
  })
  .refine(({ sequence, end }) => sequence === end)
  .transform(({ sequence, state }): Slot => ({
    sequence,
    state: { ...state, backups: state.backups ?? noBackups },
  }));

interface Slot {
  readonly sequence: number;
  readonly state: DataPlaneState;
}

/**
 * Keeps the state in two files that are written in turn, so that one of them is always whole.
 *
 * They are written in place: a file that replaces another by its name makes a journalling file system write it to the
 * disk at once, and a process that keeps its state at every event would do little else.
 */
export class StateFile {
  readonly #paths: readonly string[];
  readonly #descriptors = new Map<string, number>();
  #sequence: number | undefined;

  constructor(folder: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#paths = names.map((name) => join(folder, name));
  }

  /** Throws where there is a state that cannot be read: starting anew would lose data without a word. */
  load(): DataPlaneState | undefined {
    const present = this.#paths.filter((path) => existsSync(path));
    const [newest] = present
      .flatMap((path) => readSlot(path) ?? [])
      .toSorted((a, b) => b.sequence - a.sequence);
    // The very first write was cut off: nobody has seen anything of that state.
    if (newest === undefined && present.length > 1) {
      throw new Error(`${present.join(' and ')} hold no state`);
    }
    this.#sequence = newest?.sequence ?? 0;
    return newest?.state;
  }

  /** Synchronous, so that nothing of a state comes out before the state is kept. */
  keep(state: DataPlaneState): void {
    if (this.#sequence === undefined) {
      this.load();
    }
    const sequence = (this.#sequence ?? 0) + 1;
    // What an earlier, longer state left behind the end of the line is never read.
    const line = Buffer.from(`${JSON.stringify({ version, sequence, state, end: sequence })}\n`);
    const written = writeSync(this.#descriptorOf(sequence), line, 0, line.length, 0);
    if (written !== line.length) {
      throw new Error(`only ${written} of ${line.length} bytes of the state could be kept`);
    }
    this.#sequence = sequence;
  }

  #descriptorOf(sequence: number): number {
    const path = this.#paths[sequence % this.#paths.length] ?? '';
    const descriptor =
      this.#descriptors.get(path) ?? openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
    this.#descriptors.set(path, descriptor);
    return descriptor;
  }
}

/**
 * The state in one file; `undefined` where its last write was cut off, which leaves the head of the new state before the
 * tail of an older one, and so a different number at each end.
 */
function readSlot(path: string): Slot | undefined {
  const [line = ''] = readFileSync(path, 'utf8').split('\n', 1);
  let body: unknown;
  try {
    body = JSON.parse(line);
  } catch {
    return undefined;
  }
  const found = z.looseObject({ version: z.number() }).safeParse(body);
  if (!found.success || ![version, versionWithoutBackups].includes(found.data.version)) {
    throw new Error(`${path} is no state of this version`);
  }
  const parsed = slotSchema.safeParse(body);
  return parsed.success ? parsed.data : undefined;
}
