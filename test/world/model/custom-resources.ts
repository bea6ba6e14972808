import { servedKinds } from '#infra/kubernetes/crd.ts';
import type { Schema } from '#infra/kubernetes/structural-schema.ts';
import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { type Cause, cause } from './api-answers.ts';
import { ruleHolds } from './cel-rules.ts';
import { freeze, isList, isObject, isSame, withFields } from './json-data.ts';
import type { StoredObject } from './object-shelf.ts';

/** The kinds that are served from the definitions of `infra/kubernetes`. */
export type CustomKind = 'Database' | 'GoverseCluster' | 'Shard';

export function isCustom(kind: ResourceKind): kind is CustomKind {
  return kind === 'Database' || kind === 'GoverseCluster' || kind === 'Shard';
}

const schemas = Object.fromEntries(servedKinds.map(({ kind, schema }) => [kind, schema])) as {
  readonly [K in CustomKind]: Schema;
};

export function statusSchemaOf(kind: CustomKind): Schema | undefined {
  return schemas[kind].properties?.['status'];
}

/**
 * The object without fields that the schema does not know, and with its defaults; the same object where all is well.
 *
 * @param before the object as it is stored, whose parts need no second look
 */
export function completeCustom<T extends JsonObject>(
  kind: CustomKind,
  object: T,
  before?: StoredObject,
): T {
  const { properties = {} } = schemas[kind];
  const fields: Record<string, JsonValue | undefined> = {};
  for (const name in object) {
    const value = object[name];
    if (name !== 'metadata' && value !== before?.[name]) {
      const schema = properties[name];
      fields[name] = schema === undefined || value === undefined ? undefined : fill(value, schema);
    }
  }
  return withFields(object, fields);
}

/**
 * Why an object of these kinds is refused: first what its metadata and its schema say of its form, and only where these
 * are kept the rules. What did not change was checked when it was written.
 *
 * @param known what its metadata is refused for
 */
export function checkCustom(
  kind: CustomKind,
  after: StoredObject,
  before: StoredObject | undefined,
  known: readonly Cause[],
): readonly Cause[] {
  const schema = partOf(kind, after, before);
  if (schema.properties === undefined && known.length === 0) {
    return [];
  }
  const causes = [...known];
  checkForm(after, schema, '', causes);
  if (causes.some(({ reason }) => blockingReasons.has(reason))) {
    return [...causes, rulesUnchecked];
  }
  checkRules(after, before, schema, '', causes);
  return causes;
}

const unchanged: Schema = { type: 'object' };

const statusOnly: { readonly [K in CustomKind]: Schema } = {
  Database: statusAlone('Database'),
  GoverseCluster: statusAlone('GoverseCluster'),
  Shard: statusAlone('Shard'),
};

function statusAlone(kind: CustomKind): Schema {
  return { type: 'object', properties: { status: statusSchemaOf(kind) ?? unchanged } };
}

/** The schema as far as it is about what changed. */
function partOf(kind: CustomKind, after: StoredObject, before: StoredObject | undefined): Schema {
  if (before === undefined || after['spec'] !== before['spec']) {
    return schemas[kind];
  }
  return after['status'] === before['status'] ? unchanged : statusOnly[kind];
}

/** With one of these the rules are not asked, since they rely on the form; see `hasBlockingErr` in apiextensions. */
const blockingReasons: ReadonlySet<string> = new Set(
  ['NotSupported', 'Required', 'TooLong', 'TooMany', 'TypeInvalid'].map(
    (reason) => `FieldValue${reason}`,
  ),
);

/** Stands behind the causes then. */
const rulesUnchecked = cause(
  '<nil>',
  'Invalid',
  'Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
);

