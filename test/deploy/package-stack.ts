import { execFile } from 'node:child_process';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type FunctionName, stepNames, sweepName } from '#shared/api/steps.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const osls = fileURLToPath(import.meta.resolve('osls/bin/serverless.js'));

export const packagedStage = 'test';

/** Every parameter that has no default. */
export const requiredParameters = {
  'cluster-id': 'one',
  'kube-server': 'https://kubernetes.example',
  'kube-ca': Buffer.from(rootCertificates[0] ?? '').toString('base64'),
  'queue-senders':
    'arn:aws:iam::111122223333:role/relay,arn:aws:iam::111122223333:role/operations/replayer',
} as const;

/** Every other one but `eks-cluster`, which goes without tokens. */
export const optionalParameters = {
  namespaces: 'db,web',
  'kube-token-parameter': '/elsewhere/token',
  'log-level': 'warn',
  'subnet-ids': 'subnet-0a0a0a0a,subnet-0b0b0b0b0b0b0b0b0',
  'security-group-ids': 'sg-0a0a0a0a',
  'alarm-topic': 'arn:aws:sns:us-east-1:111122223333:on-call',
} as const;

/**
 * Packages `serverless.yml` in a folder of its own, with files in the bundles' place.
 *
 * @param folder exists; the package is made in `package` below it
 * @returns the path of the compiled template
 */
export async function packageStack(
  folder: string,
  given: Readonly<Record<string, string>>,
): Promise<string> {
  const options = { recursive: true };
  await cp(join(root, 'serverless.yml'), join(folder, 'serverless.yml'));
  await cp(join(root, 'package.json'), join(folder, 'package.json'));
  await cp(join(root, 'infra/aws'), join(folder, 'infra/aws'), options);
  await cp(join(root, 'shared'), join(folder, 'shared'), options);
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const names: readonly FunctionName[] = [...stepNames, sweepName];
  for (const name of names) {
    const bundle = join(folder, 'dist', name, 'index.mjs');
    await mkdir(dirname(bundle), options);
    await writeFile(bundle, `export const name = '${name}';\n`);
  }
  const flags = Object.entries(given).flatMap(([name, value]) => ['--param', `${name}=${value}`]);
  const packaged = join(folder, 'package');
  const command = [osls, 'package', '--stage', packagedStage, '--package', packaged];
  await promisify(execFile)(process.execPath, [...command, ...flags], {
    cwd: folder,
    env: { PATH: process.env['PATH'], HOME: folder },
  });
  return join(packaged, 'cloudformation-template-update-stack.json');
}
