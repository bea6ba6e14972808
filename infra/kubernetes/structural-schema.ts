import * as z from 'zod';
import type { ApiRule } from '#shared/api/fields.ts';

/** A structural schema, as a custom resource definition takes it (apiextensions.k8s.io/v1 JSONSchemaProps). */
export interface Schema {
  readonly description?: string;
  readonly type?: string;
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly required?: readonly string[];
  readonly properties?: { readonly [name: string]: Schema };
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly 'x-kubernetes-preserve-unknown-fields'?: true;
  readonly 'x-kubernetes-list-type'?: string;
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly 'x-kubernetes-validations'?: readonly ApiRule[];
}

/** The keywords that pass as they are, in the order in which they are written. */
const plainKeywords = [
  'description',
  'type',
  'format',
  'enum',
  'default',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'maxProperties',
  'required',
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-validations',
] as const satisfies readonly (keyof Schema)[];

const nestedKeywords = ['properties', 'items', 'additionalProperties'];

/** What zod says and a definition neither needs nor takes: map keys are strings in any case. */
const droppedKeywords = ['$schema', 'propertyNames'];

/**
 * The structural schema of what people write for a zod schema: fields with a default are not required.
 *
 * @throws where the zod schema says something that a definition cannot say, so that nothing is lost in silence
 */
export function structuralSchema(schema: z.ZodType): Schema {
  return convert(z.toJSONSchema(schema, { io: 'input' }), '');
}

/** Every rule below a schema, with the path of its field: `spec.pools[].cells`, empty for the whole object. */
export function rulesOf(node: Schema, path = ''): readonly (ApiRule & { readonly path: string })[] {
  const fields = Object.entries(node.properties ?? {}).flatMap(([name, field]) =>
    rulesOf(field, path === '' ? name : `${path}.${name}`),
  );
  return [
    ...(node['x-kubernetes-validations'] ?? []).map((rule) => ({ path, ...rule })),
    ...fields,
    ...(node.items === undefined ? [] : rulesOf(node.items, `${path}[]`)),
    ...(node.additionalProperties === undefined
      ? []
      : rulesOf(node.additionalProperties, `${path}.*`)),
  ];
}

function convert(node: z.core.JSONSchema.JSONSchema, path: string): Schema {
  const known = [...plainKeywords, ...nestedKeywords, ...droppedKeywords];
  const unknown = Object.keys(node).filter((keyword) => !known.includes(keyword));
  if (unknown.length > 0 || typeof node.type !== 'string') {
    throw new Error(`${path}: a definition cannot say ${unknown.join(', ') || 'several types'}`);
  }
  const plain = plainKeywords.flatMap((keyword) => {
    const value: unknown = node[keyword];
    return isSaid(keyword, value) ? [[keyword, value] as const] : [];
  });
  return {
    ...Object.fromEntries(plain),
    ...convertProperties(node, path),
    ...(isSchema(node.items) ? { items: convert(node.items, `${path}[]`) } : {}),
  };
}

function convertProperties(node: z.core.JSONSchema.JSONSchema, path: string): Schema {
  const { properties, additionalProperties } = node;
  if (properties === undefined) {
    return isSchema(additionalProperties)
      ? { additionalProperties: convert(additionalProperties, `${path}.*`) }
      : {};
  }
  const converted = Object.entries(properties).map(([name, property]) => {
    if (!isSchema(property)) {
      throw new Error(`${path}.${name}: a definition cannot say that anything goes`);
    }
    return [name, convert(property, `${path}.${name}`)] as const;
  });
  return {
    // zod's loose objects: fields beyond those named are kept as they are.
    ...(isSchema(additionalProperties) ? { 'x-kubernetes-preserve-unknown-fields': true } : {}),
    properties: Object.fromEntries(converted),
  };
}

function isSchema(value: unknown): value is z.core.JSONSchema.JSONSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Empty lists say nothing, and neither do the bounds zod gives every integer: those of a JavaScript number. */
function isSaid(keyword: string, value: unknown): boolean {
  const isNoBound =
    (keyword === 'minimum' && value === Number.MIN_SAFE_INTEGER) ||
    (keyword === 'maximum' && value === Number.MAX_SAFE_INTEGER);
  return value !== undefined && !isNoBound && !(Array.isArray(value) && value.length === 0);
}
