import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { type Cause, cause } from './api-answers.ts';
import { isList, isObject, withFields } from './json-data.ts';
import type { StoredMetadata } from './object-shelf.ts';

/** All annotations of an object together, in bytes of their keys and values (apimachinery, TotalAnnotationSizeLimitB). */
const maxAnnotationBytes = 256 * 1024;

const labelValue = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/;
const maxLabelLength = 63;

const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const maxSubdomainLength = 253;

const textMaps = ['labels', 'annotations'] as const;
const lists = ['finalizers', 'ownerReferences'] as const;

/** Metadata as it is kept: in a map of texts a null is the empty text, and maps and lists without anything are left out. */
export function tidyMetadata(metadata: JsonObject): JsonObject {
  const maps = textMaps.map((field) => [field, tidyTexts(metadata[field])] as const);
  const others = lists.map((field) => {
    const value = metadata[field];
    return [field, isList(value) && value.length > 0 ? value : undefined] as const;
  });
  return withFields(metadata, Object.fromEntries([...maps, ...others]));
}

function tidyTexts(texts: JsonValue | undefined): JsonValue | undefined {
  if (!isObject(texts) || Object.keys(texts).length === 0) {
    return undefined;
  }
  const nulls = Object.keys(texts).filter((key) => texts[key] === null);
  return withFields(texts, Object.fromEntries(nulls.map((key) => [key, ''])));
}

/** What the server asks of any object's metadata: that identity does not change, and that names and texts fit. */
export function checkMetadata(
  kind: ResourceKind,
  after: StoredMetadata,
  before: StoredMetadata | undefined,
): readonly Cause[] {
  if (after === before) {
    return [];
  }
  return [
    ...(before === undefined ? checkName(kind, after.name) : checkIdentity(after, before)),
    ...(after.labels === before?.labels ? [] : checkLabels(after.labels ?? {})),
    ...(after.annotations === before?.annotations ? [] : checkAnnotations(after.annotations ?? {})),
  ];
}

function checkName(kind: ResourceKind, name: string): readonly Cause[] {
  // Services have stricter names, of which Millrace makes its own; see shared/api/names.ts.
  return resourceTypes[kind].plural === 'services' ||
    (subdomain.test(name) && name.length <= maxSubdomainLength)
    ? []
    : [
        cause(
          'metadata.name',
          'Invalid',
          `Invalid value: ${JSON.stringify(name)}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
        ),
      ];
}

function checkIdentity(after: StoredMetadata, before: StoredMetadata): readonly Cause[] {
  const changed = (['name', 'uid'] as const).filter((field) => after[field] !== before[field]);
  const added = (after.finalizers ?? []).filter(
    (finalizer) => before.finalizers?.includes(finalizer) !== true,
  );
  return [
    ...changed.map((field) =>
      cause(
        `metadata.${field}`,
        'Invalid',
        `Invalid value: ${JSON.stringify(after[field])}: field is immutable`,
      ),
    ),
    ...(before.deletionTimestamp === undefined || added.length === 0
      ? []
      : [
          cause(
            'metadata.finalizers',
            'Forbidden',
            `Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{${added.map((name) => JSON.stringify(name)).join(', ')}}`,
          ),
        ]),
  ];
}

function checkLabels(labels: { readonly [key: string]: string }): readonly Cause[] {
  return Object.values(labels).flatMap((value) => {
    if (value.length > maxLabelLength) {
      return [
        cause(
          'metadata.labels',
          'Invalid',
          `Invalid value: ${JSON.stringify(value)}: must be no more than ${maxLabelLength} bytes`,
        ),
      ];
    }
    return labelValue.test(value)
      ? []
      : [
          cause(
            'metadata.labels',
            'Invalid',
            `Invalid value: ${JSON.stringify(value)}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
          ),
        ];
  });
}

function checkAnnotations(annotations: { readonly [key: string]: string }): readonly Cause[] {
  let bytes = 0;
  for (const key in annotations) {
    bytes += Buffer.byteLength(key) + Buffer.byteLength(annotations[key] ?? '');
  }
  return bytes <= maxAnnotationBytes
    ? []
    : [
        cause(
          'metadata.annotations',
          'TooLong',
          `Too long: may not be more than ${maxAnnotationBytes} bytes`,
        ),
      ];
}