function fill(value: JsonValue, schema: Schema): JsonValue {
  const { properties, items, additionalProperties } = schema;
  if (isObject(value) && properties !== undefined) {
    const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true;
    const fields: Record<string, JsonValue | undefined> = {};
    for (const [name, field] of Object.entries(value)) {
      const of = properties[name];
      if (of !== undefined && field !== undefined) {
        // A null is as good as absent: no field of ours takes one.
        fields[name] = field === null ? undefined : fill(field, of);
      } else if (!isOpen) {
        fields[name] = undefined;
      }
    }
    return withFields(value, { ...fields, ...defaultsOf(value, properties) });
  }
  if (isObject(value) && additionalProperties !== undefined) {
    return withFields(
      value,
      Object.fromEntries(
        Object.entries(value).map(([name, field]) => [
          name,
          field === undefined ? field : fill(field, additionalProperties),
        ]),
      ),
    );
  }
  if (isList(value) && items !== undefined) {
    const filled = value.map((item) => fill(item, items));
    return filled.every((item, index) => item === value[index]) ? value : freeze(filled);
  }
  return value;
}

function defaultsOf(
  value: JsonObject,
  properties: { readonly [name: string]: Schema },
): JsonObject {
  const missing = Object.entries(properties).filter(
    ([name, schema]) => schema.default !== undefined && (value[name] ?? null) === null,
  );
  return Object.fromEntries(
    missing.map(([name, schema]) => [
      name,
      fill(freeze(structuredClone(schema.default) as JsonValue), schema),
    ]),
  );
}

function checkForm(value: JsonValue, schema: Schema, path: string, causes: Cause[]): void {
  if (!isOfType(value, schema.type)) {
    const said = kindOf(value);
    causes.push({
      field: path,
      reason: 'FieldValueTypeInvalid',
      message: `Invalid value: "${said}": ${inBody(path)} in body must be of type ${schema.type}: "${said}"`,
    });
    return;
  }
  if (isObject(value)) {
    checkObject(value, schema, path, causes);
  } else if (isList(value)) {
    checkList(value, schema, path, causes);
  } else {
    checkScalar(value, schema, path, causes);
  }
}

function kindOf(value: JsonValue): string {
  if (value === null) {
    return 'null';
  }
  return isList(value) ? 'array' : Number.isInteger(value) ? 'integer' : typeof value;
}

function isOfType(value: JsonValue, type: string | undefined): boolean {
  const found = kindOf(value);
  return type === undefined || found === type || (type === 'number' && found === 'integer');
}

function checkObject(value: JsonObject, schema: Schema, path: string, causes: Cause[]): void {
  const { properties = {}, required = [], maxProperties, additionalProperties } = schema;
  const names = Object.keys(value);
  if (maxProperties !== undefined && names.length > maxProperties) {
    causes.push(
      cause(path, 'TooMany', `Too many: ${names.length}: must have at most ${maxProperties} items`),
    );
  }
  for (const name of required) {
    if (value[name] === undefined) {
      causes.push(cause(below(path, name), 'Required', 'Required value'));
    }
  }
  for (const name of names) {
    const field = value[name];
    const of = properties[name] ?? additionalProperties;
    if (field !== undefined && of !== undefined) {
      checkForm(field, of, below(path, name), causes);
    }
  }
}

function checkList(
  value: readonly JsonValue[],
  schema: Schema,
  path: string,
  causes: Cause[],
): void {
  const { items, minItems, maxItems } = schema;
  const keys = schema['x-kubernetes-list-map-keys'];
  if (keys !== undefined && value.length > 1) {
    checkKeys(value, keys, path, causes);
  }
  if (maxItems !== undefined && value.length > maxItems) {
    causes.push(
      cause(path, 'TooMany', `Too many: ${value.length}: must have at most ${maxItems} items`),
    );
  }
  if (minItems !== undefined && value.length < minItems) {
    causes.push(
      cause(
        path,
        'Invalid',
        `Invalid value: ${value.length}: ${inBody(path)} in body should have at least ${minItems} items`,
      ),
    );
  }
  for (const [index, item] of value.entries()) {
    if (items !== undefined) {
      checkForm(item, items, `${path}[${index}]`, causes);
    }
  }
}

