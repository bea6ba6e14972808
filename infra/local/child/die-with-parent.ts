import { isMainThread } from 'node:worker_threads';

/**
 * Preloaded into every child that {@link launch} starts. The child's stdin is a pipe that the parent holds and never
 * writes to: it ends only with the parent, also when that was killed without a chance to tell anybody.
 *
 * Exits at once: whatever a process here does may be cut off at any point.
 */
if (isMainThread) {
  process.stdin.once('end', () => process.exit(1));
  process.stdin.once('error', () => process.exit(1));
  process.stdin.resume();
  // The pipe alone must not keep a child alive that has finished its work.
  if ('unref' in process.stdin) {
    process.stdin.unref();
  }
}
