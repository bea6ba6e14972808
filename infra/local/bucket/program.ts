import { fileURLToPath } from 'node:url';
import type { Program } from '#infra/local/control-plane/program.ts';

/** A server of S3's protocol over a folder. Must agree with the go.mod beside; a test holds them together. */
export const bucketProgram: Program = {
  name: 'versitygw',
  version: '1.8.0',
  moduleDir: fileURLToPath(new URL('go', import.meta.url)),
  package: 'github.com/versity/versitygw/cmd/versitygw',
  linkerFlags: '-s -w',
  usualBuildMinutes: 1,
};
