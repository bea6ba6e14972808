import { worldStart } from './virtual-clock.ts';

/** When a target has to be looked at although nothing changes. */
export interface RecordedWake {
  readonly everyMs: number;
  /** Since the world began. */
  readonly dueMs: number;
  /** It is due at that instant however lately there was a look. */
  readonly isInstant: boolean;
}

/** An instant that has passed and is still recorded is due again after this time. */
const againMs = 300_000;

/** What a step's record asks for, from the moment it was written. */
export function recordedWake(record: string, nowMs: number): RecordedWake | undefined {
  const { wake } = record === '' ? {} : (JSON.parse(record) as { readonly wake?: unknown });
  if (typeof wake !== 'object' || wake === null) {
    return undefined;
  }
  if ('every' in wake && typeof wake.every === 'number') {
    const everyMs = wake.every * 1_000;
    return { everyMs, dueMs: nowMs + everyMs, isInstant: false };
  }
  if ('at' in wake && typeof wake.at === 'string') {
    const dueMs = Math.max(nowMs, Date.parse(wake.at) - worldStart);
    return { everyMs: againMs, dueMs, isInstant: true };
  }
  return undefined;
}
