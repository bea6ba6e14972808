import { stringify } from 'yaml';
import { version } from '#shared/api/version.ts';
import type { JsonObject } from '#shared/kube/json.ts';

/** Of which release an object is; Kubernetes' own recommended label. */
export const versionLabel = 'app.kubernetes.io/version';

/** An object as it is applied. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: { readonly [key: string]: string };
    readonly annotations?: { readonly [key: string]: string };
  };
  readonly [field: string]: unknown;
}

/** YAML documents, in order. */
export function documents(manifests: readonly (Manifest | JsonObject)[]): string {
  return manifests
    .map((manifest) => stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false }))
    .join('---\n');
}

/** On everything of an installation, so that it is found, and removed, as one, and says of which release it is. */
export const partOf: { readonly [key: string]: string } = {
  'app.kubernetes.io/part-of': 'millrace',
  [versionLabel]: version,
};
