import * as z from 'zod';
import type { DataPlaneView } from './core.ts';
import { type Fault, type FaultKind, faultSchema } from './fault.ts';

const requestTimeoutMs = 5_000;

const errorSchema = z.object({ error: z.string() });
const faultsSchema = z.array(faultSchema);
const viewSchema = z.custom<DataPlaneView>(
  (body) => z.looseObject({ members: z.array(z.looseObject({})) }).safeParse(body).success,
);

/** Asks a data plane for its state, and makes things go wrong in it. Rejects with what it refuses, and why. */
export interface DataPlaneControl {
  state(): Promise<DataPlaneView>;
  /** The faults that last. */
  faults(): Promise<readonly Fault[]>;
  inject(fault: Fault): Promise<void>;
  /** Ends one fault, all of a kind, or all there are. */
  lift(which?: { readonly kind?: FaultKind; readonly pod?: string }): Promise<void>;
}

export function connectControl(controlUrl: string): DataPlaneControl {
  async function ask<T>(
    schema: z.ZodType<T>,
    method: string,
    path: string,
    body?: unknown,
  ): Promise<T> {
    const response = await fetch(new URL(path, controlUrl), {
      method,
      signal: AbortSignal.timeout(requestTimeoutMs),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer: unknown = await response.json();
    if (!response.ok) {
      throw new Error(`the data plane refuses: ${errorSchema.parse(answer).error}`);
    }
    return schema.parse(answer);
  }

  return {
    state: () => ask(viewSchema, 'GET', '/state'),
    faults: () => ask(faultsSchema, 'GET', '/faults'),
    async inject(fault) {
      await ask(faultsSchema, 'POST', '/faults', fault);
    },
    async lift(which = {}) {
      await ask(faultsSchema, 'DELETE', `/faults?${new URLSearchParams(which).toString()}`);
    },
  };
}
