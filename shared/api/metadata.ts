/** Metadata as the API server serves it: name, uid and resourceVersion are always there. */
export interface ObjectMetadata {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: { readonly [key: string]: string };
  readonly annotations?: { readonly [key: string]: string };
  readonly managedFields?: readonly ManagedFields[];
}

/** Which manager last set which fields, and when. */
export interface ManagedFields {
  /** When the manager last changed a value of its fields. */
  readonly time?: string;
  /** Empty or absent for the object itself. */
  readonly subresource?: string;
  readonly fieldsV1?: { readonly [field: string]: unknown };
}
