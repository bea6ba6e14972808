import type { JsonObject, JsonValue } from '#shared/kube/json.ts';

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isList(value: unknown): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** The object at a field, or an empty one where there is none. */
export function objectAt(object: JsonObject | undefined, field: string): JsonObject {
  const value = object?.[field];
  return isObject(value) ? value : empty;
}

/** The list at a field, or an empty one where there is none. */
export function listAt(object: JsonObject | undefined, field: string): readonly JsonValue[] {
  const value = object?.[field];
  return isList(value) ? value : [];
}

export function textAt(object: JsonObject | undefined, field: string): string | undefined {
  const value = object?.[field];
  return typeof value === 'string' ? value : undefined;
}

export function numberAt(object: JsonObject | undefined, field: string): number | undefined {
  const value = object?.[field];
  return typeof value === 'number' ? value : undefined;
}

const empty: JsonObject = Object.freeze({});

/**
 * What a server receives when a client sends this value: a frozen copy without the fields that are undefined, as it is
 * after `JSON.stringify` and `JSON.parse`, in a third of their time.
 */
export function received(value: unknown): JsonValue {
  if (typeof value === 'string' || typeof value === 'boolean') {
    return value;
  }
  if (typeof value === 'number') {
    return Number.isFinite(value) ? value : null;
  }
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  if (Array.isArray(value)) {
    return Object.freeze(value.map(received));
  }
  if (value instanceof Date) {
    return value.toJSON();
  }
  const copy: Record<string, JsonValue> = {};
  for (const key in value) {
    const field = (value as Record<string, unknown>)[key];
    if (field !== undefined && typeof field !== 'function') {
      copy[key] = received(field);
    }
  }
  return Object.freeze(copy);
}

/** Whether two values are the same as JSON. Parts that are shared are not looked into. */
export function isSame(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  if (one === other) {
    return true;
  }
  if (isList(one)) {
    return isList(other) && hasSameItems(one, other);
  }
  if (!isObject(one) || !isObject(other)) {
    return false;
  }
  let count = 0;
  for (const key in one) {
    count += 1;
    if (!isSame(one[key], other[key])) {
      return false;
    }
  }
  return count === Object.keys(other).length;
}

function hasSameItems(one: readonly JsonValue[], other: readonly JsonValue[]): boolean {
  return one.length === other.length && one.every((item, index) => isSame(item, other[index]));
}

/** The object with these fields set, and those that are `undefined` taken away; the same object where nothing changes. */
export function withFields<T extends JsonObject>(object: T, fields: JsonObject): T {
  let isChanged = false;
  let isShorter = false;
  for (const key in fields) {
    if (object[key] !== fields[key]) {
      isChanged = true;
      isShorter ||= fields[key] === undefined;
    }
  }
  if (!isChanged) {
    return object;
  }
  // A field that is deleted would make every later look at the object slow, so it is not copied in the first place.
  const result: Record<string, JsonValue | undefined> = isShorter
    ? withoutFields(object, fields)
    : { ...object };
  for (const key in fields) {
    if (fields[key] !== undefined) {
      result[key] = freeze(fields[key]);
    }
  }
  return Object.freeze(result) as T;
}

function withoutFields(
  object: JsonObject,
  fields: JsonObject,
): Record<string, JsonValue | undefined> {
  const result: Record<string, JsonValue | undefined> = {};
  for (const key in object) {
    if (!(key in fields) || fields[key] !== undefined) {
      result[key] = object[key];
    }
  }
  return result;
}

/**
 * Freezes a value through and through: parts of it will be shared by many objects, by forks and by answers. What is
 * frozen already is not looked into.
 */
export function freeze<T extends JsonValue | undefined>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const part of Object.values(value)) {
      freeze(part);
    }
    Object.freeze(value);
  }
  return value;
}
