import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { type GoverseMemberProcess, startGoverseNode } from '#infra/local/goverse/start.ts';
import type { OwnershipStage } from './ownership-stage.ts';

const mirrorSchema = z.object({ state: z.string().nullable() });

interface CrewOptions {
  readonly stage: OwnershipStage;
  /** Of the GoverseCluster; also the prefix of the keys. */
  readonly name: string;
  readonly count: number;
  readonly shardCount: number;
  readonly speed: number;
  readonly random: () => number;
}

interface Member {
  readonly process: GoverseMemberProcess;
  isLeaving: boolean;
  isKilled: boolean;
}

/** The nodes of a GoVerse cluster with a pod for each: what their kubelet, their people and their bad luck do. */
export class GoverseCrew implements AsyncDisposable {
  readonly log: string[] = [];
  readonly #options: CrewOptions;
  readonly #members = new Map<string, Member>();
  readonly #returning = new Set<Promise<void>>();

  constructor(options: CrewOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { count, name } = this.#options;
    for (let number = 0; number < count; number += 1) {
      await this.#join(`${name}-${number}`);
    }
  }

  async #join(pod: string): Promise<void> {
    const { stage, name, shardCount, speed } = this.#options;
    for (;;) {
      try {
        const process = await startGoverseNode({
          endpoint: stage.etcd.service,
          prefix: `/${name}`,
          address: this.addressOf(pod),
          shardCount,
          speed,
        });
        this.#members.set(pod, { process, isLeaving: false, isKilled: false });
        break;
      } catch {
        // The member of etcd that it registered with was killed; its kubelet starts it again.
        await delay(200);
      }
    }
    await stage.create('Pod', {
      metadata: { name: pod, labels: { 'millrace.dev/goverse': name } },
      spec: {
        // So that a deleted pod stays until its kubelet, which is this class, has stopped it.
        nodeName: 'somewhere',
        terminationGracePeriodSeconds: 120,
        containers: [{ name: 'goverse', image: 'goverse' }],
      },
    });
    this.#note(`${pod} joins`);
  }

  addressOf(pod: string): string {
    return `${pod}.nodes.demo.svc:48000`;
  }

  /** Who runs, and does not leave. */
  get staying(): string[] {
    return [...this.#members]
      .filter(([, { isLeaving, isKilled }]) => !isLeaving && !isKilled)
      .map(([pod]) => pod);
  }

  /** One node after the other leaves cleanly and returns, until the signal. */
  async churn(signal: AbortSignal): Promise<void> {
    const { random } = this.#options;
    while (!signal.aborted) {
      const pod = draw(this.staying, random);
      const awayMs = random() * 4_000;
      if (pod !== undefined && this.staying.length >= 3) {
        await this.#leave(pod);
        await delay(awayMs);
        await this.#join(pod);
      }
      await delay(random() * 12_000, undefined, { signal }).catch(() => undefined);
    }
    await Promise.all(this.#returning);
  }

  /** Deletes a pod, whose preStop hook waits until the relay says that it may go. */
  async #leave(pod: string): Promise<void> {
    const { stage } = this.#options;
    const member = this.#members.get(pod);
    if (member === undefined) {
      return;
    }
    member.isLeaving = true;
    this.#note(`${pod} is to leave`);
    await stage.ask('DELETE', 'Pod', pod);
    await this.#preStop(pod, member);
    await member.process.stop();
    await stage.ask('DELETE', 'Pod', pod, { gracePeriodSeconds: 0 });
    this.#members.delete(pod);
    this.#note(`${pod} has left${member.isKilled ? ', killed' : ''}`);
  }

  /** What was told once and is told no more is as good as the word: somebody else must have let the node go. */
  async #preStop(pod: string, member: Member): Promise<void> {
    let told = '';
    while (!member.isKilled && told !== 'released') {
      const answer = mirrorSchema.safeParse(await this.#options.stage.mirrorOf(pod));
      const state = answer.data?.state ?? 'nothing';
      if (state !== told) {
        this.#note(`${pod} is told ${state}`);
      }
      if (told === 'draining' && state === 'nothing') {
        return;
      }
      told = state;
      await delay(100);
    }
  }

  /** kill -9 of some node; its pod goes with it, and it returns after a while. Nobody where too few are left. */
  async kill(): Promise<string> {
    const { random, stage, count } = this.#options;
    const running = [...this.#members].filter(([, { isKilled }]) => !isKilled);
    const chosen = draw(running, random);
    const awayMs = 2_000 + random() * 6_000;
    if (chosen === undefined || running.length < Math.max(3, count - 1)) {
      return 'nobody';
    }
    const [pod, member] = chosen;
    member.isKilled = true;
    const killed = member.process.kill();
    this.#note(`${pod} is killed${member.isLeaving ? ' while it leaves' : ''}`);
    await killed;
    if (!member.isLeaving) {
      const returned = (async () => {
        await stage.ask('DELETE', 'Pod', pod, { gracePeriodSeconds: 0 });
        this.#members.delete(pod);
        await delay(awayMs);
        await this.#join(pod);
      })();
      this.#returning.add(returned);
      void returned.finally(() => this.#returning.delete(returned));
    }
    return pod;
  }

  #note(what: string): void {
    this.log.push(`${new Date().toISOString()} ${what}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#members.values()].map(({ process }) => process.stop()));
  }
}

export function draw<T>(from: readonly T[], random: () => number): T | undefined {
  return from[Math.floor(random() * from.length)];
}
