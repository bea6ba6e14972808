import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { routing, targetKinds } from '#events/routes.ts';
import {
  confirmRepository,
  backupNow,
  drainMirror,
  drainRequest,
  goverseAddress,
  forceDrain,
  reconcileRequest,
  recordPrefix,
  releaseMirror,
  releasedClaim,
  shutdownMode,
  traceparentAnnotation,
  traceparentTime,
  templateHash,
} from '#shared/api/annotations.ts';
import {
  attemptLabel,
  cellLabel,
  goverseLabel,
  indexLabel,
  poolLabel,
  scheduleLabel,
  shardLabel,
  slotLabel,
} from '#shared/api/labels.ts';
import { type ResourceKind, resourceTypes, shortNames } from '#shared/kube/resources.ts';
import { type ServedKind, servedKinds } from './crd.ts';
import { type Schema, rulesOf } from './structural-schema.ts';

const nothingGoesOn =
  'Nothing goes on until a person or a repair elsewhere comes; the message says what is needed.';

/** What each condition says when it is `True`, by the kind that has it. Who writes it stands in the routes. */
const conditionMeanings: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Database: {
    Ready: 'Backups go where the spec says, or the spec says nothing about them.',
    Reconciling: 'The repository is being taken into use.',
    Stalled: nothingGoesOn,
    BackupConfigured:
      'The repository is in order and this Database’s, and the data plane was told. `False` says what is missing; `Unknown`, that it cannot be told.',
  },
  GoverseCluster: {
    Ready: 'Every shard has its node.',
    Reconciling: 'Shards are being handed over.',
    Stalled: nothingGoesOn,
    Released:
      'No node waits for its shards to be handed over. `False` says whose are, or what that waits for; `Unknown`, that it cannot be told.',
  },
  Shard: {
    Ready: 'Every member that is wanted is there and ready.',
    Reconciling: 'Members come or go.',
    Stalled: nothingGoesOn,
    PodsUpToDate:
      'Claims, pods, Service and disruption budgets are as the spec says, and as the Database’s repository needs them.',
    Drained:
      'Nobody is leaving. `False` says who is, or what that waits for; `Unknown`, that it cannot be told.',
    BackupsOnSchedule:
      'Every schedule is in force and has its backups: `False` once two slots, and the usual length of a run, have gone by without a good one, or a schedule has to be corrected. Only where there are schedules.',
    TopologyClean:
      'Every pooler record has its member. `False`: some have none, and go in their time (`StaleRecords`), stay because cleanup is not enabled (`CleanupOff`), or are left to people (`RecordsLeft`). `Unknown`: it cannot be told, and nothing is done.',
  },
};

const annotations: readonly (readonly [key: string, on: string, by: string, meaning: string])[] = [
  [
    drainRequest,
    'pod',
    'people',
    'Please drain this member; the value says why. Taking it away cancels, before the point of no return.',
  ],
  [
    forceDrain,
    'Shard',
    'people',
    'The uid of the pod whose drain may go past its unmet gate, also after the pod is gone.',
  ],
  [
    confirmRepository,
    'Database',
    'people',
    'The hash of the repository that backups may move to, away from where they are. The condition that asks for it prints it.',
  ],
  [
    backupNow,
    'Shard',
    'people',
    '`<type>/<token>`: one backup besides the schedules for each new value, with the type `full`, `differential` or `incremental` and a token of at most 40 letters, digits and `._:-`.',
  ],
  [
    traceparentAnnotation,
    'Shard, Database, GoverseCluster',
    'people, pipelines',
    'The W3C `traceparent` of the change. The relay continues it; no step is woken by it.',
  ],
  [
    traceparentTime,
    'Shard, Database, GoverseCluster',
    'people, pipelines',
    'When that was written there, as Unix seconds or RFC 3339: for ten minutes what follows belongs to that trace, later it is linked to it.',
  ],
  [
    shutdownMode,
    'pod',
    'people',
    '`quick` or `clean`: what becomes of the shards of this node of GoVerse when it goes, whatever the mode of its GoverseCluster is.',
  ],
  [
    goverseAddress,
    'pod',
    'people',
    'The address under which this node of GoVerse is registered, where it is neither by the address of its pod nor by its name.',
  ],
  [
    reconcileRequest,
    'Shard, Database, GoverseCluster',
    'people',
    'A new value wakes every step once.',
  ],
  [
    `${recordPrefix}<step>`,
    'Shard, Database, GoverseCluster',
    'the step',
    'Its record: what it has begun, and when it looks again. Not for editing; `millrace reset` clears it.',
  ],
  [
    drainMirror,
    'pod',
    'drain-step',
    '`draining` or `finished`, for people and for agents in the pod. Never read back.',
  ],
  [
    releaseMirror,
    'pod',
    'shard-release',
    '`draining` or `released`, for people and for whoever waits to stop the node. Never read back.',
  ],
  [
    releasedClaim,
    'claim',
    'drain-step',
    'The uid of the pod that left this claim for good. pool-pods takes it away when it uses the index again.',
  ],
  [
    templateHash,
    'pod',
    'pool-pods',
    'A hash of the pod spec it was made with: it differs on pods that a changed template or repository has not reached.',
  ],
];

