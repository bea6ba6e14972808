import { afterAll, beforeAll, beforeEach } from 'vitest';
import { findMissingProgram } from '#infra/local/control-plane/binaries.ts';
import {
  type ControlPlane,
  type ControlPlaneOptions,
  startControlPlane,
} from '#infra/local/control-plane/control-plane.ts';
import { printProgress } from '#infra/local/control-plane/progress.ts';

/** Where every check must run, a missing program is a failure; elsewhere the suites that need it are skipped. */
const isRequired = (process.env['CI'] ?? '') !== '';

/**
 * Why no control plane can run on this machine, for `describe.skipIf(missingControlPlane)` around a suite with hooks
 * of its own. Always `undefined` in CI: there the start fails, and says why.
 */
export const missingControlPlane: string | undefined = isRequired
  ? undefined
  : (await findMissingProgram())?.message.replaceAll(/\s+/g, ' ');

if (missingControlPlane !== undefined) {
  process.stderr.write(`cluster tests are skipped: ${missingControlPlane}\n`);
}

/**
 * Gives the suite it is called in a control plane of its own, from before its first to after its last test.
 *
 * @returns a getter for tests and later hooks; it throws outside of them
 */
export function useControlPlane(options: ControlPlaneOptions = {}): () => ControlPlane {
  let controlPlane: ControlPlane | undefined;

  beforeAll(async () => {
    if (missingControlPlane !== undefined) {
      return;
    }
    const printer = printProgress(process.stderr);
    try {
      controlPlane = await startControlPlane({ onProgress: printer.onProgress, ...options });
    } finally {
      printer.close();
    }
  });

  beforeEach((context) => {
    context.skip(missingControlPlane !== undefined, missingControlPlane);
  });

  afterAll(async () => {
    await controlPlane?.stop();
    controlPlane = undefined;
  });

  return () => {
    if (controlPlane === undefined) {
      throw new Error(missingControlPlane ?? 'the control plane runs only during tests');
    }
    return controlPlane;
  };
}
