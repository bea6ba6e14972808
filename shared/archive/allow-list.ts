import * as z from 'zod';
import type { Absent, Present, Read, Unknown } from '#shared/kernel/read.ts';
import { type RecordRead, type StepRecord, recordText } from '#shared/kernel/record.ts';
import { hashed } from './hashed.ts';

/*
 * What schemas of archived snapshots are made of. Each is an allow-list: what it does not name is left out. The types hold in
 * both directions, so a field that is new in a snapshot does not compile until somebody has decided about it here.
 */

/** Every field of `T`, and no other. */
type Fields<T> = { readonly [K in keyof T]-?: z.ZodType<T[K]> };

export function allow<T extends object>(fields: Fields<T>): z.ZodType<T> {
  // zod writes `| undefined` for a field that may be absent; nothing here makes one that is there and undefined.
  return z.object(fields) as z.ZodType as z.ZodType<T>;
}

/** The variants of a union, by their `kind`: every one of them, and no other. */
export function byKind<T extends { readonly kind: string }>(variants: {
  readonly [K in T['kind']]: z.ZodType<Extract<T, { readonly kind: K }>>;
}): z.ZodType<T> {
  return z.union(Object.values<z.ZodType<T>>(variants));
}

/** A word of a fixed set: every one of them, and no other. */
export function oneOf<T extends string>(words: { readonly [Word in T]: true }): z.ZodType<T> {
  return z.custom<T>((value) => typeof value === 'string' && Object.hasOwn(words, value));
}

/** An object whose keys are names that are not known beforehand. Not `z.record`, which no handler has at its start. */
export function entriesOf<T>(value: z.ZodType<T>): z.ZodType<{ readonly [key: string]: T }> {
  return z.object({}).catchall(value);
}

/** A read's answer. The sentence of one that is unknown never holds a secret or what a server answered. */
export function readOf<T>(value: z.ZodType<T>): z.ZodType<Read<T>> {
  return byKind<Read<T>>({
    present: allow<Present<T>>({ kind: z.literal('present'), value }),
    absent: allow<Absent>({ kind: z.literal('absent') }),
    unknown: allow<Unknown>({ kind: z.literal('unknown'), why: z.string() }),
  });
}

/**
 * A step's record as it was found. The text of ours is written anew from what was understood of it; that of any other may be
 * anything, so its hash stands for it.
 */
export function recordReadOf<R extends StepRecord>(record: z.ZodType<R>): z.ZodType<RecordRead<R>> {
  type Kind<K> = Extract<RecordRead<R>, { readonly kind: K }>;
  const textHash = z.string().transform((text) => hashed(text));
  return byKind<RecordRead<R>>({
    none: allow<Kind<'none'>>({ kind: z.literal('none'), text: z.literal(null) }),
    ours: allow<Kind<'ours'>>({ kind: z.literal('ours'), text: z.string(), record }).transform(
      (read) => ({ ...read, text: recordText(read.record) }),
    ),
    foreign: allow<Kind<'foreign'>>({
      kind: z.literal('foreign'),
      text: textHash,
      uid: textHash,
    }),
    unreadable: allow<Kind<'unreadable'>>({
      kind: z.literal('unreadable'),
      text: textHash,
      why: z.string(),
    }),
  });
}
