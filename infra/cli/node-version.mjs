/**
 * Ends the process where Node is too old for everything else, before anything else is loaded. Plain JavaScript that
 * any Node understands.
 */
const oldestMajor = 24;

if (Number(process.versions.node.split('.')[0]) < oldestMajor) {
  process.stderr.write(
    `millrace: it needs Node ${oldestMajor} or newer, and this is Node ${process.versions.node}: install one from https://nodejs.org\n`,
  );
  process.exit(2);
}
