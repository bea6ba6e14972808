import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import * as annotations from '#shared/api/annotations.ts';
import * as labels from '#shared/api/labels.ts';
import { generateBase } from '#infra/kubernetes/base.ts';
import { generateDefinitions, servedKinds } from '#infra/kubernetes/crd.ts';
import { generateReference } from '#infra/kubernetes/reference.ts';
import { type Schema, rulesOf } from '#infra/kubernetes/structural-schema.ts';

const root = new URL('../../../../', import.meta.url);

/** Keys of a step that there is not yet. */
const notServed: readonly string[] = [annotations.releaseMirror];

function fieldsOf(schema: Schema, path: string): readonly string[] {
  const below = Object.entries(schema.properties ?? {}).flatMap(([name, field]) =>
    fieldsOf(field, `${path}.${name}`),
  );
  return [path, ...below, ...(schema.items?.properties ? fieldsOf(schema.items, `${path}[]`) : [])];
}

function textsOf(schema: Schema): readonly (string | undefined)[] {
  const below = [
    ...Object.values(schema.properties ?? {}),
    ...(schema.items?.properties === undefined ? [] : Object.values(schema.items.properties)),
  ];
  return below.flatMap((field) => [field.description, ...textsOf(field)]);
}

describe('the files in the tree', () => {
  test.each([...generateDefinitions(), ...generateReference(), ...generateBase()])(
    '$path is what its source says',
    ({ path, content }) => {
      expect(readFileSync(new URL(path, root), 'utf8')).toBe(content);
    },
  );

  test('hold the definitions under the names that the API server expects', () => {
    const names = generateDefinitions().map(({ content }) => parse(content).metadata.name);

    expect(names).toEqual([
      'databases.millrace.dev',
      'goverseclusters.millrace.dev',
      'shards.millrace.dev',
    ]);
  });
});

describe('the kustomize base', () => {
  test('names every file that there is, and no other', () => {
    const folder = new URL('infra/kubernetes/', root);
    const files = ['crds', 'base'].flatMap((part) =>
      readdirSync(new URL(`${part}/`, folder)).map((name) => `${part}/${name}`),
    );

    const { resources } = parse(readFileSync(new URL('kustomization.yaml', folder), 'utf8'));

    expect(resources.toSorted()).toEqual(files.toSorted());
  });
});

describe('the reference', () => {
  const [page] = generateReference().map(({ content }) => content);

  test('has every field and every rule of every kind', () => {
    const expected = servedKinds.flatMap(({ schema }) => [
      ...['spec', 'status'].flatMap((part) => {
        const node = schema.properties?.[part];
        return node === undefined
          ? []
          : fieldsOf(node, part)
              .filter((path) => !path.endsWith('[]'))
              .map((path) => `\`${path}\``);
      }),
      ...rulesOf(schema).map(({ message }) => message),
    ]);

    expect(expected.length).toBeGreaterThan(80);
    expect(expected.filter((text) => page?.includes(text) !== true)).toEqual([]);
  });

  test('has every annotation and label there is', () => {
    const keys = [...Object.values(annotations), ...Object.values(labels)].filter(
      (value) => typeof value === 'string' && !notServed.includes(value),
    );

    expect(keys.length).toBeGreaterThan(9);
    expect(keys.filter((key) => page?.includes(`\`${String(key)}`) !== true)).toEqual([]);
  });

  test('explains every field', () => {
    const texts = servedKinds.flatMap(({ schema }) =>
      ['spec', 'status'].flatMap((part) => textsOf(schema.properties?.[part] ?? {})),
    );

    expect(texts.length).toBeGreaterThan(50);
    expect(texts.filter((text) => text === undefined || text === '')).toEqual([]);
  });
});
