/**
 * What a read of the outside world can answer.
 *
 * A timeout, a refusal, a partial list or an undecodable body is `unknown`, never `absent`: nothing may be deleted,
 * advanced or counted as safe because a question stayed unanswered.
 */
export type Read<T> = Present<T> | Absent | Unknown;

export interface Present<T> {
  readonly kind: 'present';
  readonly value: T;
}

export interface Absent {
  readonly kind: 'absent';
}

export interface Unknown {
  readonly kind: 'unknown';
  /** One sentence for people: what was asked and why there is no answer. Never holds a secret or a response body. */
  readonly why: string;
}

export function present<T>(value: T): Present<T> {
  return { kind: 'present', value };
}

export const absent: Absent = { kind: 'absent' };

export function unknown(why: string): Unknown {
  return { kind: 'unknown', why };
}

/** The same answer about something derived from what was read. */
export function mapRead<A, B>(read: Read<A>, map: (value: A) => B): Read<B> {
  return read.kind === 'present' ? present(map(read.value)) : read;
}
