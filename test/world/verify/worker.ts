import { parentPort, workerData } from 'node:worker_threads';
import { poisonClocks, realNowMs } from '#test/world/run/poison.ts';
import type { PartOptions } from './part.ts';
import { parts } from './parts.ts';

/** What a worker is started with. */
export interface WorkerTask {
  readonly part: string;
  readonly options: PartOptions;
}

/** Progress is told at most this often, in milliseconds. */
const progressEveryMs = 500;

const { part: name, options } = workerData as WorkerTask;
const part = parts.find((candidate) => candidate.name === name);
if (part === undefined || parentPort === null) {
  throw new Error(`this worker was started without a part: ${name}`);
}
const port = parentPort;
poisonClocks();
let toldMs = 0;
const report = await part.run(options, (text) => {
  if (realNowMs() - toldMs >= progressEveryMs) {
    toldMs = realNowMs();
    port.postMessage({ progress: text });
  }
});
port.postMessage({ report });
