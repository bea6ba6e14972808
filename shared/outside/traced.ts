import type { Attributes, Tracer } from '#shared/kernel/trace.ts';
import type { Outside } from '#shared/kernel/pipeline.ts';
import type { KubeConnection, KubeRequest } from '#shared/kube/connection.ts';

/**
 * The same connection, with a span for each request that has an end: by method, template of its path and status, as
 * OpenTelemetry's conventions for HTTP clients name them. Never a body, a query or a header.
 *
 * @param server the API server's address
 */
export function tracedConnection(
  connection: KubeConnection,
  tracer: Tracer,
  server: string,
): KubeConnection {
  const address = serverAttributes(server);
  return {
    ...connection,
    request(request) {
      const place = placeOf(request.path);
      return tracer.run(
        `${request.method} ${place.template}`,
        { kind: 'client', attributes: { ...address, ...requestAttributes(request, place) } },
        async (span) => {
          const response = await connection.request(request);
          span.set({ 'http.response.status_code': response.status });
          // That something is not there is an answer like any other.
          const isAbsent = request.method === 'GET' && response.status === 404;
          if (response.status >= 400 && !isAbsent) {
            span.fail(String(response.status));
          }
          return response;
        },
      );
    },
  };
}

/** The same outside, with a span for each question to etcd, the admin service and a bucket, and each write to them. */
export function tracedOutside(outside: Outside, tracer: Tracer): Outside {
  const { ports, writers } = outside;
  const traced = <Port extends object>(port: Port, system: string) =>
    tracedPort(port, tracer, system);
  return {
    ...outside,
    tracer,
    ports: {
      ...ports,
      topology: (database) => traced(ports.topology(database), 'etcd'),
      goverse: (cluster) => traced(ports.goverse(cluster), 'etcd'),
      admin: (database) => traced(ports.admin(database), 'admin'),
      repository: (database) => traced(ports.repository(database), 's3'),
    },
    writers: {
      ...writers,
      topology: async (ref, signal) => traced(await writers.topology(ref, signal), 'etcd'),
      goverse: async (ref, signal) => traced(await writers.goverse(ref, signal), 'etcd'),
      admin: async (ref, signal) => traced(await writers.admin(ref, signal), 'admin'),
      repository: async (ref, signal) => traced(await writers.repository(ref, signal), 's3'),
    },
  };
}

/** Every method of a port answers with a promise, so one wrapper does for all of them, and for those to come. */
function tracedPort<Port extends object>(port: Port, tracer: Tracer, system: string): Port {
  return new Proxy(port, {
    get(target, key, receiver) {
      const value: unknown = Reflect.get(target, key, receiver);
      if (typeof value !== 'function' || typeof key !== 'string') {
        return value;
      }
      return (...given: unknown[]) =>
        tracer.run(
          `${system} ${key}`,
          { kind: 'client', attributes: { 'peer.service': system, 'millrace.operation': key } },
          async (span) => {
            const answer: unknown = await Reflect.apply(value, target, given);
            const kind = kindOf(answer);
            if (kind !== undefined) {
              span.set({ 'millrace.answer': kind });
            }
            if (kind === 'unknown') {
              span.fail(kind);
            }
            return answer;
          },
        );
    },
  });
}

/** What a read or a write came to, where it says so. */
function kindOf(answer: unknown): string | undefined {
  return typeof answer === 'object' &&
    answer !== null &&
    'kind' in answer &&
    typeof answer.kind === 'string'
    ? answer.kind
    : undefined;
}

interface Place {
  /** The path with names left out: `/api/v1/namespaces/{namespace}/pods/{name}`. */
  readonly template: string;
  readonly namespace: string | undefined;
}

/** Behind a service proxy the rest of the path is another server's, and is left out. */
const pathForm =
  /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)(?:\/namespaces\/([^/]+)(?=\/))?\/([^/]+)(?:\/([^/]+)(?:\/([^/]+))?)?/;

function placeOf(path: string): Place {
  const found = pathForm.exec(path);
  if (found === null) {
    return { template: path.split('/', 2).join('/'), namespace: undefined };
  }
  const [, root = '', namespace, plural = '', name, subresource] = found;
  const parts = [
    root,
    ...(namespace === undefined ? [] : ['namespaces', '{namespace}']),
    plural,
    ...(name === undefined ? [] : ['{name}']),
    ...(subresource === undefined ? [] : [subresource]),
  ];
  return { template: parts.join('/'), namespace };
}

function requestAttributes({ method }: KubeRequest, { template, namespace }: Place): Attributes {
  return {
    'http.request.method': method,
    'url.template': template,
    ...(namespace === undefined ? {} : { 'k8s.namespace.name': namespace }),
  };
}

function serverAttributes(server: string): Attributes {
  const url = URL.parse(server);
  return url === null
    ? {}
    : {
        'url.scheme': url.protocol.slice(0, -1),
        'server.address': url.hostname,
        'server.port': Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
      };
}
