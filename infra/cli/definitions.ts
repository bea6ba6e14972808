import { readFileSync, readdirSync } from 'node:fs';
import { parse } from 'yaml';
import * as z from 'zod';
import type { JsonObject } from '#shared/kube/json.ts';

const folder = new URL('../kubernetes/crds/', import.meta.url);

/** One custom resource definition as it is shipped. */
export interface Definition {
  /** `shards.millrace.dev` */
  readonly name: string;
  /** The file's text, YAML. */
  readonly text: string;
  readonly manifest: JsonObject;
}

const manifestSchema = z.looseObject({
  kind: z.literal('CustomResourceDefinition'),
  metadata: z.looseObject({ name: z.string() }),
  spec: z.looseObject({}),
});

/** Every custom resource definition of this version, in the order of their names. */
export function readDefinitions(): readonly Definition[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.yaml'))
    .toSorted()
    .map((file) => {
      const text = readFileSync(new URL(file, folder), 'utf8');
      const manifest = manifestSchema.parse(parse(text));
      return { name: manifest.metadata.name, text, manifest: manifest as JsonObject };
    });
}
