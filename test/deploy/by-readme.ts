import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DeleteRolePolicyCommand, IAMClient } from '@aws-sdk/client-iam';
import { type Cloud, cloudAccount } from '#infra/local/cloud/start.ts';
import type { ControlPlane } from '#infra/local/control-plane/control-plane.ts';
import {
  type Person,
  allowBatches,
  batches,
  clientOf,
  copyProject,
  createUser,
  hasten,
  physicalIdOf,
} from './deployment.ts';
import { Readme, type Substitution } from './readme.ts';
import { Terminal } from './terminal.ts';

/** As the README has them. */
export const stage = 'prod';
export const clusterId = 'prod-eu';

/** Where Millrace's own objects are, and where it works. */
export const installedIn = 'millrace';
export const namespace = 'db';
/** Where the relay looks too, though the functions are not told of it at first. */
export const forgottenNamespace = 'web';

export interface ReadmeOptions {
  readonly cloud: Cloud;
  readonly controlPlane: ControlPlane;
  /** Of the program kubectl. */
  readonly kubectl: string;
  readonly folder: string;
  /** Where the topology and the admin service of the data plane are reached. */
  readonly topologyUrl: string;
  readonly adminUrl: string;
  /** Where the stand-in for AWS is asked as by TLS. */
  readonly secureUrl: string;
}

export interface DeployedByReadme {
  /** The stack's output of this name. */
  readonly queueUrlPrefix: string;
  /** Where the README's commands were given. Packages are in `.serverless`, bundles in `dist`. */
  readonly project: string;
  /** Named by the queues' policies: whoever replays dead letters. */
  readonly replayer: Person;
  /** Allowed everything with queues by its own policy. */
  readonly stranger: Person;
  /** Gives the commands of one block below a heading of the README's. */
  follow(heading: string, block: number): Promise<string>;
  /** What of the README's chapter was not given yet. */
  notFollowed(): readonly string[];
  /** Gives the command of infra/kubernetes/README.md, of which the API server is only asked whether it would do it. */
  tryInstall(): Promise<string>;
  /** Gives the commands that replay dead letters, signed in as the {@link replayer}. */
  replayDeadLetters(): Promise<string>;
  /** Deploys again as the README has it, with the forgotten namespace among those where the functions may act. */
  rememberNamespace(): Promise<void>;
  /** Removes everything as the README has it. */
  remove(): Promise<void>;
  /** Lets the schedule of the sweep tick every minute, the shortest there is, instead of every five. */
  hastenSweep(): Promise<void>;
}

/** What the README lets a replayer do with dead-letter queues; of batches the stand-in asks by names of their own. */
const replaying = [
  'sqs:GetQueueAttributes',
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
  'sqs:DeleteMessageBatch',
  'sqs:ChangeMessageVisibility',
  'sqs:ChangeMessageVisibilityBatch',
];

/** In AWS the `aws:PrincipalArn` of who took a role is the role; the stand-in says the session. */
const sessions = [`millrace-${stage}-SweepRole-*`, `millrace-relay-${stage}`].map(
  (role) => `arn:aws:sts::${cloudAccount}:assumed-role/${role}/*`,
);

/**
 * Does what the README tells a person to do, in its order, up to where the first Shard is made. What is another text here
 * than there, because no image can be built and nothing runs pods, is named.
 */
