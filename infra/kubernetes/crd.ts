import { stringify } from 'yaml';
import { databaseRules, databaseSpecSchema, databaseStatusSchema } from '#shared/api/database.ts';
import type { ApiRule } from '#shared/api/fields.ts';
import {
  goverseClusterRules,
  goverseClusterSpecSchema,
  goverseClusterStatusSchema,
} from '#shared/api/goverse-cluster.ts';
import { shardRules, shardSpecSchema, shardStatusSchema } from '#shared/api/shard.ts';
import { type TargetKind, resourceTypes, shortNames } from '#shared/kube/resources.ts';
import { partOf } from './manifest.ts';
import { type Schema, structuralSchema } from './structural-schema.ts';

/** A column of `kubectl get`; one with `priority` shows only with `-o wide`. */
interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'boolean' | 'date' | 'integer';
  readonly jsonPath: string;
  readonly description: string;
  readonly priority?: 1;
}

/** A kind of the API as it is served. */
export interface ServedKind {
  readonly kind: TargetKind;
  /** Of the whole object. */
  readonly schema: Schema;
  readonly columns: readonly PrinterColumn[];
}

const age: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'Time since it was created.',
};

/** Every kind of the API, from the zod schemas of `shared/api`. */
export const servedKinds: readonly ServedKind[] = [
  {
    kind: 'Database',
    schema: objectSchema(
      'A database: where its data plane is, and what all its shards share.',
      {
        spec: structuralSchema(databaseSpecSchema),
        status: structuralSchema(databaseStatusSchema),
      },
      databaseRules,
    ),
    columns: [
      // `Name` is kubectl's own first column.
      {
        name: 'Database',
        type: 'string',
        jsonPath: '.spec.name',
        description: 'Its name in the data plane.',
      },
      {
        name: 'Kind',
        type: 'string',
        jsonPath: '.spec.dataPlane.kind',
        description: 'What it runs on.',
      },
      {
        name: 'Ready',
        type: 'string',
        jsonPath: '.status.conditions[?(@.type=="Ready")].status',
        description: 'Whether all that is wanted for it is there.',
      },
      {
        name: 'Repository',
        type: 'string',
        jsonPath: '.status.conditions[?(@.type=="BackupConfigured")].reason',
        description: 'How it stands with the place for its backups.',
      },
      age,
      {
        name: 'Paused',
        type: 'boolean',
        jsonPath: '.spec.paused',
        description: 'Whether every step only observes.',
        priority: 1,
      },
    ],
  },
  {
    kind: 'GoverseCluster',
    schema: objectSchema(
      'A cluster of GoVerse: where its keys are, and how its shards are handed over.',
      {
        spec: structuralSchema(goverseClusterSpecSchema),
        status: structuralSchema(goverseClusterStatusSchema),
      },
      goverseClusterRules,
    ),
    columns: [
      {
        name: 'Ready',
        type: 'string',
        jsonPath: '.status.conditions[?(@.type=="Ready")].status',
        description: 'Whether every shard has its node.',
      },
      {
        name: 'Nodes',
        type: 'integer',
        jsonPath: '.status.nodes',
        description: 'Nodes that are registered.',
      },
      {
        name: 'Draining',
        type: 'string',
        jsonPath: '.status.draining.pod',
        description: 'The pod whose shards are being handed over.',
      },
      {
        name: 'Left',
        type: 'integer',
        jsonPath: '.status.draining.left',
        description: 'Shards it still has.',
      },
      {
        name: 'Mode',
        type: 'string',
        jsonPath: '.spec.shutdown.mode',
        description: 'What becomes of the shards of a node that goes.',
      },
      age,
      {
        name: 'Leader',
        type: 'string',
        jsonPath: '.status.leader',
        description: 'The node that leads.',
        priority: 1,
      },
      {
        name: 'Paused',
        type: 'boolean',
        jsonPath: '.spec.paused',
        description: 'Whether everything is only observed.',
        priority: 1,
      },
    ],
  },
  {
    kind: 'Shard',
    schema: objectSchema(
      'One shard of a database: its pools of members, and how they come and go.',
      { spec: structuralSchema(shardSpecSchema), status: structuralSchema(shardStatusSchema) },
      shardRules,
    ),
    columns: [
      {
        name: 'Ready',
        type: 'string',
        jsonPath: '.status.conditions[?(@.type=="Ready")].status',
        description: 'Whether every member that is wanted is there and ready.',
      },
      {
        name: 'Primary',
        type: 'string',
        jsonPath: '.status.primary.pod',
        description: "The primary's pod.",
      },
      {
        name: 'Draining',
        type: 'string',
        jsonPath: '.status.drain.pod',
        description: 'The pod that is leaving.',
      },
      {
        name: 'Last Backup',
        type: 'date',
        jsonPath: '.status.lastBackup.any',
        description: 'Time since the newest good backup was complete.',
      },
      {
        // kubectl tells no date that is still to come.
        name: 'Next Backup',
        type: 'string',
        jsonPath: '.status.nextBackup',
        description: 'When the next backup is due.',
      },
      age,
      {
        name: 'Reason',
        type: 'string',
        jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
        description: 'Why it is ready or not.',
        priority: 1,
      },
      {
        name: 'Paused',
        type: 'boolean',
        jsonPath: '.spec.paused',
        description: 'Whether every step only observes.',
        priority: 1,
      },
    ],
  },
];

/** The definition of every kind, a file each. */
export function generateDefinitions(): { path: string; content: string }[] {
  return servedKinds.map((served) => {
    const { plural, group } = resourceTypes[served.kind];
    return {
      path: `infra/kubernetes/crds/${plural}.${group}.yaml`,
      content: `# Generated by \`npm run generate\` from shared/api. Do not edit.\n${stringify(
        definitionOf(served),
        { lineWidth: 0, aliasDuplicateObjects: false },
      )}`,
    };
  });
}

function definitionOf({ kind, schema, columns }: ServedKind): object {
  const { group, version, plural } = resourceTypes[kind];
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}`, labels: partOf },
    spec: {
      group,
      scope: 'Namespaced',
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames: [shortNames[kind]],
        categories: ['millrace'],
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          schema: { openAPIV3Schema: schema },
        },
      ],
    },
  };
}

function objectSchema(
  description: string,
  parts: { readonly [name: string]: Schema },
  rules: readonly ApiRule[],
): Schema {
  return {
    description,
    type: 'object',
    required: ['spec'],
    'x-kubernetes-validations': rules,
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      ...parts,
    },
  };
}
