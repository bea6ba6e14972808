import * as z from 'zod';

/** A rule in CEL that the API server checks on every write; its message tells the user what to do. */
export interface ApiRule {
  readonly rule: string;
  readonly message: string;
}

/** Rules as metadata that travels from a zod schema into the definition of its kind. */
export function withRules(...rules: readonly ApiRule[]): {
  'x-kubernetes-validations': readonly ApiRule[];
} {
  return { 'x-kubernetes-validations': rules };
}

/**
 * A string that people write.
 *
 * @param maxLength in characters; the API server's estimate of what the rules cost builds on it
 */
export function text(maxLength: number, meaning: string, ...rules: readonly ApiRule[]) {
  return z
    .string()
    .min(1)
    .max(maxLength)
    .meta({ description: meaning, ...withRules(...rules) });
}

/** The name of a Secret, in the namespace of the object that names it. */
export const isSecretName: ApiRule = {
  rule: "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
  message: 'give the name of a Secret in this namespace',
};

/** Says that a list is merged item by item, told apart by these keys, when several managers apply it. */
export function listMap(...keys: readonly string[]) {
  return { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys };
}

/** A name as Kubernetes takes it in labels, hostnames and Services (DNS label, RFC 1123). */
export function label(maxLength: number, meaning: string, ...rules: readonly ApiRule[]) {
  return text(maxLength, meaning, isLabel, ...rules);
}

const isLabel: ApiRule = {
  rule: "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
  message: 'use lower-case letters, digits and hyphens, and begin and end with a letter or a digit',
};

/** The rule for the name of an object itself: pod names and labels are made of it and have 63 characters. */
export const objectName: ApiRule = {
  rule: "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$')",
  message:
    'choose a metadata.name of at most 30 lower-case letters, digits and hyphens that begins and ends with a letter or a digit: labels and pod names are made of it',
};

/** @param instead what a user who wants another value does */
export function immutable(field: string, instead: string): ApiRule {
  return { rule: 'self == oldSelf', message: `${field} cannot be changed: ${instead}` };
}
