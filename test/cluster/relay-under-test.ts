import { join } from 'node:path';
import * as z from 'zod';
import { type Child, launch } from '#infra/local/child/launch.ts';
import type { ControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { findFreePort } from '#infra/local/control-plane/port.ts';
import { LineLog } from '#test/unit/infra/local/worker/line-log.ts';

const production = new URL('../../events/relay/main.ts', import.meta.url);
const limited = new URL('fixtures/limited-relay.ts', import.meta.url);

/** The relay as it is run in production, and with limits that make its faults come sooner. */
const kinds: Readonly<
  Record<RelayOptions['kind'], { entry: URL; limits: Readonly<Record<string, string>> }>
> = {
  asInProduction: { entry: production, limits: {} },
  impatient: { entry: limited, limits: { TEST_PATIENCE_MS: '2000' } },
  withSmallPages: { entry: limited, limits: { TEST_PAGE_SIZE: '5' } },
};

export interface RelayOptions {
  /** `impatient` waits 2 s for an answer where others wait 30 s or 70 s; small pages have 5 objects instead of 500. */
  readonly kind: 'asInProduction' | 'impatient' | 'withSmallPages';
  readonly controlPlane: ControlPlane;
  /** Where the relay believes the API server to be. */
  readonly server: string;
  /** Where it believes the queues to be. */
  readonly queueEndpoint: string;
  readonly stage: string;
  readonly namespace: string;
  /** Holds its kubeconfig. */
  readonly folder: string;
}

/** A relay in a process of its own, that may be killed, and whose metrics and log lines are read from outside. */
export class RelayUnderTest implements AsyncDisposable {
  readonly log = new LineLog();
  /** Resolves when it has listed everything, which a fault may delay. */
  readonly ready: Promise<Child<{ url: string }>>;
  readonly #url: string;

  private constructor(options: RelayOptions, kubeconfig: string, port: number) {
    const { entry, limits } = kinds[options.kind];
    this.#url = `http://127.0.0.1:${port}`;
    this.ready = launch({
      name: 'the relay',
      entry,
      environment: {
        MILLRACE_CLUSTER_ID: 'test',
        MILLRACE_STAGE: options.stage,
        MILLRACE_NAMESPACES: options.namespace,
        MILLRACE_QUEUE_ENDPOINT: options.queueEndpoint,
        MILLRACE_RELAY_PORT: String(port),
        MILLRACE_LOG_LEVEL: 'info',
        KUBECONFIG: kubeconfig,
        AWS_REGION: 'us-east-1',
        AWS_ACCESS_KEY_ID: 'test',
        AWS_SECRET_ACCESS_KEY: 'test',
        ...limits,
      },
      announcement: z.object({ url: z.url() }),
      readyTimeoutMs: 60_000,
      onLine: this.log.add,
      onErrorLine: this.log.add,
    });
    // Whoever awaits it is told; until then a relay that does not come up is not an unhandled failure.
    this.ready.catch(() => undefined);
  }

  /** Starts it; what it takes until it is ready is up to {@link RelayUnderTest.ready}. */
  static async start(options: RelayOptions): Promise<RelayUnderTest> {
    const { server, controlPlane, folder, namespace } = options;
    // Known before it is ready: a relay that hears nothing is asked what it says about that.
    const port = await findFreePort();
    const kubeconfig = join(folder, `${namespace}-${port}.kubeconfig`);
    const { ca, adminToken: token } = controlPlane;
    await writeKubeconfig(kubeconfig, { server, ca, user: 'relay', token });
    return new RelayUnderTest(options, kubeconfig, port);
  }

  /**
   * The sum of a metric over all series that have the labels, 0 without any.
   *
   * @param name without its prefix, with any labels: `hints_total{why="resync"}`
   */
  async metric(name: string): Promise<number> {
    const [, metric = name, labels = ''] = /^([a-z_]+)(?:\{(.*)\})?$/.exec(name) ?? [];
    const text = await (await fetch(`${this.#url}/metrics`)).text();
    return text
      .split('\n')
      .filter((line) => new RegExp(`^millrace_relay_${metric}[{ ]`).test(line))
      .filter((line) => line.includes(labels))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  /** The status of its readiness; 0 while it does not serve yet. */
  async readiness(): Promise<number> {
    try {
      return (await fetch(`${this.#url}/readyz`)).status;
    } catch {
      return 0;
    }
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill(): Promise<void> {
    const child = await this.ready;
    child.signal('SIGKILL');
    await child.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = await this.ready.catch(() => undefined);
    await child?.stop(0);
  }
}