export async function deployByReadme(options: ReadmeOptions): Promise<DeployedByReadme> {
  const { cloud, controlPlane, kubectl, folder } = options;
  const replayer = await createUser(cloud, 'replayer', [batches, ...replaying]);
  const stranger = await createUser(cloud, 'stranger', ['sqs:*']);
  const project = await copyProject(join(folder, 'project'));
  const readme = await Readme.read('README.md', substitutions(options, replayer));
  const terminal = await Terminal.open({
    cloud,
    kubectl,
    kubeconfigPath: controlPlane.kubeconfigPath,
    workingDir: project,
    folder: join(folder, 'terminal'),
  });
  const given = new Set<string>();
  const give = (block = '') => {
    given.add(block);
    return terminal.run(block);
  };
  const followAll = async (heading: string) => {
    for (const block of readme.blocks(heading, 'sh')) {
      await give(block);
    }
  };
  await followAll(chapter);
  await followAll('### 1. Build');
  await followAll('### 2. A role for the relay');
  await allowBatches(cloud, relayRole);
  await followAll('### 3. Accounts and tokens');
  await followAll(functionsHeading);
  await allowBatches(cloud, await physicalIdOf(cloud, 'AWS::IAM::Role', 'SweepRole', stack));
  await followAll('### 5. The image of the relay');
  await followAll('### 6. The relay, roles and policies');
  const [objects = ''] = readme.blocks('## Run it on your cluster', 'yaml');
  await writeFile(join(project, 'orders.yaml'), objects);
  return {
    queueUrlPrefix: (await terminal.run('printf %s "$QUEUE_URL_PREFIX"')).trim(),
    project,
    replayer,
    stranger,
    follow: (heading, block) => give(readme.blocks(heading, 'sh')[block]),
    notFollowed: () => {
      const elsewhere = new Set(readme.blocks(eksHeading, 'sh'));
      return readme
        .chapter(chapter, 'sh')
        .filter((block) => !given.has(block) && !elsewhere.has(block));
    },
    tryInstall: async () => {
      const find = 'kubectl apply --server-side';
      const replace = `${find} --dry-run=server`;
      const why = 'what is installed stays as it is';
      const other = await Readme.read('infra/kubernetes/README.md', [{ find, replace, why }]);
      const [block = ''] = other.blocks('## Install', 'sh');
      return terminal.run(block);
    },
    replayDeadLetters: () => {
      const [block = ''] = readme.blocks('### 8. Dead letters', 'sh');
      given.add(block);
      const { accessKeyId, secretAccessKey } = replayer;
      return terminal.run(
        `(export AWS_ACCESS_KEY_ID=${accessKeyId} AWS_SECRET_ACCESS_KEY='${secretAccessKey}'\n${block})`,
      );
    },
    rememberNamespace: async () => {
      const [block = ''] = readme.blocks(functionsHeading, 'sh');
      await terminal.run(
        block.replace(`namespaces=${namespace}`, `namespaces=${namespace},${forgottenNamespace}`),
      );
    },
    remove: async () => {
      // A role goes only without policies, and this one is not the README's.
      await disallowBatches(cloud, relayRole);
      await followAll('### Remove');
    },
    hastenSweep: async () =>
      hasten(cloud, await physicalIdOf(cloud, 'AWS::Events::Rule', undefined, stack)),
  };
}

const chapter = '## Deploy it to AWS';

/** The stand-in for AWS has no EKS that would know access entries: that functions can sign in so, eks.test.ts sees. */
const eksHeading = '### On EKS, without tokens';

const stack = `millrace-${stage}`;
const relayRole = `millrace-relay-${stage}`;

const functionsHeading = '### 4. Queues and functions';

function substitutions(
  { topologyUrl, adminUrl, secureUrl }: ReadmeOptions,
  replayer: Person,
): readonly Substitution[] {
  return [
    { find: 'npm ci --ignore-scripts\n', replace: '', why: 'the packages are there' },
    {
      find: '          "${ISSUER#https://}:aud": "sts.amazonaws.com",\n',
      replace: '',
      why: 'the stand-in does not find an audience in a list of them, as the API server writes it',
    },
    {
      find: 'queue-senders="$RELAY_ROLE_ARN"',
      replace: `queue-senders="$RELAY_ROLE_ARN,${[replayer.arn, ...sessions].join(',')}" --param archive=all`,
      why: 'somebody else is named too, the stand-in knows sessions where AWS knows roles, and every look is recorded',
    },
    {
      find: `kubectl create namespace ${namespace}\n`,
      replace: `kubectl create namespace ${namespace}\nkubectl create namespace ${forgottenNamespace}\n`,
      why: 'the relay looks into a second namespace',
    },
    {
      find: `--work-namespace ${namespace} `,
      replace: `--work-namespace ${namespace} --work-namespace ${forgottenNamespace} `,
      why: 'the same',
    },
    {
      find: 'kubectl rollout status',
      replace: ': kubectl rollout status',
      why: 'nothing runs pods here: the relay is a process of the test',
    },
    {
      find: `millrace replay -n ${namespace} `,
      replace: `millrace replay -n ${namespace} -n ${forgottenNamespace} --queue-endpoint ${secureUrl} `,
      why: 'the letters are about the second namespace, and the stand-in has no TLS of its own',
    },
    { find: 'http://topo.db.svc:2379', replace: topologyUrl, why: 'it is on this machine' },
    { find: 'http://multiadmin.db.svc:18000', replace: adminUrl, why: 'it is on this machine' },
    {
      find: "image: '…'",
      replace: 'image: multigres/multipooler',
      why: 'the README leaves it open',
    },
    {
      find: '  databaseRef: { name: main }\n',
      replace: '  databaseRef: { name: main }\n  cleanup: { quietFor: 5s, deleteAfter: 6s }\n',
      why: 'a day is too long to wait',
    },
  ];
}

async function disallowBatches(cloud: Cloud, role: string): Promise<void> {
  const client = new IAMClient(clientOf(cloud));
  await client.send(new DeleteRolePolicyCommand({ RoleName: role, PolicyName: 'batches' }));
  client.destroy();
}
