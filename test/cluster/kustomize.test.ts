import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { identityNames } from '#infra/kubernetes/rbac.ts';
import { obtain } from '#infra/local/control-plane/binaries.ts';
import { kubectlProgram } from '#infra/local/control-plane/program.ts';
import { Readme } from '#test/deploy/readme.ts';
import { runMillrace } from '../unit/infra/cli/run-millrace.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const run = promisify(execFile);

const shipped = fileURLToPath(new URL('../../infra/kubernetes', import.meta.url));

/** What is another text here than in the page's example of an overlay. */
const substitutions = [
  {
    find: 'github.com/…/millrace/infra/kubernetes?ref=…',
    replace: './base',
    why: 'the sources are here',
  },
  { find: 'sha256:…', replace: `sha256:${'0'.repeat(64)}`, why: 'no image is pulled' },
];

describe.skipIf(missingControlPlane !== undefined)('the kustomize base under an overlay', () => {
  const controlPlane = useControlPlane();
  let folder: string;
  let kubectl: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-kustomize-'));
    kubectl = await obtain(kubectlProgram);
    await cp(shipped, join(folder, 'base'), { recursive: true });
    const readme = await Readme.read('infra/kubernetes/README.md', substitutions);
    const [overlay = ''] = readme.blocks('## Install', 'yaml');
    await writeFile(join(folder, 'kustomization.yaml'), overlay);
  });

  afterAll(() => rm(folder, { recursive: true }));

  test('is applied by kubectl, and gives each identity what it needs, the Lease among it', async () => {
    const kubeconfig = controlPlane().kubeconfigPath;
    const apply = ['apply', '--server-side', '--kubeconfig', kubeconfig, '--kustomize', folder];

    // Objects of a kind whose definition comes along are none, so once is enough.
    const { stdout: applied } = await run(kubectl, apply);
    const { stdout } = await runMillrace([
      'doctor',
      '--accounts',
      '--json',
      '--kubeconfig',
      kubeconfig,
    ]);

    expect(applied).toContain('configmap/millrace-relay-settings-');
    expect(applied).toContain('deployment.apps/millrace-relay');
    const { checks } = z
      .object({ checks: z.array(z.looseObject({ name: z.string(), result: z.string() })) })
      .parse(JSON.parse(stdout));
    const permissions = checks.filter(({ name }) => name.startsWith('permissions of '));
    expect(permissions).toHaveLength(identityNames.length + 1);
    expect(permissions.filter(({ result }) => result !== 'ok')).toEqual([]);
  });
});
