import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import type { Schema } from '#infra/kubernetes/structural-schema.ts';
import { freeze, isList, isObject, isSame, withFields } from './json-data.ts';

/** Who wrote which fields last. `Update` is everybody who wrote them in another way than by applying. */
export interface FieldManager {
  readonly name: string;
  readonly operation: 'Apply' | 'Update';
  /** Paths such as `.status.conditions[type="Ready"].reason`; an item of a list is a field as well. */
  readonly fields: ReadonlySet<string>;
}

export interface Managed {
  readonly value: JsonValue | undefined;
  readonly managers: readonly FieldManager[];
}

export interface FieldConflict {
  readonly manager: FieldManager;
  readonly field: string;
}

export type Application =
  | ({ readonly kind: 'applied' } & Managed)
  | { readonly kind: 'conflicts'; readonly conflicts: readonly FieldConflict[] }
  /** What was applied has fields that the schema does not know, or an item twice. */
  | { readonly kind: 'malformed'; readonly why: string };

/**
 * Server-side apply of one part of an object, as structured-merge-diff does it: objects are merged field by field, lists
 * with keys item by item, everything else is replaced as a whole. What this manager applied before, does not apply any
 * more and nobody else owns is taken away; what it changes of others is a conflict, or with `isForced` becomes its own.
 *
 * @param path of the part in the object: `.status`
 */
export function apply(
  live: Managed,
  config: JsonValue | undefined,
  schema: Schema,
  path: string,
  manager: { readonly name: string; readonly isForced: boolean },
): Application {
  let fields: ReadonlySet<string>;
  try {
    fields = fieldsOf(config, schema, path);
  } catch (error) {
    if (error instanceof Malformed) {
      return { kind: 'malformed', why: error.message };
    }
    throw error;
  }
  const isOwn = (other: FieldManager) => other.name === manager.name && other.operation === 'Apply';
  const before = live.managers.find(isOwn);
  const changed = new Set<string>();
  const merged =
    config === undefined ? live.value : mergeValue(live.value, config, schema, path, changed);
  const others = live.managers.filter((other) => !isOwn(other));
  const conflicts = others.flatMap((other) =>
    [...changed]
      .filter((field) => other.fields.has(field))
      .map((field) => ({ manager: other, field })),
  );
  if (conflicts.length > 0 && !manager.isForced) {
    return { kind: 'conflicts', conflicts };
  }
  const remaining = others.map((other) => without(other, changed));
  const own: FieldManager = { name: manager.name, operation: 'Apply', fields };
  const managers = joined(live.managers, [...remaining, own]);
  const isLess = before?.fields.values().some((field) => !fields.has(field)) === true;
  const value =
    isLess && merged !== undefined
      ? prune(merged, schema, path, before?.fields ?? new Set(), ownershipOf(managers))
      : merged;
  return { kind: 'applied', value, managers };
}

/** Who owns what after somebody wrote in another way than by applying. */
export function managersAfterUpdate(
  before: Managed,
  after: JsonValue | undefined,
  schema: Schema,
  path: string,
  name: string,
): readonly FieldManager[] {
  const old = leavesOf(before.value, schema, path);
  const current = leavesOf(after, schema, path);
  const removed = new Set([...old.keys()].filter((field) => !current.has(field)));
  const written = new Set(
    [...current].filter(([field, value]) => !isSame(old.get(field), value)).map(([field]) => field),
  );
  const touched = new Set([...removed, ...written]);
  const isOwn = (manager: FieldManager) => manager.name === name && manager.operation === 'Update';
  const fields = new Set([...(before.managers.find(isOwn)?.fields ?? []), ...written]);
  for (const field of removed) {
    fields.delete(field);
  }
  const others = before.managers.filter((manager) => !isOwn(manager));
  return joined(before.managers, [
    ...others.map((manager) => without(manager, touched)),
    { name, operation: 'Update', fields },
  ]);
}

/** `"drain-step" with subresource "status"` */
export function nameOfManager({ name, operation }: FieldManager, apiVersion: string): string {
  return `"${name}" with subresource "status"${operation === 'Update' ? ` using ${apiVersion}` : ''}`;
}

class Malformed extends Error {}

function without(manager: FieldManager, fields: ReadonlySet<string>): FieldManager {
  const rest = new Set([...manager.fields].filter((field) => !fields.has(field)));
  return rest.size === manager.fields.size ? manager : { ...manager, fields: rest };
}

