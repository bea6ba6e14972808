import type { ServiceAddress } from './access.ts';

/** One etcd member that is connected to directly. */
export interface EtcdAddress {
  readonly scheme: 'http' | 'https';
  /** A DNS name, an IPv4 address, or an IPv6 address without brackets. */
  readonly host: string;
  readonly port: number;
}

/** An address that must not be connected to. Its message is for people and names the address. */
export class InvalidAddress extends Error {}

const dnsName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*\.?$/i;
const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/**
 * Parses `http(s)://host:port`. Nothing but scheme, host and port may be there: no path, no user, no query.
 *
 * @throws InvalidAddress
 */
export function parseEndpoint(text: string): EtcdAddress {
  const match = /^(https?):\/\/(.+)$/.exec(text);
  if (match === null) {
    throw new InvalidAddress(`the address ${quoted(text)} does not begin with http:// or https://`);
  }
  const [, scheme = '', rest = ''] = match;
  return parseHostAndPort(rest, scheme === 'https' ? 'https' : 'http');
}

/**
 * Parses `host:port` as a Cell record has it, to be spoken to with the scheme of the global store.
 *
 * A record may not choose another scheme: credentials meant for an encrypted connection would go over a plain one.
 *
 * @throws InvalidAddress
 */
export function parseCellAddress(text: string, scheme: 'http' | 'https'): EtcdAddress {
  if (text.startsWith('http://') || text.startsWith('https://')) {
    const address = parseEndpoint(text);
    if (address.scheme !== scheme) {
      throw new InvalidAddress(
        `the address ${quoted(text)} is not ${scheme} as the global store's`,
      );
    }
    return address;
  }
  return parseHostAndPort(text, scheme);
}

/** `topo:2379`, `[fd00::7]:2379` */
export function hostAndPort({ host, port }: EtcdAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function parseHostAndPort(text: string, scheme: 'http' | 'https'): EtcdAddress {
  const match = /^(?:\[([0-9a-f:]+)\]|([^:[\]/?#@\s]+)):(\d{1,5})$/i.exec(text);
  const host = match?.[1] ?? match?.[2] ?? '';
  const port = Number(match?.[3]);
  const isHost = match?.[1] === undefined ? dnsName.test(host) : true;
  if (match === null || !isHost || port < 1 || port > 65_535) {
    throw new InvalidAddress(`the address ${quoted(text)} is not a host and a port`);
  }
  return { scheme, host: host.toLowerCase(), port };
}

/**
 * The Service that an in-cluster address stands for: `<service>:<port>` in the namespace of the global store, or
 * `<service>.<namespace>.svc[.<cluster domain>]:<port>`. Anything else cannot be reached through the service proxy.
 *
 * @throws InvalidAddress
 */
export function serviceOfAddress(text: string, namespace: string): Required<ServiceAddress> {
  const { host, port } = parseHostAndPort(text.replace(/^https?:\/\//, ''), 'http');
  const [name = '', own, svc] = host.replace(/\.$/, '').split('.');
  if (own !== undefined && svc !== 'svc') {
    throw new InvalidAddress(
      `the address ${quoted(text)} is not a Service's, so the service proxy does not lead there`,
    );
  }
  return checkedService({ name, namespace: own ?? namespace, port });
}

/** @throws InvalidAddress where a part is no valid name or port, before it could become part of a path */
export function checkedService(service: Required<ServiceAddress>): Required<ServiceAddress> {
  const { name, namespace, port } = service;
  if (
    namespace === undefined ||
    !dnsLabel.test(name) ||
    !dnsLabel.test(namespace) ||
    !Number.isInteger(port) ||
    port < 1 ||
    port > 65_535
  ) {
    throw new InvalidAddress('the service has no valid namespace, name and port');
  }
  return service;
}

/** What the API server's proxy calls a Service: `topo:2379`; with `https` it encrypts towards the Service. */
export function proxiedName(
  { name, port }: Pick<ServiceAddress, 'name' | 'port'>,
  scheme: 'http' | 'https',
): string {
  return `${scheme === 'https' ? 'https:' : ''}${name}:${port}`;
}

/** `/api/v1/namespaces/db/services/topo:2379/proxy`, by {@link proxiedName}. */
export function serviceProxyPath(
  service: Required<ServiceAddress>,
  scheme: 'http' | 'https',
): string {
  const { namespace } = checkedService(service);
  return `/api/v1/namespaces/${namespace}/services/${proxiedName(service, scheme)}/proxy`;
}

/** For messages: short and printable, since the text comes from a record. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}
