import * as z from 'zod';
import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import { apiVersionOf, resourceTypes } from '#shared/kube/resources.ts';

const leaseSchema = z.looseObject({
  metadata: z.looseObject({ resourceVersion: z.string().min(1) }),
  spec: z
    .looseObject({
      holderIdentity: z.string().nullish(),
      leaseDurationSeconds: z.number().nullish(),
      leaseTransitions: z.number().nullish(),
      acquireTime: z.string().nullish(),
      renewTime: z.string().nullish(),
    })
    .default({}),
});

/** A Lease as the API server has it, with every field that others keep in it. */
export type StoredLease = z.infer<typeof leaseSchema>;

/** What a candidate writes into the spec. */
export interface LeaseClaim {
  /** Empty: nobody holds it. */
  readonly holderIdentity: string;
  readonly leaseDurationSeconds: number;
  readonly acquireTime: string;
  readonly renewTime: string;
  /** As it was when absent. */
  readonly leaseTransitions?: number;
}

/** One Lease. Everything rejects with {@link LeaseUnavailable}, or with the connection's error, when nobody can tell. */
export interface LeaseStore {
  /** `undefined`: it does not exist. */
  read(): Promise<StoredLease | undefined>;
  /** `undefined`: somebody else was first. */
  create(claim: LeaseClaim): Promise<StoredLease | undefined>;
  /** `undefined`: it is no longer the one that was read, and nothing was written. */
  update(lease: StoredLease, claim: LeaseClaim): Promise<StoredLease | undefined>;
}

/** The API server gave no use of the Lease: no permission, no such namespace, too busy. */
export class LeaseUnavailable extends Error {
  /** How long the server asked to wait; 0 when it did not. */
  readonly retryAfterMs: number;

  constructor(message: string, retryAfterMs: number) {
    super(message);
    this.name = 'LeaseUnavailable';
    this.retryAfterMs = retryAfterMs;
  }
}

export interface LeaseName {
  readonly namespace: string;
  readonly name: string;
}

/**
 * A Lease on an API server. Needs `get` and `update` on it, and `create` on leases of its namespace.
 *
 * @param timeoutMs of each request
 */
export function leaseOnServer(
  connection: KubeConnection,
  { namespace, name }: LeaseName,
  timeoutMs: number,
): LeaseStore {
  const { group, version, plural } = resourceTypes.Lease;
  const collection = `/apis/${group}/${version}/namespaces/${encodeURIComponent(namespace)}/${plural}`;
  const path = `${collection}/${encodeURIComponent(name)}`;
  const ask = async (request: KubeRequest, statusesForNone: readonly number[]) => {
    const response = await connection.request({ ...request, timeoutMs });
    return statusesForNone.includes(response.status) ? undefined : leaseIn(response);
  };
  return {
    // A namespace that does not exist looks the same as a lease that does not; creating it then says so.
    read: () => ask({ method: 'GET', path }, [404]),
    create: (spec) =>
      ask(
        {
          method: 'POST',
          path: collection,
          body: { apiVersion: apiVersionOf('Lease'), kind: 'Lease', metadata: { name }, spec },
        },
        [409],
      ),
    update: (lease, claim) =>
      ask(
        { method: 'PUT', path, body: { ...lease, spec: { ...lease.spec, ...claim } } },
        [404, 409],
      ),
  };
}

function leaseIn({ status, body, problem, retryAfterSeconds = 0 }: KubeResponse): StoredLease {
  if (status >= 300) {
    const said = z.looseObject({ message: z.string() }).safeParse(body);
    throw new LeaseUnavailable(
      problem ?? (said.success ? said.data.message : `the API server answered ${status}`),
      retryAfterSeconds * 1000,
    );
  }
  const lease = leaseSchema.safeParse(body);
  if (!lease.success) {
    throw new LeaseUnavailable(problem ?? 'the answer is no Lease', 0);
  }
  return lease.data;
}