/** The managers that own anything; the same list where nothing is different from before. */
function joined(
  before: readonly FieldManager[],
  after: readonly FieldManager[],
): readonly FieldManager[] {
  const owning = after.filter(({ fields }) => fields.size > 0);
  const isKnown = (manager: FieldManager) =>
    before.some(
      (other) =>
        other.name === manager.name &&
        other.operation === manager.operation &&
        other.fields.size === manager.fields.size &&
        other.fields.values().every((field) => manager.fields.has(field)),
    );
  return owning.length === before.length && owning.every(isKnown) ? before : owning;
}

/** Whether anybody owns a field or anything below it. */
function ownershipOf(managers: readonly FieldManager[]): (path: string) => boolean {
  const isBelow = (field: string, path: string) =>
    field.startsWith(path) &&
    (field.length === path.length || field[path.length] === '.' || field[path.length] === '[');
  return (path) =>
    managers.some(
      ({ fields }) => fields.has(path) || fields.values().some((field) => isBelow(field, path)),
    );
}

function fieldsOf(
  value: JsonValue | undefined,
  schema: Schema,
  path: string,
  into = new Set<string>(),
): ReadonlySet<string> {
  if (value === undefined) {
    return into;
  }
  const keys = schema['x-kubernetes-list-map-keys'];
  if (isObject(value) && schema.properties !== undefined) {
    const names = Object.keys(value);
    if (names.length === 0) {
      into.add(path);
    }
    for (const name of names) {
      const field = schema.properties[name];
      if (field === undefined) {
        throw new Malformed(`${path}.${name}: field not declared in schema`);
      }
      fieldsOf(value[name], field, `${path}.${name}`, into);
    }
  } else if (isList(value) && keys !== undefined && schema.items !== undefined) {
    for (const item of value) {
      const name = nameOfItem(item, keys);
      if (into.has(`${path}${name}`)) {
        throw new Malformed(`${path}: duplicate entries for key ${name}`);
      }
      into.add(`${path}${name}`);
      fieldsOf(item, schema.items, `${path}${name}`, into);
    }
  } else {
    checkType(value, schema, path);
    into.add(path);
  }
  return into;
}

/** A null is of every type. */
function checkType(value: JsonValue, { type = '' }: Schema, path: string): void {
  const kind = isList(value) ? 'array' : typeof value;
  const wanted = type === 'integer' ? 'number' : type;
  if (value !== null && wanted !== '' && kind !== wanted) {
    const what = wanted === 'number' ? 'numeric (int or float)' : wanted;
    throw new Malformed(`${path}: expected ${what}, got ${kind}`);
  }
}

/** `[type="Ready"]`, `[cell="a",name="main"]`: the keys in the order of their names. */
function nameOfItem(item: JsonValue, keys: readonly string[]): string {
  const values = keys
    .toSorted()
    .map((key) => `${key}=${JSON.stringify(isObject(item) ? (item[key] ?? null) : null)}`);
  return `[${values.join(',')}]`;
}

function mergeValue(
  live: JsonValue | undefined,
  config: JsonValue,
  schema: Schema,
  path: string,
  changed: Set<string>,
): JsonValue {
  const keys = schema['x-kubernetes-list-map-keys'];
  if (isObject(config) && isObject(live) && schema.properties !== undefined) {
    return mergeObjects(live, config, schema, path, changed);
  }
  if (isList(config) && keys !== undefined && schema.items !== undefined) {
    return mergeLists(isList(live) ? live : [], config, schema.items, keys, path, changed);
  }
  if (live !== undefined && isSame(live, config)) {
    return live;
  }
  for (const field of fieldsOf(config, schema, path)) {
    changed.add(field);
  }
  return config;
}

function mergeObjects(
  live: JsonObject,
  config: JsonObject,
  { properties = {} }: Schema,
  path: string,
  changed: Set<string>,
): JsonObject {
  const fields: Record<string, JsonValue> = {};
  for (const [name, value] of Object.entries(config)) {
    const field = properties[name];
    if (field !== undefined && value !== undefined) {
      fields[name] = mergeValue(live[name], value, field, `${path}.${name}`, changed);
    }
  }
  return withFields(live, fields);
}

