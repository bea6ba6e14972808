import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { findMissingPython, obtainCloudPython } from '#infra/local/cloud/install.ts';
import { optionalParameters, packageStack, requiredParameters } from './package-stack.ts';

/** Serverless names for each function what it refers to as what it depends on as well. */
const ignored = 'W3005';

/** One of each partition that the stack may be deployed to. */
const regions = ['eu-central-1', 'us-east-1', 'us-gov-west-1', 'cn-north-1'];

const findings = z.array(
  z.object({ Level: z.string(), Message: z.string(), Rule: z.object({ Id: z.string() }) }),
);

const isRequired = (process.env['CI'] ?? '') !== '';
const missing = isRequired ? undefined : await findMissingPython();
if (missing !== undefined) {
  process.stderr.write(`the compiled template is not linted: ${missing}\n`);
}

describe.skipIf(missing !== undefined)('the compiled template', () => {
  let python: string;
  let folder: string;

  beforeAll(async () => {
    python = await obtainCloudPython();
    folder = await mkdtemp(join(tmpdir(), 'millrace-lint-'));
  });

  afterAll(() => rm(folder, { recursive: true }));

  async function packaged(given: Readonly<Record<string, string>>): Promise<string> {
    return packageStack(await mkdtemp(join(folder, 'stack-')), given);
  }

  /** What cfn-lint finds, errors and warnings: each as its rule and its message. */
  async function lint(template: string): Promise<readonly string[]> {
    const flags = ['--format', 'json', '--ignore-checks', ignored, '--regions', ...regions];
    const output = await new Promise<string>((resolve, reject) => {
      // It is no module to run, and the program that pip makes for it names a folder that was moved since.
      const main = 'from cfnlint.runner import main; main()';
      const command = ['-c', main, '--template', template, ...flags];
      execFile(python, command, (error, stdout, stderr) => {
        // Its exit code is a sum of kinds of findings; a linter that broke wrote no list.
        if (stdout.startsWith('[')) {
          resolve(stdout);
        } else {
          reject(new Error(stderr, { cause: error }));
        }
      });
    });
    return findings.parse(JSON.parse(output)).map(({ Rule, Message }) => `${Rule.Id} ${Message}`);
  }

  test.each([
    { what: 'with the required parameters alone', given: requiredParameters },
    {
      what: 'with every parameter of a cluster that takes tokens',
      given: { ...requiredParameters, ...optionalParameters },
    },
    { what: 'on EKS', given: { ...requiredParameters, 'eks-cluster': 'orders' } },
  ])('has nothing that cfn-lint would correct, $what', async ({ given }) => {
    const template = await packaged(given);

    const found = await lint(template);

    expect(found).toEqual([]);
  });

  test('would be found wrong, were it: a queue that is not there, a timeout of an hour', async () => {
    const template = await packaged(requiredParameters);
    const text = await readFile(template, 'utf8');
    await writeFile(
      template,
      text
        .replaceAll('"Ref": "DrainStepQueue"', '"Ref": "NoQueue"')
        .replace('"Timeout": 30', '"Timeout": 3600'),
    );

    const found = await lint(template);

    expect(found.join('\n')).toMatch(/NoQueue/);
    expect(found.join('\n')).toMatch(/3600/);
  });
});
