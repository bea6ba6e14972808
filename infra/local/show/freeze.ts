import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * Runs beside us and holds the process still until our end of the pipe closes, which it also does when we die without
 * a chance to thaw anything: nobody else would ever wake a stopped process.
 */
const script = 'kill -STOP "$1" && echo frozen && read -r _; kill -CONT "$1"';

/**
 * Stops a process without ending it (SIGSTOP). The kernel goes on taking connections and data for its sockets, and
 * nobody is answered: the outage of a server that hangs.
 *
 * Disposing of the answer lets it run on where it stood (SIGCONT). A process that has ended meanwhile is no error.
 *
 * @throws Error when there is no such process
 */
export async function freeze(pid: number): Promise<AsyncDisposable> {
  const holder = spawn('/bin/sh', ['-c', script, 'sh', String(pid)], {
    // Of its own process group, so that Ctrl-C does not end it before it has thawed what it holds.
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const ended = once(holder, 'close');
  const isFrozen = await Promise.race([
    once(holder.stdout, 'data').then(() => true),
    ended.then(() => false),
  ]);
  if (!isFrozen) {
    throw new Error(`process ${pid} could not be stopped`);
  }
  return {
    async [Symbol.asyncDispose]() {
      holder.stdin.end();
      await ended;
    },
  };
}