/** Items in the order in which they are applied, and what is there besides in between; see `visitListItems` of typed. */
function mergeLists(
  live: readonly JsonValue[],
  config: readonly JsonValue[],
  schema: Schema,
  keys: readonly string[],
  path: string,
  changed: Set<string>,
): readonly JsonValue[] {
  const left = new Map(live.map((item) => [nameOfItem(item, keys), item]));
  const right = new Map(config.map((item) => [nameOfItem(item, keys), item]));
  const [leftNames, rightNames] = [[...left.keys()], [...right.keys()]];
  const shared = rightNames.filter((name) => left.has(name));
  const done = new Set<string>();
  const result: JsonValue[] = [];
  const take = (name: string) => {
    const item = right.get(name) ?? null;
    if (!left.has(name)) {
      changed.add(`${path}${name}`);
    }
    done.add(name);
    result.push(mergeValue(left.get(name), item, schema, `${path}${name}`, changed));
    if (shared[0] === name) {
      shared.shift();
    }
  };
  while (leftNames.length > 0 || rightNames.length > 0) {
    const [leftName, rightName] = [leftNames[0], rightNames[0]];
    if (leftName !== undefined && !right.has(leftName)) {
      result.push(left.get(leftName) ?? null);
      leftNames.shift();
    } else if (leftName !== undefined && (done.has(leftName) || shared[0] !== leftName)) {
      leftNames.shift();
    } else if (rightName !== undefined) {
      take(rightName);
      rightNames.shift();
    }
  }
  return isSame(live, result) ? live : freeze(result);
}

/** The value without what `last` held and nobody owns now; `undefined` where nothing is left of it. */
function prune(
  value: JsonValue,
  schema: Schema,
  path: string,
  last: ReadonlySet<string>,
  isOwned: (path: string) => boolean,
): JsonValue | undefined {
  const keys = schema['x-kubernetes-list-map-keys'];
  const { items } = schema;
  if (isObject(value) && schema.properties !== undefined && Object.keys(value).length > 0) {
    const fields = Object.fromEntries(
      Object.entries(value).map(([name, field]) => {
        const of = schema.properties?.[name];
        const isKept = of === undefined || field === undefined;
        return [name, isKept ? field : prune(field, of, `${path}.${name}`, last, isOwned)];
      }),
    );
    const rest = withFields(value, fields);
    // Lists that are empty count for nothing.
    if (rest === value || hasFields(rest, schema, path)) {
      return rest;
    }
    // What is owned as an empty object, and was not empty, becomes null: the schema refuses that.
    return isOwned(path) ? null : undefined;
  }
  if (isList(value) && keys !== undefined && items !== undefined) {
    const rest = value.flatMap((item) => {
      const place = `${path}${nameOfItem(item, keys)}`;
      const isGone = last.has(place) && !isOwned(place);
      const left = isGone ? undefined : prune(item, items, place, last, isOwned);
      return left === undefined ? [] : [left];
    });
    if (isSame(rest, value)) {
      return value;
    }
    return rest.length > 0 ? freeze(rest) : undefined;
  }
  return last.has(path) && !isOwned(path) ? undefined : value;
}

/** Whether there is any field below an object that can be owned. */
function hasFields(value: JsonObject, schema: Schema, path: string): boolean {
  const fields = fieldsOf(value, schema, path);
  return fields.size > (fields.has(path) ? 1 : 0);
}

/** Every field that can be owned, with what is in it; items of lists are there without a value. */
function leavesOf(
  value: JsonValue | undefined,
  schema: Schema,
  path: string,
  into = new Map<string, JsonValue>(),
): ReadonlyMap<string, JsonValue> {
  const keys = schema['x-kubernetes-list-map-keys'];
  if (isObject(value) && schema.properties !== undefined && Object.keys(value).length > 0) {
    for (const [name, field] of Object.entries(value)) {
      const of = schema.properties[name];
      if (of !== undefined) {
        leavesOf(field, of, `${path}.${name}`, into);
      }
    }
  } else if (isList(value) && keys !== undefined && schema.items !== undefined) {
    for (const item of value) {
      const place = `${path}${nameOfItem(item, keys)}`;
      into.set(place, null);
      leavesOf(item, schema.items, place, into);
    }
  } else if (value !== undefined) {
    into.set(path, value);
  }
  return into;
}
