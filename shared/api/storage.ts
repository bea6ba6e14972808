import * as z from 'zod';
import { type ApiRule, text, withRules } from './fields.ts';

const isSize: ApiRule = {
  rule: "isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",
  message: 'give the size as a quantity above zero, for example 10Gi',
};
const isClassName: ApiRule = {
  rule: "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
  message: 'give the name of a StorageClass, or leave className out for the default one',
};

/** What claims are made of. */
export function storageOf(description: string, ...rules: readonly ApiRule[]) {
  return z
    .object({
      size: text(32, 'Size of each claim, a Kubernetes quantity.', isSize),
      className: text(
        253,
        "StorageClass of the claims; the cluster's default one when not given.",
        isClassName,
      ).optional(),
      accessModes: z
        .array(z.enum(['ReadWriteOnce', 'ReadWriteOncePod', 'ReadWriteMany']))
        .min(1)
        .max(3)
        .default(['ReadWriteOnce'])
        .meta({
          description: 'Access modes of the claims.',
          'x-kubernetes-list-type': 'atomic',
        }),
    })
    .meta({ description, ...withRules(...rules) });
}