const labels: readonly (readonly [key: string, value: string])[] = [
  [shardLabel, 'Name of the Shard.'],
  [poolLabel, 'Name of the pool.'],
  [cellLabel, 'Name of the cell.'],
  [goverseLabel, 'Of the pod of a node of GoVerse: name of its GoverseCluster.'],
  [indexLabel, "The member's index in its pool and cell."],
  [scheduleLabel, 'Of a Job: its schedule.'],
  [slotLabel, 'Of a Job: its slot, with points for colons.'],
  [attemptLabel, 'Of a Job: tries before it.'],
];

/** The reference page: every field of every kind with type, default, limits and meaning, and what else is public. */
export function generateReference(): { path: string; content: string }[] {
  const path = 'infra/kubernetes/reference.md';
  return [{ path, content: formatted(path, referencePage()) }];
}

function referencePage(): string {
  return [
    '<!-- Generated by `npm run generate` from shared/api. Do not edit. -->',
    '# API reference',
    'Durations are written as in Go (`5m`, `1h30m`), sizes as Kubernetes quantities, times as RFC 3339.',
    ...servedKinds.flatMap(kindSection),
    ...targetKinds(routing).flatMap((kind) => [
      `## Conditions of a ${kind}`,
      table(['type', 'written by', 'when `True`'], conditionRows(kind)),
    ]),
    '## Annotations',
    table(
      ['key', 'on', 'written by', 'meaning'],
      annotations.map(([key, ...rest]) => [code(key), ...rest]),
    ),
    '## Labels',
    'On pods, claims, Services, disruption budgets and the Jobs of backups, as far as they apply. In attach mode the owner of the pods sets them.',
    table(
      ['key', 'value'],
      labels.map(([key, value]) => [code(key), value]),
    ),
  ].join('\n\n');
}

/** A condition that a step writes and this page does not explain is an error. */
function conditionRows(kind: ResourceKind): string[][] {
  return routing.routes
    .filter(({ target }) => target === kind)
    .flatMap(({ step, ownConditions }) =>
      ownConditions.map((type) => {
        const meaning = conditionMeanings[kind]?.[type];
        if (meaning === undefined) {
          throw new Error(`the reference does not say what ${type} of ${kind} means`);
        }
        return [code(type), step, meaning];
      }),
    );
}

function kindSection({ kind, schema, columns }: ServedKind): string[] {
  const { group, version, plural } = resourceTypes[kind];
  return [
    `## ${kind}`,
    `${schema.description} \`${group}/${version}\`, \`${plural}\`, short \`${shortNames[kind]}\`.`,
    ...['spec', 'status'].flatMap((part) => {
      const node = schema.properties?.[part];
      const isRequired = schema.required?.includes(part) === true;
      return node === undefined
        ? []
        : [table(['field', 'type', 'default', 'meaning'], fieldRows(node, part, isRequired))];
    }),
    'The API server also checks:',
    table(
      ['field', 'rule'],
      rulesOf(schema).map(({ path, message }) => [path === '' ? '' : code(path), message]),
    ),
    `Columns of \`kubectl get ${shortNames[kind]}\`:`,
    table(
      ['column', 'meaning'],
      columns.map(({ name, description, priority }) => [
        priority === undefined ? name : `${name} (\`-o wide\`)`,
        description,
      ]),
    ),
  ];
}

function fieldRows(node: Schema, path: string, isRequired: boolean): string[][] {
  const ofFields = (schema: Schema, prefix: string) =>
    Object.entries(schema.properties ?? {}).flatMap(([name, field]) =>
      fieldRows(field, `${prefix}.${name}`, schema.required?.includes(name) === true),
    );
  return [
    [code(path), typeOf(node), defaultOf(node, isRequired), node.description ?? ''],
    ...ofFields(node, path),
    ...(node.items === undefined ? [] : ofFields(node.items, `${path}[]`)),
  ];
}

function typeOf(node: Schema): string {
  const limits = [
    range(node.minimum, node.maximum, ''),
    range(node.minLength, node.maxLength, ' characters'),
    range(node.minItems, node.maxItems, ' items'),
    range(undefined, node.maxProperties, ' entries'),
  ].filter((limit) => limit !== '');
  return [baseType(node), ...limits].join(', ');
}

function baseType(node: Schema): string {
  if (node.enum !== undefined) {
    return node.enum.map(code).join(' or ');
  }
  if (node.items !== undefined) {
    return `list of ${baseType(node.items)}`;
  }
  if (node.additionalProperties !== undefined) {
    return `map of ${baseType(node.additionalProperties)}`;
  }
  return node.format === 'date-time' ? 'time' : (node.type ?? '');
}

function range(from: number | undefined, to: number | undefined, unit: string): string {
  if (to === undefined) {
    return from === undefined ? '' : `at least ${from}${unit}`;
  }
  return from === undefined ? `at most ${to}${unit}` : `${from} to ${to}${unit}`;
}

function defaultOf(node: Schema, isRequired: boolean): string {
  if (node.default !== undefined) {
    return code(JSON.stringify(node.default));
  }
  return isRequired ? 'required' : '';
}

function code(text: string): string {
  return `\`${text}\``;
}

function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...body].map(tableLine).join('\n');
}

function tableLine(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** As the project's formatter writes it, so that a formatted tree shows no drift. */
export function formatted(path: string, content: string): string {
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const { status, stdout, stderr, error } = spawnSync(
    `${root}node_modules/.bin/oxfmt`,
    ['--stdin-filepath', path],
    { cwd: root, input: content, encoding: 'utf8' },
  );
  if (status !== 0) {
    throw new Error(`formatting ${path} failed: ${error?.message ?? stderr}`);
  }
  return stdout;
}
