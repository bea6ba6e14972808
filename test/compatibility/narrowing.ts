/** A JSON Schema or a structural one, as JSON. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** Says more to people, or to tools that draw forms, and nothing about what is valid. */
const silentKeywords = new Set(['description', 'title', '$schema', 'examples', 'readOnly']);

/** Bounds: what was within the old one has to be within the new one. */
const lowerBounds = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'];
const upperBounds = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'];

/** What may not change at all: a consumer of one sort may have been built on each. */
const fixedKeywords = [
  'default',
  'format',
  'pattern',
  'const',
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-preserve-unknown-fields',
];

/**
 * Every place where something that an old schema admits could be refused by the new one, or would mean something else, as
 * `<path>: <what>`. Empty: the change is additive.
 *
 * It errs towards telling: two schemas that admit the same in different words are told as a change too.
 */
export function narrowings(before: JsonSchema, after: JsonSchema, path: string): string[] {
  return [
    ...changedTypes(before, after, path),
    ...fixedKeywords.flatMap((keyword) => changedKeyword(before, after, keyword, path)),
    ...changedBounds(before, after, path),
    ...lostValues(before, after, path),
    ...newRules(before, after, path),
    ...changedProperties(before, after, path),
    ...changedOthers(before, after, path),
    ...changedItems(before, after, path),
    ...changedAlternatives(before, after, path),
    ...changedParts(before, after, path),
    ...strangeKeywords(after, path),
  ];
}

function changedTypes(before: JsonSchema, after: JsonSchema, path: string): string[] {
  const lost = listOf(before['type']).filter(
    (type) => after['type'] !== undefined && !listOf(after['type']).includes(type),
  );
  const isNewlySaid = before['type'] === undefined && after['type'] !== undefined;
  const wasAnything = isNewlySaid && !('anyOf' in before) && !('oneOf' in before);
  return lost.length > 0 || wasAnything
    ? [`${path}: the type ${text(before['type'])} became ${text(after['type'])}`]
    : [];
}

function changedKeyword(
  before: JsonSchema,
  after: JsonSchema,
  keyword: string,
  path: string,
): string[] {
  const [was, is] = [text(before[keyword]), text(after[keyword])];
  const isDropped = after[keyword] === undefined && ['pattern', 'const'].includes(keyword);
  return was === is || isDropped ? [] : [`${path}: ${keyword} ${was} became ${is}`];
}

function changedBounds(before: JsonSchema, after: JsonSchema, path: string): string[] {
  const tightened = (keyword: string, isTighter: (was: number, is: number) => boolean) => {
    const [was, is] = [before[keyword], after[keyword]];
    return typeof is === 'number' && (typeof was !== 'number' || isTighter(was, is))
      ? [`${path}: ${keyword} ${text(was)} became ${is}`]
      : [];
  };
  return [
    ...lowerBounds.flatMap((keyword) => tightened(keyword, (was, is) => is > was)),
    ...upperBounds.flatMap((keyword) => tightened(keyword, (was, is) => is < was)),
  ];
}

function lostValues(before: JsonSchema, after: JsonSchema, path: string): string[] {
  if (after['enum'] === undefined) {
    return [];
  }
  if (before['enum'] === undefined && before['const'] === undefined) {
    return [`${path}: only certain values are admitted now`];
  }
  const admitted = listOf(after['enum']);
  return [...listOf(before['enum']), ...listOf(before['const'])]
    .filter((value) => !admitted.includes(value))
    .map((value) => `${path}: the value ${text(value)} is not admitted any more`);
}

/** A rule of CEL that was not there before refuses objects that were admitted. */
function newRules(before: JsonSchema, after: JsonSchema, path: string): string[] {
  const known = rulesOf(before);
  return rulesOf(after)
    .filter((rule) => !known.includes(rule))
    .map((rule) => `${path}: the rule ${rule} is new`);
}

function rulesOf(schema: JsonSchema): readonly string[] {
  return listOf(schema['x-kubernetes-validations']).map((rule) =>
    isObject(rule) ? text(rule['rule']) : text(rule),
  );
}

