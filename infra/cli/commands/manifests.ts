import * as z from 'zod';
import { parsePlace } from '#shared/archive/place.ts';
import { defaultNamespace } from '#infra/kubernetes/base.ts';
import { type Installation, installationOf } from '#infra/kubernetes/installation.ts';
import { type Manifest, documents } from '#infra/kubernetes/manifest.ts';
import { type NamedObject, identityNames } from '#infra/kubernetes/rbac.ts';
import { plainIssue } from '#shared/kernel/plain-issue.ts';
import { readDefinitions } from '../definitions.ts';
import type { OutputFlags } from '../output.ts';
import { print, printJson } from '../terminal.ts';
import { UsageError } from '../usage-error.ts';

export interface ManifestsFlags extends OutputFlags {
  readonly namespace?: string;
  readonly clusterId?: string;
  readonly stage?: string;
  readonly image?: string;
  readonly queueUrlPrefix?: string;
  readonly queueEndpoint?: string;
  readonly otelEndpoint?: string;
  readonly archive?: string;
  readonly region?: string;
  readonly relayRoleArn?: string;
  readonly workNamespace?: readonly string[];
  readonly secret?: readonly string[];
  readonly service?: readonly string[];
  readonly user?: readonly string[];
}

/**
 * Prints the custom resource definitions: what `dev --install` applies, for whoever applies it by other means. With an
 * option about the installation, everything that runs in the cluster besides.
 */
export async function manifests(flags: ManifestsFlags): Promise<0> {
  const definitions = readDefinitions();
  const isInstallation = Object.keys(flagsSchema.shape).some((name) => name in flags);
  const installed: readonly Manifest[] = isInstallation
    ? installationOf(installationIn(flags))
    : [];
  if (flags.output === 'json') {
    printJson({
      apiVersion: 'v1',
      kind: 'List',
      items: [...definitions.map((definition) => definition.manifest), ...installed],
    });
  } else {
    print(
      [
        ...definitions.map((definition) => definition.text.trimEnd()),
        ...(installed.length === 0 ? [] : [documents(installed).trimEnd()]),
      ].join('\n---\n'),
    );
  }
  return 0;
}

const label = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'is not the name of a namespace');

/** `<namespace>/<name>`, and for a Service `<namespace>/[https:]<name>:<port>`. */
const secretPattern = /^([a-z0-9][a-z0-9-]{0,62})\/([a-z0-9][a-z0-9.-]{0,252})$/;
const servicePattern =
  /^([a-z0-9][a-z0-9-]{0,62})\/((?:https:)?[a-z0-9][a-z0-9-]{0,62}:[a-z0-9-]{1,15})$/;

/** `<identity>=<user>`, every user of an identity in one list. */
const users = z
  .array(
    z.string().regex(/^[a-z-]+=[^'\\\s]+$/, 'must be <identity>=<user>, without quotes and spaces'),
  )
  .default([])
  .transform((texts, context) => {
    const pairs = texts.map((text) => {
      const [identity = '', ...rest] = text.split('=');
      return { identity: identityNames.find((name) => name === identity), user: rest.join('=') };
    });
    if (pairs.some(({ identity }) => identity === undefined)) {
      context.addIssue(`must name one of ${identityNames.join(', ')}`);
    }
    return Object.fromEntries(
      identityNames.map((name) => [
        name,
        pairs.flatMap(({ identity, user }) => (identity === name ? [user] : [])),
      ]),
    );
  });

const flagsSchema = z.object({
  namespace: label.default(defaultNamespace),
  clusterId: z.string('is missing: the id under which this cluster sends its hints').max(100),
  stage: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,40}$/, 'must be at most 40 letters, digits, - and _')
    .default('prod'),
  image: z.string('is missing: the relay’s image, best by its digest'),
  queueUrlPrefix: z.url('is missing or no URL: what the stack’s output QueueUrlPrefix says'),
  queueEndpoint: z.url('is no URL').optional(),
  otelEndpoint: z.url({ protocol: /^https?$/, error: 'is no http(s):// address' }).optional(),
  archive: z
    .string()
    .refine((text) => parsePlace(text)?.kind === 's3', 'must be s3://bucket, or s3://bucket/prefix')
    .optional(),
  region: z.string('is missing: the region of the queues'),
  relayRoleArn: z.string().optional(),
  workNamespace: z.array(label).default([]),
  secret: namedObjects(secretPattern, 'must be <namespace>/<name>'),
  service: namedObjects(servicePattern, 'must be <namespace>/<name>:<port>'),
  user: users,
});

function namedObjects(pattern: RegExp, problem: string) {
  return z
    .array(z.string().regex(pattern, problem))
    .default([])
    .transform((texts) =>
      texts.map((text): NamedObject => {
        const [, namespace = '', name = ''] = pattern.exec(text) ?? [];
        return { namespace, name };
      }),
    );
}

/** Throws a UsageError that names every option that is missing or wrong. */
function installationIn(flags: ManifestsFlags): Installation {
  const parsed = flagsSchema.safeParse(flags, { error: plainIssue });
  if (!parsed.success) {
    throw new UsageError(
      [
        'options are missing or wrong:',
        ...parsed.error.issues.map(
          ({ path, message }) => `  - ${optionOf(String(path[0]))} ${message}`,
        ),
      ].join('\n'),
    );
  }
  const { namespace, workNamespace, secret, service, user, relayRoleArn, ...relay } = parsed.data;
  const { queueEndpoint, otelEndpoint, archive, ...required } = relay;
  return {
    namespace,
    workNamespaces: workNamespace,
    secrets: secret,
    services: service,
    users: user,
    ...(relayRoleArn === undefined ? {} : { relayRoleArn }),
    relay: {
      ...required,
      ...(queueEndpoint === undefined ? {} : { queueEndpoint }),
      ...(otelEndpoint === undefined ? {} : { otelEndpoint }),
      ...(archive === undefined ? {} : { archive }),
    },
  };
}

/** `queueUrlPrefix` → `--queue-url-prefix`. */
function optionOf(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
