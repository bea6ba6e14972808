/**
 * Ends the process where Node is too old for everything else, before anything else is loaded. Plain JavaScript that
 * any Node understands.
 */
const oldestMajor = 24;

if (Number(process.versions.node.split('.')[0]) < oldestMajor) {
  process.stderr.write(
    `millrace needs Node ${oldestMajor} or newer, and this is Node ${process.versions.node}.\n` +
      'Install a newer one from https://nodejs.org and run the command again.\n',
  );
  process.exit(2);
}
