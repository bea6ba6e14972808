/**
 * Installs the packages where that was not done yet for this package-lock.json, and makes sure there is a Node that
 * runs TypeScript. npm calls it before `start` and `test`; it must run on any Node from 18 on, without any package.
 *
 * Prints nothing when there is nothing to do. Ends with 2 when there is no Node 24, with npm's code when npm fails.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const modules = join(root, 'node_modules');
const markPath = join(modules, '.millrace-install');
const neededMajor = 24;

/** No package here needs an install script, so none runs. */
const ciCommand = ['ci', '--ignore-scripts', '--no-audit', '--no-fund'];

/** @param {string} path */
function readText(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}

/**
 * Whether node_modules holds exactly what the lock file asks for, by npm's own list of what it installed.
 * A package for another platform may be missing.
 *
 * @param {string} lockText
 */
function isInstalled(lockText) {
  const installedText = readText(join(modules, '.package-lock.json'));
  if (installedText === undefined) {
    return false;
  }
  const installed = JSON.parse(installedText).packages;
  const wanted = JSON.parse(lockText).packages;
  return (
    Object.keys(installed).every((path) => path in wanted) &&
    Object.entries(wanted).every(
      ([path, { version, optional }]) =>
        path === '' ||
        installed[path]?.version === version ||
        (installed[path] === undefined && optional === true),
    )
  );
}

/** Runs npm under the Node it was started with: the one in node_modules is about to be replaced. */
function installPackages() {
  const { npm_execpath: npm = '', npm_node_execpath: node = process.execPath } = process.env;
  const [command, flags] = basename(npm).startsWith('npm-cli')
    ? [node, [npm, ...ciCommand]]
    : ['npm', ciCommand];
  process.stdout.write('Installing the packages of package-lock.json (npm ci, scripts off) …\n');
  const { status, error } = spawnSync(command, flags, { cwd: root, stdio: 'inherit' });
  if (status !== 0) {
    process.stderr.write(
      `npm ci failed${error === undefined ? '' : ` (${error.message})`}; see above, then run it again.\n`,
    );
    process.exit(status ?? 1);
  }
}

/** @param {string} version `v24.1.0` */
function isRecent(version) {
  return Number(/^v(\d+)\./.exec(version)?.[1]) >= neededMajor;
}

/** The Node of the optional package, which npm puts first on the PATH of every script; it must also run here. */
function packagedNodeVersion() {
  const { status, stdout } = spawnSync(join(modules, '.bin', 'node'), ['--version'], {
    encoding: 'utf8',
  });
  return status === 0 ? stdout.trim() : '';
}

const lockText = readFileSync(join(root, 'package-lock.json'), 'utf8');
const mark = createHash('sha256').update(lockText).digest('hex');
if (readText(markPath) !== mark) {
  if (!isInstalled(lockText)) {
    installPackages();
  }
  writeFileSync(markPath, mark);
}
if (!isRecent(process.version) && !isRecent(packagedNodeVersion())) {
  process.stderr.write(
    [
      `Millrace needs Node ${neededMajor} or newer; this is Node ${process.version}.`,
      'On Linux (x64 and arm64, glibc) npm installs it along, unless optional packages are left out:',
      'try "npm ci --include=optional". Elsewhere install Node 24 from https://nodejs.org or with your',
      'version manager, and run this again.',
      '',
    ].join('\n'),
  );
  process.exitCode = 2;
}
