import * as z from 'zod';
import { type ApiRule, withRules } from './fields.ts';

const ownLabelsAreOurs: ApiRule = {
  rule: "self.all(key, !key.startsWith('millrace.dev/'))",
  message: 'leave labels of millrace.dev/ out: Millrace sets them, and finds its pods by them',
};
const ownAnnotationsAreOurs: ApiRule = {
  rule: "self.all(key, !key.matches('^([a-z]+[.])?millrace[.]dev/'))",
  message:
    'leave annotations of millrace.dev out: they are requests and marks of one pod, not of all',
};

/**
 * Labels and annotations that a person gives to what is made from a template.
 *
 * @param whose `the pods`
 */
export function templateMetadata(whose: string, meaning: string) {
  return z
    .object({
      labels: z
        .record(z.string(), z.string().max(63))
        .optional()
        .meta({
          description: `Labels of ${whose}, besides those of Millrace.`,
          maxProperties: 32,
          ...withRules(ownLabelsAreOurs),
        }),
      annotations: z
        .record(z.string(), z.string().max(65_536))
        .optional()
        .meta({
          description: `Annotations of ${whose}, besides those of Millrace.`,
          maxProperties: 32,
          ...withRules(ownAnnotationsAreOurs),
        }),
    })
    .meta({ description: meaning });
}

/** An item of a list in a pod's spec, with all its fields. */
export const namedSchema = z.looseObject({
  name: z.string().min(1).max(63).meta({ description: 'Its name in the pod.' }),
});
