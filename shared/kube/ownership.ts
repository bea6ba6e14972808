import type { JsonObject } from './json.ts';
import { apiVersionOf } from './resources.ts';

/** Says that a Shard is the controller of an object: with the one the other goes. */
export function controlledBy({
  name,
  uid,
}: {
  readonly name: string;
  readonly uid: string;
}): JsonObject {
  return {
    apiVersion: apiVersionOf('Shard'),
    kind: 'Shard',
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** A template must not set what steps and people say through our keys: a drain request in it would never end. */
export function withoutOurDomain(entries: { readonly [key: string]: string } | undefined): {
  readonly [key: string]: string;
} {
  return Object.fromEntries(
    Object.entries(entries ?? {}).filter(([key]) => !/^([^/]*\.)?millrace\.dev\//.test(key)),
  );
}
