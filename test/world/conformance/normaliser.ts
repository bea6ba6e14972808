import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { isList, isObject, textAt, withFields } from '#test/world/model/json-data.ts';

/** Times that rows write begin with this year; every other one is the server's. */
const writtenYear = '2001-';

const timePattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

/** Versions in messages. */
const versionInText =
  /(?<=ResourceVersion in (?:record|the precondition|precondition) \()\d+(?=\))/g;
const newestInText = /(?<=too old resource version: \d+ \()\d+(?=\))/g;

const uidPattern = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/**
 * Takes out of answers what no two servers have in common. Uids and versions become names in the order in which they are
 * first seen, so that what was the same, or another one, still is.
 */
export class Normaliser {
  readonly #names = new Map<string, string>();
  #listVersion: JsonValue | undefined;

  /** @param isNextPage the answer goes on with the list that was read before */
  body(value: JsonValue, isNextPage = false): JsonValue {
    if (!isObject(value)) {
      return typeof value === 'string' ? value.trim() : this.#any(value);
    }
    if (value['kind'] === 'Status') {
      return this.#status(value);
    }
    return isList(value['items']) || value['items'] === null
      ? this.#list(value, isNextPage)
      : this.#any(value);
  }

  event(event: JsonObject): JsonValue {
    const { type, object } = event;
    if (!isObject(object)) {
      return event;
    }
    if (type === 'BOOKMARK') {
      // A bookmark has an empty object of its kind, in which only the metadata says something.
      const { kind, apiVersion, metadata } = object;
      const told = withFields(isObject(metadata) ? metadata : {}, { resourceVersion: 'of now' });
      return { type, object: this.#any({ kind, apiVersion, metadata: told }) };
    }
    return type === 'ERROR' ? { type, object: this.#status(object) } : this.#any(event);
  }

  #list(list: JsonObject, isNextPage: boolean): JsonValue {
    const { metadata, items, ...rest } = list;
    // How many are left is told only where it is easy to know, and nobody asks.
    const { remainingItemCount: _remaining, ...told } = (metadata ?? {}) as JsonObject;
    // Others write as well, so that the version of a list says nothing, but for pages of one list.
    const version = told['resourceVersion'];
    const isSame = isNextPage && version === this.#listVersion;
    const resourceVersion = isSame ? 'of the page before' : 'of now';
    this.#listVersion = version;
    const more =
      told['continue'] === undefined ? {} : { continue: told['continue'] === '' ? '' : 'more' };
    return {
      ...rest,
      metadata: { ...told, ...more, resourceVersion },
      items: this.#any(items ?? null),
    };
  }

  /** Causes come in any order, and some of them twice; where there are several the message repeats them. */
  #status(status: JsonObject): JsonValue {
    const { details, message, metadata, ...rest } = status;
    const { causes, ...about } = (details ?? {}) as JsonObject;
    const told = [...new Set((isList(causes) ? causes : []).map(wordsOf))].toSorted();
    const hasContinue = isObject(metadata) && metadata['continue'] !== undefined;
    return this.#any({
      ...rest,
      ...(hasContinue ? { metadata: { continue: 'more' } } : {}),
      ...(message === undefined || told.length > 1 ? {} : { message }),
      ...(details === undefined ? {} : { details: about }),
      ...(told.length === 0 ? {} : { causes: told }),
    });
  }

  #any(value: JsonValue, field = ''): JsonValue {
    if (isList(value)) {
      return value.map((item) => this.#any(item, field));
    }
    if (isObject(value)) {
      const fields = Object.entries(value).flatMap(([name, part]) =>
        name === 'managedFields' || part === undefined
          ? []
          : [[name, this.#any(part, name)] as const],
      );
      return Object.fromEntries(fields);
    }
    return typeof value === 'string' ? this.#text(value, field) : value;
  }

  #text(text: string, field: string): string {
    if (field === 'resourceVersion') {
      return text === 'of now' ? text : this.#name('version', text);
    }
    if (timePattern.test(text)) {
      return text.startsWith(writtenYear) ? text : 'a time';
    }
    return firstLine(text)
      .replaceAll(uidPattern, (uid) => this.#name('uid', uid))
      .replaceAll(versionInText, (version) => this.#name('version', version))
      .replaceAll(newestInText, 'the oldest');
  }

  #name(sort: string, value: string): string {
    const key = `${sort} ${value}`;
    const known = this.#names.get(key);
    if (known !== undefined) {
      return known;
    }
    const count = [...this.#names.keys()].filter((other) => other.startsWith(`${sort} `)).length;
    const name = `${sort}-${count + 1}`;
    this.#names.set(key, name);
    return name;
  }
}

function wordsOf(cause: JsonValue): string {
  const fields = ['field', 'reason', 'message'];
  return fields.map((field) => firstLine(textIn(cause, field))).join(' | ');
}

function textIn(object: JsonValue, field: string): string {
  return (isObject(object) ? textAt(object, field) : undefined) ?? '';
}

/** Behind it a server prints what differs, in the language it is written in. */
function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
