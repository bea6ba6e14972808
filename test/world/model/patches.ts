import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { isList, isObject, isSame, textAt, withFields } from './json-data.ts';

/** A patch that cannot be applied to the document: the server refuses it as a whole. */
export const refusedPatch = Symbol('refused patch');
type Refused = typeof refusedPatch;

/** An item of a list in a strategic merge patch does not say which one it is. */
export class KeylessItem extends Error {
  constructor(item: JsonValue, key: string) {
    const names = isObject(item) ? Object.keys(item).toSorted() : [];
    const told = names.map((name) => `${name}:${textAt(item as JsonObject, name)}`).join(' ');
    super(`map: map[${told}] does not contain declared merge key: ${key}`);
  }
}

/** JSON merge patch (RFC 7396). Unchanged parts of the target are shared with the result. */
export function mergePatch(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) {
    return target !== undefined && isSame(target, patch) ? target : patch;
  }
  const base = isObject(target) ? target : undefined;
  const changes: Record<string, JsonValue | undefined> = {};
  for (const key of Object.keys(patch)) {
    const value = patch[key] ?? null;
    changes[key] = value === null ? undefined : mergePatch(base?.[key], value);
  }
  return withFields(base ?? Object.freeze({}), changes);
}

/**
 * JSON patch (RFC 6902), as Kubernetes applies it. Where the last part of a path is absent a `test` for `null` passes, a
 * `replace` adds, and a `copy` copies null; a `remove` or a `move` refuses the whole patch. So does any operation where
 * more of its path is absent.
 */
export function jsonPatch(
  document: JsonValue,
  operations: readonly JsonValue[],
): JsonValue | Refused {
  let result: JsonValue | Refused = document;
  for (const operation of operations) {
    if (!isObject(operation)) {
      return refusedPatch;
    }
    result = applyOperation(result, operation);
    if (result === refusedPatch) {
      return refusedPatch;
    }
  }
  return result;
}

function applyOperation(document: JsonValue, operation: JsonObject): JsonValue | Refused {
  const path = partsOf(operation['path']);
  const value = operation['value'] ?? null;
  if (path === undefined) {
    return refusedPatch;
  }
  switch (textAt(operation, 'op') ?? '') {
    case 'test': {
      const found = valueAt(document, path);
      return found !== refusedPatch && isSame(found ?? null, value) ? document : refusedPatch;
    }
    case 'add':
      return changeAt(document, path, value, 'add');
    case 'remove':
      return changeAt(document, path, undefined, 'remove');
    case 'replace':
      return changeAt(document, path, value, 'replace');
    case 'copy':
    case 'move':
      return carry(document, operation, path);
    default:
      return refusedPatch;
  }
}

function carry(
  document: JsonValue,
  operation: JsonObject,
  path: readonly string[],
): JsonValue | Refused {
  const from = partsOf(operation['from']);
  const found = from === undefined ? refusedPatch : valueAt(document, from);
  if (from === undefined || found === refusedPatch) {
    return refusedPatch;
  }
  const rest =
    operation['op'] === 'move' ? changeAt(document, from, undefined, 'remove') : document;
  return rest === refusedPatch ? refusedPatch : changeAt(rest, path, found ?? null, 'add');
}

