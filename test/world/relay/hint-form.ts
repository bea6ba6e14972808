import type { StepName } from '#shared/api/steps.ts';

/** What workloads put wherever a hint must not take anything from. */
export const canary = 'canary-that-no-hint-may-hold';

const maxBytes = 1024;
const fields = [
  'specversion',
  'id',
  'source',
  'type',
  'subject',
  'time',
  'datacontenttype',
  'data',
];
const dataFields = ['kind', 'namespace', 'name', 'uid', 'resourceVersion', 'traceparent'];
const causes = ['changed', 'deleted', 'wake', 'resync', 'replay'];

/**
 * What is wrong with a message, as the public format has it; written out again here, so that the relay's own schema is
 * compared with something.
 */
export function checkHint(body: string, step: StepName, group: string): string | undefined {
  const bytes = Buffer.byteLength(body);
  if (bytes > maxBytes) {
    return `a hint has ${bytes} bytes`;
  }
  if (body.includes(canary)) {
    return `a hint says more than it may: ${body}`;
  }
  const hint = JSON.parse(body) as { readonly [field: string]: unknown };
  const data = hint['data'] as { readonly [field: string]: unknown };
  const unknown = [
    ...Object.keys(hint).filter((field) => !fields.includes(field)),
    ...Object.keys(data).filter((field) => !dataFields.includes(field)),
  ];
  if (unknown.length > 0) {
    return `a hint has fields of its own: ${unknown.join(', ')}`;
  }
  const isWhole =
    hint['specversion'] === '1.0' &&
    hint['datacontenttype'] === 'application/json' &&
    causes.some((cause) => hint['type'] === `dev.millrace.hint.${cause}`) &&
    hint['subject'] === `shards/${String(data['namespace'])}/${String(data['name'])}` &&
    String(hint['id']).startsWith(`${String(data['uid'])}/`) &&
    String(hint['id']).endsWith(`/${step}`) &&
    data['kind'] === 'Shard' &&
    data['uid'] === group;
  return isWhole ? undefined : `a hint to ${step} for ${group} is none: ${body}`;
}