function changedProperties(before: JsonSchema, after: JsonSchema, path: string): string[] {
  const [was, is] = [objectOf(before['properties']), objectOf(after['properties'])];
  const required = listOf(before['required']);
  return [
    ...Object.entries(was).flatMap(([name, property]) => {
      const now = is[name];
      if (!isObject(property)) {
        return [];
      }
      return isObject(now)
        ? narrowings(property, now, fieldOf(path, name))
        : [`${fieldOf(path, name)}: is gone`];
    }),
    ...listOf(after['required'])
      .filter((name) => !required.includes(name))
      .map((name) => `${fieldOf(path, String(name))}: is required now`),
  ];
}

/** What may stand in an object besides its named fields. */
function changedOthers(before: JsonSchema, after: JsonSchema, path: string): string[] {
  const [was, is] = [before['additionalProperties'], after['additionalProperties']];
  if (isObject(was) && isObject(is)) {
    return narrowings(was, is, `${path}.*`);
  }
  const wasStrict = was === false;
  return is === false && !wasStrict ? [`${path}: other fields are refused now`] : [];
}

function changedItems(before: JsonSchema, after: JsonSchema, path: string): string[] {
  const [was, is] = [before['items'], after['items']];
  const places = listOf(before['prefixItems']);
  const placesNow = listOf(after['prefixItems']);
  return [
    ...(isObject(was) && isObject(is) ? narrowings(was, is, `${path}[]`) : []),
    ...(isObject(is) && was === undefined
      ? [`${path}[]: only certain items are admitted now`]
      : []),
    ...places.flatMap((place, position) => {
      const now = placesNow[position];
      return isObject(place) && isObject(now)
        ? narrowings(place, now, `${path}[${position}]`)
        : [`${path}[${position}]: is gone`];
    }),
  ];
}

/** Each old alternative needs a new one that admits all of it. */
function changedAlternatives(before: JsonSchema, after: JsonSchema, path: string): string[] {
  const was = alternativesOf(before);
  const is = alternativesOf(after);
  if (was.length === 0 && is.length === 0) {
    return [];
  }
  const old = was.length === 0 ? [before] : was;
  const now = is.length === 0 ? [after] : is;
  return old.flatMap((alternative) => {
    const problems = now.map((candidate) => narrowings(alternative, candidate, path));
    const fewest = problems.toSorted((a, b) => a.length - b.length)[0];
    return fewest ?? [`${path}: has no alternatives any more`];
  });
}

/** Parts that all have to hold are compared in their order. */
function changedParts(before: JsonSchema, after: JsonSchema, path: string): string[] {
  const was = listOf(before['allOf']);
  return listOf(after['allOf']).flatMap((part, position) => {
    const old = was[position];
    return isObject(old) && isObject(part)
      ? narrowings(old, part, path)
      : [`${path}: one more schema has to hold now`];
  });
}

function alternativesOf(schema: JsonSchema): readonly JsonSchema[] {
  return [...listOf(schema['anyOf']), ...listOf(schema['oneOf'])].filter(isObject);
}

const knownKeywords = new Set([
  ...silentKeywords,
  ...lowerBounds,
  ...upperBounds,
  ...fixedKeywords,
  'type',
  'enum',
  'required',
  'properties',
  'additionalProperties',
  'propertyNames',
  'items',
  'prefixItems',
  'anyOf',
  'oneOf',
  'allOf',
  'contentEncoding',
  'x-kubernetes-validations',
]);

/** A keyword that is not compared could hide anything. */
function strangeKeywords(after: JsonSchema, path: string): string[] {
  return Object.keys(after)
    .filter((keyword) => !knownKeywords.has(keyword))
    .map((keyword) => `${path}: nobody compares the keyword ${keyword}`);
}

function listOf(value: unknown): readonly unknown[] {
  return value === undefined ? [] : Array.isArray(value) ? value : [value];
}

function objectOf(value: unknown): JsonSchema {
  return isObject(value) ? value : {};
}

function isObject(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fieldOf(path: string, name: string): string {
  return `${path}.${name}`;
}

function text(value: unknown): string {
  return value === undefined
    ? 'nothing'
    : typeof value === 'string'
      ? value
      : JSON.stringify(value);
}
