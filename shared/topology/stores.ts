import { connectKube } from '#shared/kube/http-connection.ts';
import type {
  ServiceAddress,
  TopologyAccess,
  TopologyCredentials,
  TopologySpec,
} from './access.ts';
import {
  type EtcdAddress,
  InvalidAddress,
  checkedService,
  hostAndPort,
  parseCellAddress,
  parseEndpoint,
  serviceOfAddress,
  serviceProxyPath,
} from './address.ts';
import { type EtcdStore, anyMember } from './etcd-store.ts';
import { gatewayStore } from './gateway-store.ts';

/**
 * The etcd clusters that one topology leads to: the global one, and those its Cell records name.
 *
 * One client per set of addresses, made when it is first needed. Rejects with `InvalidAddress` where the configuration
 * or a record leads nowhere.
 */
export interface Stores {
  global(): Promise<EtcdStore>;
  /** @param addresses a Cell record's server addresses, `host:port` each */
  at(addresses: readonly string[]): Promise<EtcdStore>;
  close(): Promise<void>;
}

/** One etcd member, or the Service before several, that can be connected to. */
interface Member {
  /** Tells two members apart. */
  readonly name: string;
  connect(): Promise<EtcdStore>;
}

/** How addresses become members: directly, or by the API server's service proxy. */
interface Route {
  global(): readonly Member[];
  at(addresses: readonly string[]): readonly Member[];
}

/** @param spec endpoints or a service; its root is not looked at */
export function storesOf(
  spec: Pick<TopologySpec, 'endpoints' | 'service'>,
  access: TopologyAccess,
): Stores {
  const route =
    spec.service === undefined
      ? directRoute(spec.endpoints ?? [], access)
      : proxyRoute(spec.service, access);
  const opened = new Map<string, Promise<EtcdStore>>();
  let isClosed = false;

  async function open(members: readonly Member[]): Promise<EtcdStore> {
    if (isClosed) {
      throw new Error('the connection to the topology is closed');
    }
    const name = members
      .map((member) => member.name)
      .toSorted()
      .join(' ');
    const known = opened.get(name);
    if (known !== undefined) {
      return known;
    }
    const store = connectAll(members);
    opened.set(name, store);
    return store;
  }

  return {
    global: async () => open(route.global()),
    at: async (addresses) => open(route.at(addresses)),
    async close() {
      isClosed = true;
      const stores = [...opened.values()];
      opened.clear();
      for (const store of await Promise.allSettled(stores)) {
        if (store.status === 'fulfilled') {
          store.value.close();
        }
      }
    },
  };
}

async function connectAll(members: readonly Member[]): Promise<EtcdStore> {
  const [first, ...others] = members;
  if (first === undefined) {
    throw new InvalidAddress('no address is given');
  }
  const head = await first.connect();
  const rest: EtcdStore[] = [];
  for (const member of others) {
    rest.push(await member.connect());
  }
  return anyMember([head, ...rest]);
}

function directRoute(endpoints: readonly string[], access: TopologyAccess): Route {
  const scheme = endpoints[0]?.startsWith('https://') === true ? 'https' : 'http';
  const member = (address: EtcdAddress) => directMember(address, access);
  return {
    global: () =>
      unique(
        endpoints.map((endpoint) => {
          const address = parseEndpoint(endpoint);
          if (address.scheme !== scheme) {
            throw new InvalidAddress('the endpoints mix http and https');
          }
          return member(address);
        }),
      ),
    at: (addresses) =>
      unique(addresses.map((address) => member(parseCellAddress(address, scheme)))),
  };
}

function directMember(address: EtcdAddress, access: TopologyAccess): Member {
  const credentials = access.credentials ?? {};
  const name = hostAndPort(address);
  return {
    name,
    async connect() {
      if (access.transport !== 'gateway') {
        const { etcd3Store } = await import('./etcd3-store.ts');
        return etcd3Store(address, credentials);
      }
      const { ca, certificate, key } = credentials;
      const connection = connectKube({
        server: `${address.scheme}://${name}`,
        ...(ca === undefined ? {} : { ca }),
        credentials: async () => ({
          ...(certificate === undefined ? {} : { certificate }),
          ...(key === undefined ? {} : { key }),
        }),
      });
      return gatewayStore(
        { connection, pathPrefix: '', name: `etcd at ${name}`, isOwned: true },
        credentials,
      );
    },
  };
}

/**
 * The service proxy encrypts towards a Service where a certificate authority is given for it, but cannot check that
 * certificate, nor present one of its own: who is in the API server's path is trusted, and etcd's own users still count.
 */
function proxyRoute(service: ServiceAddress, access: TopologyAccess): Route {
  const namespace = service.namespace ?? access.namespace;
  return {
    global: () => [proxyMember({ name: service.name, namespace, port: service.port }, access)],
    at: (addresses) =>
      unique(addresses.map((address) => proxyMember(serviceOfAddress(address, namespace), access))),
  };
}

function proxyMember(service: Required<ServiceAddress>, access: TopologyAccess): Member {
  const { kube } = access;
  const credentials: TopologyCredentials = access.credentials ?? {};
  const { name, namespace, port } = checkedService(service);
  if (kube === undefined) {
    throw new InvalidAddress('there is no API server whose service proxy could be used');
  }
  if (credentials.certificate !== undefined) {
    throw new InvalidAddress(
      'a client certificate cannot pass the service proxy: name endpoints instead of a service',
    );
  }
  const pathPrefix = serviceProxyPath(service, credentials.ca === undefined ? 'http' : 'https');
  return {
    name: pathPrefix,
    connect: async () =>
      gatewayStore(
        {
          connection: kube,
          pathPrefix,
          name: `etcd behind the Service ${namespace}/${name}:${port}`,
          isOwned: false,
        },
        credentials,
      ),
  };
}

function unique(members: readonly Member[]): Member[] {
  return [...new Map(members.map((member) => [member.name, member])).values()];
}
