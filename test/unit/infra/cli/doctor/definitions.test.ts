import { describe, expect, test } from 'vitest';
import { firstDifference } from '#infra/cli/doctor/definitions.ts';

const shipped = {
  scope: 'Namespaced',
  versions: [{ name: 'v1alpha1', schema: { properties: { spec: { type: 'object' } } } }],
};

describe('a served definition', () => {
  test('is the shipped one when the API server only added to it', () => {
    const served = {
      ...shipped,
      conversion: { strategy: 'None' },
      versions: [{ ...shipped.versions[0], storage: true }],
    };

    expect(firstDifference(shipped, served, 'spec')).toBeUndefined();
  });

  test.each([
    ['a value changed', { ...shipped, scope: 'Cluster' }, 'spec.scope'],
    ['a version is missing', { ...shipped, versions: [] }, 'spec.versions'],
    [
      'a field of the schema is missing',
      { ...shipped, versions: [{ name: 'v1alpha1', schema: { properties: {} } }] },
      'spec.versions.0.schema.properties',
    ],
    [
      'a field of the schema was added',
      {
        ...shipped,
        versions: [
          {
            name: 'v1alpha1',
            schema: { properties: { spec: { type: 'object' }, extra: { type: 'string' } } },
          },
        ],
      },
      'spec.versions.0.schema.properties',
    ],
  ])('is another one when %s', (_, served, path) => {
    expect(firstDifference(shipped, served, 'spec')).toBe(path);
  });
});
