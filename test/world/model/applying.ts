import type { JsonObject } from '#shared/kube/json.ts';
import { apiVersionOf } from '#shared/kube/resources.ts';
import { Refusal, badRequest, cause, failure, unexpected } from './api-answers.ts';
import { type CustomKind, statusSchemaOf } from './custom-resources.ts';
import { objectAt, textAt, withFields } from './json-data.ts';
import type { Entry } from './object-shelf.ts';
import {
  type FieldConflict,
  type FieldManager,
  apply,
  nameOfManager,
} from './server-side-apply.ts';

const apiVersion = apiVersionOf('Shard');

/** What applying to the status of a custom resource makes of it, and who owns which field then. */
export interface Applied {
  readonly candidate: JsonObject;
  readonly managers: readonly FieldManager[];
}

export function refuseApplication(query: { readonly [name: string]: string }): Refusal | undefined {
  if ((query['fieldManager'] ?? '') !== '') {
    return undefined;
  }
  const required = cause('fieldManager', 'Required', 'Required value: is required for apply patch');
  return new Refusal(
    failure(
      422,
      'Invalid',
      `PatchOptions.meta.k8s.io "" is invalid: fieldManager: ${required.message}`,
      { group: 'meta.k8s.io', kind: 'PatchOptions', causes: [required] },
    ),
  );
}

/**
 * Applies a configuration to the status of a custom resource. What the configuration says of metadata counts for nothing but the
 * version: the real server lets even another uid pass.
 */
export function applyStatus(
  kind: CustomKind,
  entry: Entry,
  config: JsonObject,
  query: { readonly [name: string]: string },
): Applied | Refusal {
  const { object, managers } = entry;
  const { name } = object.metadata;
  const metadata = objectAt(config, 'metadata');
  const given = textAt(metadata, 'name') ?? '';
  if (given !== '' && given !== name) {
    return new Refusal(
      badRequest(`the name of the object (${given}) does not match the name on the URL (${name})`),
    );
  }
  const schema = statusSchemaOf(kind);
  if (schema === undefined) {
    throw new Error(`a ${kind} has no status`);
  }
  const application = apply(
    { value: object['status'], managers },
    config['status'],
    schema,
    '.status',
    { name: query['fieldManager'] ?? '', isForced: query['force'] === 'true' },
  );
  switch (application.kind) {
    case 'malformed':
      return new Refusal(
        unexpected(
          `failed to create typed patch object (/${name}; ${apiVersion}, Kind=${kind}): ${application.why}`,
        ),
      );
    case 'conflicts':
      return new Refusal(applyConflict(application.conflicts));
    case 'applied':
      return {
        candidate: withFields<JsonObject>(object, {
          status: application.value,
          metadata: withFields<JsonObject>(object.metadata, {
            resourceVersion: textAt(metadata, 'resourceVersion') ?? object.metadata.resourceVersion,
          }),
        }),
        managers: application.managers,
      };
  }
}

function applyConflict(conflicts: readonly FieldConflict[]) {
  const causes = conflicts.map(({ manager, field }) => ({
    reason: 'FieldManagerConflict',
    message: `conflict with ${nameOfManager(manager, apiVersion)}`,
    field,
  }));
  const [first] = causes;
  const managers = [...new Set(conflicts.map(({ manager }) => manager))];
  const lines = managers.flatMap((manager) => [
    `conflicts with ${nameOfManager(manager, apiVersion)}:`,
    ...conflicts.filter((other) => other.manager === manager).map(({ field }) => `- ${field}`),
  ]);
  const told =
    causes.length === 1
      ? `1 conflict: ${first?.message}: ${first?.field}`
      : `${causes.length} conflicts: ${lines.join('\n')}`;
  return failure(409, 'Conflict', `Apply failed with ${told}`, { causes });
}
