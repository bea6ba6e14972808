import * as z from 'zod';

/**
 * The part of any served object that the relay looks at. Metadata-only answers have no spec and no status.
 *
 * Only metadata must have its form: a status that others filled strangely must not stop the watch.
 */
export const watchedObjectSchema = z.looseObject({
  metadata: z.looseObject({
    name: z.string().min(1),
    namespace: z.string().min(1),
    uid: z.string().min(1),
    resourceVersion: z.string().min(1),
    generation: z.number().optional(),
    deletionTimestamp: z.string().optional(),
    labels: z.record(z.string(), z.string()).optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  status: z
    .looseObject({ conditions: z.array(z.looseObject({ type: z.string() })).optional() })
    .optional()
    .catch(undefined),
});

export type WatchedObject = z.infer<typeof watchedObjectSchema>;

/** The text at a path into the object; `undefined` where there is none. */
export function textAt(object: WatchedObject, path: readonly string[]): string | undefined {
  let value: unknown = object;
  for (const part of path) {
    if (typeof value !== 'object' || value === null) {
      return undefined;
    }
    value = (value as Record<string, unknown>)[part];
  }
  return typeof value === 'string' ? value : undefined;
}