/** A JSON pointer's parts (RFC 6901); `undefined` where the text is no pointer. */
function partsOf(pointer: JsonValue | undefined): readonly string[] | undefined {
  if (typeof pointer !== 'string' || (pointer !== '' && !pointer.startsWith('/'))) {
    return undefined;
  }
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** The value there; `undefined` where only the last part of the path is absent, refused where more is. */
function valueAt(document: JsonValue, path: readonly string[]): JsonValue | undefined | Refused {
  let value: JsonValue | undefined = document;
  for (const part of path) {
    if (isObject(value)) {
      value = value[part];
    } else if (isList(value)) {
      const index = indexOf(part, value.length - 1);
      if (index === undefined) {
        return refusedPatch;
      }
      value = value[index];
    } else {
      return refusedPatch;
    }
  }
  return value;
}

function indexOf(part: string, highest: number): number | undefined {
  const index = Number(part);
  return /^(0|[1-9]\d*)$/.test(part) && index <= highest ? index : undefined;
}

type Change = 'add' | 'remove' | 'replace';

/** The document with another value at the path. */
function changeAt(
  document: JsonValue,
  path: readonly string[],
  value: JsonValue | undefined,
  how: Change,
): JsonValue | Refused {
  const [part, ...rest] = path;
  if (part === undefined) {
    return value ?? refusedPatch;
  }
  if (isList(document)) {
    return changeItem(document, part, rest, value, how);
  }
  if (!isObject(document)) {
    return refusedPatch;
  }
  const before = document[part];
  if (before === undefined && (rest.length > 0 || how === 'remove')) {
    return refusedPatch;
  }
  const after = rest.length === 0 ? value : changeAt(before ?? null, rest, value, how);
  return after === refusedPatch ? refusedPatch : withFields(document, { [part]: after });
}

function changeItem(
  list: readonly JsonValue[],
  part: string,
  rest: readonly string[],
  value: JsonValue | undefined,
  how: Change,
): JsonValue | Refused {
  const isInsertion = how === 'add' && rest.length === 0;
  const index =
    isInsertion && part === '-'
      ? list.length
      : indexOf(part, isInsertion ? list.length : list.length - 1);
  if (index === undefined) {
    return refusedPatch;
  }
  if (rest.length > 0) {
    const changed = changeAt(list[index] ?? null, rest, value, how);
    return changed === refusedPatch ? refusedPatch : Object.freeze(list.with(index, changed));
  }
  const inserted = value === undefined ? [] : [value];
  return Object.freeze(list.toSpliced(index, isInsertion ? 0 : 1, ...inserted));
}

/** Lists that a strategic merge patch merges item by item, by their path, and the field that tells items apart. */
export interface MergeKeys {
  readonly [path: string]: string;
}

/**
 * Strategic merge patch, without its directives: objects are merged as in a merge patch, lists named in `mergeKeys` item
 * by item, and all other lists are replaced.
 *
 * @throws KeylessItem
 */
export function strategicMergePatch(
  target: JsonValue | undefined,
  patch: JsonValue,
  mergeKeys: MergeKeys,
  path = '',
): JsonValue {
  const key = mergeKeys[path];
  if (key !== undefined && isList(patch)) {
    return mergeItems(isList(target) ? target : [], patch, key);
  }
  if (!isObject(patch)) {
    return mergePatch(target, patch);
  }
  if (Object.keys(patch).some((field) => field.startsWith('$'))) {
    throw new Error(`the model knows no directives of strategic merge patches (at ${path})`);
  }
  const base = isObject(target) ? target : undefined;
  const changes: Record<string, JsonValue | undefined> = {};
  for (const field of Object.keys(patch)) {
    const value = patch[field] ?? null;
    const below = path === '' ? field : `${path}.${field}`;
    changes[field] =
      value === null ? undefined : strategicMergePatch(base?.[field], value, mergeKeys, below);
  }
  return withFields(base ?? Object.freeze({}), changes);
}

/** New items come first, then those that were there, in the order the server had; see `mergeSortedSlice` in apimachinery. */
function mergeItems(
  items: readonly JsonValue[],
  patch: readonly JsonValue[],
  key: string,
): JsonValue {
  const keyless = patch.find((item) => !isObject(item) || item[key] === undefined);
  if (keyless !== undefined) {
    throw new KeylessItem(keyless, key);
  }
  const keyOf = (item: JsonValue) => (isObject(item) ? item[key] : undefined);
  const patched = patch.map((item) =>
    mergePatch(
      items.find((candidate) => keyOf(candidate) === keyOf(item)),
      item,
    ),
  );
  const kept = items.filter((item) => !patch.some((other) => keyOf(other) === keyOf(item)));
  const place = (item: JsonValue) => items.findIndex((other) => keyOf(other) === keyOf(item));
  const result: JsonValue[] = [];
  while (kept.length > 0 && patched.length > 0) {
    const [left = null] = kept;
    const [right = null] = patched;
    const isLeftFirst = place(right) >= 0 && place(left) < place(right);
    result.push((isLeftFirst ? kept.shift() : patched.shift()) ?? null);
  }
  result.push(...kept, ...patched);
  return isSame(items, result) ? items : Object.freeze(result);
}
