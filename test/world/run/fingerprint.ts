/**
 * 128 bits that stand for a value: the same for the same value, and for two different ones the same with a probability
 * of 2^-128. Among n values there are two alike with a probability of at most n² / 2^129: 1.5 · 10^-25 for ten million.
 */
export interface Fingerprint {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
}

/**
 * Takes in words and texts one after the other and ends in a fingerprint. The mixing and its constants are those of
 * MurmurHash3_x86_128 (public domain, Austin Appleby): fast, spread evenly, and safe as long as nobody builds collisions
 * on purpose, which no state of a simulation does.
 */
export class Mixer {
  #a = 0x9e37_79b9;
  #b = 0x85eb_ca6b;
  #c = 0xc2b2_ae35;
  #d = 0x27d4_eb2f;
  #length = 0;

  words(one: number, two: number, three: number, four: number): this {
    this.#length += 1;
    this.#a ^= Math.imul(rotated(Math.imul(one, 0x239b_961b), 15), 0xab0e_9789);
    this.#a = (Math.imul((rotated(this.#a, 19) + this.#b) | 0, 5) + 0x561c_cd1b) | 0;
    this.#b ^= Math.imul(rotated(Math.imul(two, 0xab0e_9789), 16), 0x38b3_4ae5);
    this.#b = (Math.imul((rotated(this.#b, 17) + this.#c) | 0, 5) + 0x0bca_a747) | 0;
    this.#c ^= Math.imul(rotated(Math.imul(three, 0x38b3_4ae5), 17), 0xa1e3_8b93);
    this.#c = (Math.imul((rotated(this.#c, 15) + this.#d) | 0, 5) + 0x96cd_1c35) | 0;
    this.#d ^= Math.imul(rotated(Math.imul(four, 0xa1e3_8b93), 18), 0x239b_961b);
    this.#d = (Math.imul((rotated(this.#d, 13) + this.#a) | 0, 5) + 0x32ac_3b17) | 0;
    return this;
  }

  fingerprint({ a, b, c, d }: Fingerprint): this {
    return this.words(a, b, c, d);
  }

  /** Any number of JSON. */
  number(value: number): this {
    return Number.isSafeInteger(value)
      ? this.words(1, value | 0, Math.floor(value / 2 ** 32), 0)
      : this.text(String(value));
  }

  text(text: string): this {
    const { length } = text;
    this.words(2, length, 0, 0);
    for (let at = 0; at < length; at += 8) {
      this.words(pair(text, at), pair(text, at + 2), pair(text, at + 4), pair(text, at + 6));
    }
    return this;
  }

  end(): Fingerprint {
    let a = this.#a ^ this.#length;
    let b = this.#b ^ this.#length;
    let c = this.#c ^ this.#length;
    let d = this.#d ^ this.#length;
    a = (a + b + c + d) | 0;
    b = (b + a) | 0;
    c = (c + a) | 0;
    d = (d + a) | 0;
    a = spread(a);
    b = spread(b);
    c = spread(c);
    d = spread(d);
    a = (a + b + c + d) | 0;
    return { a, b: (b + a) | 0, c: (c + a) | 0, d: (d + a) | 0 };
  }
}

/** Two UTF-16 units of a text in one word; beyond its end there are zeros. */
function pair(text: string, at: number): number {
  const { length } = text;
  const low = at < length ? text.charCodeAt(at) : 0;
  const high = at + 1 < length ? text.charCodeAt(at + 1) : 0;
  return low | (high << 16);
}

function rotated(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}

function spread(word: number): number {
  let mixed = Math.imul(word ^ (word >>> 16), 0x85eb_ca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35);
  return mixed ^ (mixed >>> 16);
}

export function isSame(one: Fingerprint, other: Fingerprint): boolean {
  return one.a === other.a && one.b === other.b && one.c === other.c && one.d === other.d;
}

/** For keys of maps. */
export function textOf({ a, b, c, d }: Fingerprint): string {
  return `${a} ${b} ${c} ${d}`;
}

/** Of several values in any order: a sum, since each of them is spread evenly by itself. */
export function ofMany(prints: readonly Fingerprint[]): Fingerprint {
  let [a, b, c, d] = [prints.length, 0, 0, 0];
  for (const print of prints) {
    a = (a + print.a) | 0;
    b = (b + print.b) | 0;
    c = (c + print.c) | 0;
    d = (d + print.d) | 0;
  }
  return { a, b, c, d };
}

const known = new WeakMap<object, Fingerprint>();

/**
 * Of a value as JSON has it; the order of fields does not count. A Set counts as its members in any order, bytes as
 * themselves. What is frozen is looked into once in its life: objects of the models are shared by all states they are in.
 */
export function ofValue(value: unknown): Fingerprint {
  if (typeof value !== 'object' || value === null) {
    return mixed(new Mixer(), value).end();
  }
  const found = known.get(value);
  if (found !== undefined) {
    return found;
  }
  const print = ofObject(value);
  if (Object.isFrozen(value)) {
    known.set(value, print);
  }
  return print;
}

/** The same for an object whose owner never changes it, though it is not frozen. */
export function ofConstant(value: object): Fingerprint {
  const found = known.get(value);
  if (found !== undefined) {
    return found;
  }
  const print = ofObject(value);
  known.set(value, print);
  return print;
}

function ofObject(value: object): Fingerprint {
  if (value instanceof Set) {
    return ofMany([...value].map(ofValue));
  }
  const mixer = new Mixer();
  if (value instanceof Uint8Array) {
    return mixer.words(3, value.length, 0, 0).text(Buffer.from(value).toString('latin1')).end();
  }
  if (Array.isArray(value)) {
    mixer.words(4, value.length, 0, 0);
    for (const item of value) {
      mixed(mixer, item);
    }
    return mixer.end();
  }
  const fields = value as { readonly [name: string]: unknown };
  const names = Object.keys(fields).filter((name) => fields[name] !== undefined);
  mixer.words(5, names.length, 0, 0);
  for (const name of names.toSorted()) {
    mixed(mixer.text(name), fields[name]);
  }
  return mixer.end();
}

function mixed(mixer: Mixer, value: unknown): Mixer {
  if (typeof value === 'string') {
    return mixer.text(value);
  }
  if (typeof value === 'number') {
    return mixer.number(value);
  }
  if (typeof value === 'boolean') {
    return mixer.words(6, Number(value), 0, 0);
  }
  if (typeof value === 'object' && value !== null) {
    return mixer.fingerprint(ofValue(value));
  }
  return mixer.words(value === null ? 7 : 8, 0, 0, 0);
}