function checkScalar(
  value: string | number | boolean | null,
  schema: Schema,
  path: string,
  causes: Cause[],
): void {
  const { minimum, maximum, minLength, maxLength } = schema;
  if (schema.enum !== undefined && !schema.enum.some((known) => known === value)) {
    const known = schema.enum.map((name) => JSON.stringify(name)).join(', ');
    causes.push(
      cause(
        path,
        'NotSupported',
        `Unsupported value: ${JSON.stringify(value)}: supported values: ${known}`,
      ),
    );
  }
  if (typeof value === 'string') {
    const length = codePoints(value);
    if (maxLength !== undefined && length > maxLength) {
      causes.push(cause(path, 'TooLong', `Too long: may not be more than ${maxLength} bytes`));
    }
    if (minLength !== undefined && length < minLength) {
      causes.push(shouldBe(value, path, `at least ${minLength} chars long`));
    }
  }
  if (typeof value === 'number') {
    if (minimum !== undefined && value < minimum) {
      causes.push(shouldBe(value, path, `greater than or equal to ${minimum}`));
    }
    if (maximum !== undefined && value > maximum) {
      causes.push(shouldBe(value, path, `less than or equal to ${maximum}`));
    }
  }
}

/** The server counts these, and not the units of UTF-16. */
function codePoints(text: string): number {
  let count = 0;
  for (
    let index = 0;
    index < text.length;
    index += (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1
  ) {
    count += 1;
  }
  return count;
}

function shouldBe(value: string | number, path: string, what: string): Cause {
  return cause(
    path,
    'Invalid',
    `Invalid value: ${JSON.stringify(value)}: ${inBody(path)} in body should be ${what}`,
  );
}

/** Items of a list with keys must differ in them. */
function checkKeys(
  value: readonly JsonValue[],
  keys: readonly string[],
  path: string,
  causes: Cause[],
): void {
  const seen = new Set<string>();
  for (const [index, item] of value.entries()) {
    const named = keys.map((key) => [key, isObject(item) ? item[key] : undefined] as const);
    const name = JSON.stringify(Object.fromEntries(named));
    if (seen.has(name)) {
      causes.push(cause(`${path}[${index}]`, 'Duplicate', `Duplicate value: ${name}`));
    }
    seen.add(name);
  }
}

/**
 * The rules in CEL. One that compares with the old value is checked only where there is one; items of a list are the same
 * ones where their keys are, and in lists without keys there is no old item.
 */
function checkRules(
  value: JsonValue,
  old: JsonValue | undefined,
  schema: Schema,
  path: string,
  causes: Cause[],
): void {
  for (const { rule, message } of schema['x-kubernetes-validations'] ?? []) {
    const isTransition = rule.includes('oldSelf');
    if ((!isTransition || old !== undefined) && !ruleHolds(rule, value, old)) {
      causes.push(
        cause(path === '' ? '<nil>' : path, 'Invalid', `Invalid value: ${told(value)}${message}`),
      );
    }
  }
  if (isObject(value)) {
    for (const [name, field] of Object.entries(value)) {
      const of = schema.properties?.[name] ?? schema.additionalProperties;
      if (of !== undefined && field !== undefined) {
        const before = isObject(old) ? old[name] : undefined;
        checkRules(field, before, of, below(path, name), causes);
      }
    }
  } else if (isList(value) && schema.items !== undefined) {
    const keys = schema['x-kubernetes-list-map-keys'];
    for (const [index, item] of value.entries()) {
      const before = keys === undefined ? undefined : sameItem(item, old, keys);
      checkRules(item, before, schema.items, `${path}[${index}]`, causes);
    }
  }
}

function sameItem(
  item: JsonValue,
  old: JsonValue | undefined,
  keys: readonly string[],
): JsonValue | undefined {
  return isList(old)
    ? old.find(
        (other) =>
          isObject(other) && isObject(item) && keys.every((key) => isSame(other[key], item[key])),
      )
    : undefined;
}

/** Objects and lists are not repeated in a message. */
function told(value: JsonValue): string {
  return typeof value === 'object' ? '' : `${JSON.stringify(value)}: `;
}

/** A status is checked by itself, and its fields are named from there. */
function inBody(path: string): string {
  return path.replace(/^status\.?/, '');
}

function below(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}
