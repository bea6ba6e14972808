import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Cloud, cloudAdministrator, cloudRegion } from '#infra/local/cloud/start.ts';
import { obtainCloudPython } from '#infra/local/cloud/install.ts';
import { startGuarded } from '#infra/local/control-plane/guard.ts';

/** The digest of an image that nobody has built. */
const noDigest = `sha256:${'0'.repeat(64)}`;

/** Nothing builds images here: it answers as podman would, and looks whether there is what an image is built from. */
const podman = `#!/bin/sh
set -eu
case "$1" in
  pull) ;;
  image) echo "docker.io/library/node@${noDigest}" ;;
  build) for last; do :; done; test -f "$last/index.mjs"; test -f "$3" ;;
  push) test "$2" = --digestfile; printf ${noDigest} >"$3" ;;
  *) exit 64 ;;
esac
`;

export interface TerminalOptions {
  readonly cloud: Cloud;
  readonly kubeconfigPath: string;
  /** The folder of the program kubectl. */
  readonly kubectl: string;
  /** Where it begins. */
  readonly workingDir: string;
  /** For what the terminal needs itself; made when it is missing. */
  readonly folder: string;
}

/**
 * A terminal in which a person works: signed in to the account and to the cluster, as the administrator of both. What is
 * exported lasts from one command to the next.
 */
export class Terminal {
  readonly #options: TerminalOptions;
  readonly #environment: Readonly<Record<string, string>>;
  #commands = 0;

  private constructor(options: TerminalOptions, environment: Readonly<Record<string, string>>) {
    this.#options = options;
    this.#environment = environment;
  }

  static async open(options: TerminalOptions): Promise<Terminal> {
    const { folder, kubectl, kubeconfigPath, cloud } = options;
    const programs = join(folder, 'programs');
    const home = join(folder, 'home');
    await mkdir(programs, { recursive: true });
    await mkdir(home, { recursive: true });
    const python = await obtainCloudPython();
    await writeProgram(join(programs, 'aws'), `#!/bin/sh\nexec '${python}' -m awscli "$@"\n`);
    await writeProgram(join(programs, 'podman'), podman);
    await symlink(kubectl, join(programs, 'kubectl'));
    return new Terminal(options, {
      PATH: [programs, dirname(process.execPath), process.env['PATH'] ?? ''].join(':'),
      // Nothing of the user's: no profile, no configuration.
      HOME: home,
      KUBECONFIG: kubeconfigPath,
      AWS_ENDPOINT_URL: cloud.endpoint,
      AWS_DEFAULT_REGION: cloudRegion,
      AWS_ACCESS_KEY_ID: cloudAdministrator.accessKeyId,
      AWS_SECRET_ACCESS_KEY: cloudAdministrator.secretAccessKey,
    });
  }

  /** What the commands wrote. Throws with it where one of them failed. */
  async run(commands: string): Promise<string> {
    const { folder, workingDir } = this.#options;
    this.#commands += 1;
    const logPath = join(folder, `terminal-${this.#commands}.log`);
    const exported = join(folder, 'exported');
    const script = [
      `if test -f '${exported}'; then . '${exported}'; fi`,
      commands,
      `export -p >'${exported}'`,
    ].join('\n');
    const end = await startGuarded({
      command: 'bash',
      flags: ['-euo', 'pipefail', '-c', script],
      workingDir,
      logPath,
      environment: this.#environment,
    }).exited;
    const output = await readFile(logPath, 'utf8');
    if (end !== 'code 0') {
      throw new Error(`${commands}\nended with ${end}:\n${output}`);
    }
    return output;
  }
}

async function writeProgram(path: string, text: string): Promise<void> {
  await writeFile(path, text);
  await chmod(path, 0o755);
}
