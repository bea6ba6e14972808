import type { Clock } from '#shared/kernel/instant.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';

/**
 * Where a database's topology store is, as its object says: the addresses of its members, or the Service that fronts
 * them.
 */
export interface TopologySpec {
  /** `http://host:port` or `https://host:port` of each member of the global store. */
  readonly endpoints?: readonly string[] | undefined;
  readonly service?: ServiceAddress | undefined;
  /** The prefix of the global store's keys, for example `/multigres/global`. */
  readonly globalRoot: string;
}

/** A Service as seen from the object that names it: `namespace` is that object's own when absent. */
export interface ServiceAddress {
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly port: number;
}

/** Plain data from the Secrets a database names. PEM where it is a certificate or a key. */
export interface TopologyCredentials {
  readonly ca?: string | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

export interface TopologyAccess {
  /** The namespace of the Database object. */
  readonly namespace: string;
  /** The API server whose service proxy leads to a `service`. It stays open when the topology is closed. */
  readonly kube?: KubeConnection | undefined;
  readonly credentials?: TopologyCredentials | undefined;
  /** How `endpoints` are spoken to: gRPC unless it says otherwise. A `service` is always reached by the gateway. */
  readonly transport?: 'grpc' | 'gateway' | undefined;
  /** How long one read may take, in milliseconds; 5,000 when absent. */
  readonly requestTimeoutMs?: number | undefined;
  /** What is written into a retired record, and what deadlines are counted by; the wall clock when absent. */
  readonly clock?: Clock | undefined;
}
