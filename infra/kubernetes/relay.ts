import { type Manifest, partOf } from './manifest.ts';
import { leaseName } from './rbac.ts';

/** Where the relay serves, in its pod and as a Service. */
const port = 8080;

/** `http://millrace-relay.millrace:8080/v1/pods/…` is what a pod's preStop hook asks. */
export const relayName = 'millrace-relay';

/**
 * What an overlay generates for the base. No other object is called so: kustomize puts the generated name, with its hash,
 * wherever a role names an object by the old one.
 */
export const relaySettingsName = 'millrace-relay-settings';

const labels = { ...partOf, 'app.kubernetes.io/name': relayName };
const selector = { 'app.kubernetes.io/name': relayName };

/** Nobody: an account that no image of Node has anything for. */
const unprivilegedId = 65_532;

/** What only the installation knows. */
export interface RelaySettings {
  readonly clusterId: string;
  readonly stage: string;
  readonly region: string;
  readonly queueUrlPrefix: string;
  /** An SQS endpoint other than AWS's. */
  readonly queueEndpoint?: string;
  /** The collector of traces; nothing is traced without one. */
  readonly otelEndpoint?: string;
  /** Where the hints that it sends are recorded. */
  readonly archive?: string;
  readonly image: string;
  /** Empty: all. */
  readonly workNamespaces: readonly string[];
}

/**
 * The relay: two of them, of which one sends and the other stands by, warm; the way to it for pods that leave; what may
 * talk to it and to whom it may talk.
 *
 * @param settings without them the variables come from a ConfigMap {@link relaySettingsName}, and the image is to be replaced
 */
export function relayManifests(namespace: string, settings?: RelaySettings): readonly Manifest[] {
  return [
    deployment(namespace, settings),
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: relayName, namespace, labels },
      spec: { selector, ports: [{ name: 'http', port, targetPort: 'http' }] },
    },
    {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: relayName, namespace, labels },
      spec: { minAvailable: 1, selector: { matchLabels: selector } },
    },
    networkPolicy(namespace, settings?.otelEndpoint),
  ];
}

function deployment(namespace: string, settings: RelaySettings | undefined): Manifest {
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: relayName, namespace, labels },
    spec: {
      replicas: 2,
      selector: { matchLabels: selector },
      // A new relay has to know everything before an old one goes: pods that leave ask any of them.
      strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: 'relay',
          automountServiceAccountToken: true,
          enableServiceLinks: false,
          // It stops within ten seconds, and gives its lease back.
          terminationGracePeriodSeconds: 30,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: unprivilegedId,
            runAsGroup: unprivilegedId,
            seccompProfile: { type: 'RuntimeDefault' },
          },
          topologySpreadConstraints: ['kubernetes.io/hostname', 'topology.kubernetes.io/zone'].map(
            (topologyKey) => ({
              maxSkew: 1,
              topologyKey,
              whenUnsatisfiable: 'ScheduleAnyway',
              labelSelector: { matchLabels: selector },
            }),
          ),
          containers: [container(namespace, settings)],
        },
      },
    },
  };
}

function container(namespace: string, settings: RelaySettings | undefined) {
  const own = {
    MILLRACE_LEASE: `${namespace}/${leaseName}`,
    MILLRACE_RELAY_PORT: String(port),
  };
  return {
    name: 'relay',
    image: settings?.image ?? relayName,
    ...(settings === undefined ? { envFrom: [{ configMapRef: { name: relaySettingsName } }] } : {}),
    env: Object.entries({ ...own, ...variablesOf(settings) }).map(([name, value]) => ({
      name,
      value,
    })),
    ports: [{ name: 'http', containerPort: port }],
    // The first list of a large cluster takes a while; until then it is alive, and not ready.
    startupProbe: probe('/healthz', { periodSeconds: 2, failureThreshold: 30 }),
    livenessProbe: probe('/healthz', { periodSeconds: 10, failureThreshold: 6 }),
    readinessProbe: probe('/readyz', { periodSeconds: 5, failureThreshold: 2 }),
    // Measured: 125 MiB with 10,000 pods. Memory grows with objects; processor time is needed in bursts, so it has no limit.
    resources: {
      requests: { cpu: '50m', memory: '160Mi' },
      limits: { memory: '512Mi' },
    },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
  };
}

function probe(path: string, times: { readonly [name: string]: number }) {
  return { httpGet: { path, port: 'http' }, timeoutSeconds: 5, ...times };
}

function variablesOf(settings: RelaySettings | undefined): { readonly [name: string]: string } {
  if (settings === undefined) {
    return {};
  }
  const { clusterId, stage, region, queueUrlPrefix, workNamespaces } = settings;
  const { queueEndpoint, otelEndpoint, archive } = settings;
  return {
    MILLRACE_CLUSTER_ID: clusterId,
    MILLRACE_STAGE: stage,
    MILLRACE_QUEUE_URL_PREFIX: queueUrlPrefix,
    ...(queueEndpoint === undefined ? {} : { MILLRACE_QUEUE_ENDPOINT: queueEndpoint }),
    ...(otelEndpoint === undefined ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: otelEndpoint }),
    ...(archive === undefined ? {} : { MILLRACE_ARCHIVE: archive }),
    ...(workNamespaces.length === 0 ? {} : { MILLRACE_NAMESPACES: workNamespaces.join(',') }),
    AWS_REGION: region,
  };
}

/**
 * Pods anywhere in the cluster may ask when they may go; nobody from outside may ask anything. It talks to the name server,
 * the API server, the queues and a collector of traces, whose addresses no policy can name: so by port.
 */
function networkPolicy(namespace: string, otelEndpoint: string | undefined): Manifest {
  const usual = [443, 6443, 80];
  const collector = portOf(otelEndpoint);
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: relayName, namespace, labels },
    spec: {
      podSelector: { matchLabels: selector },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ from: [{ namespaceSelector: {} }], ports: [{ protocol: 'TCP', port: 'http' }] }],
      egress: [
        {
          ports: [
            { protocol: 'UDP', port: 53 },
            { protocol: 'TCP', port: 53 },
            { protocol: 'TCP', port: 443 },
            { protocol: 'TCP', port: 6443 },
            // Where a pod of EKS gets its credentials from.
            { protocol: 'TCP', port: 80 },
            ...(collector === undefined || usual.includes(collector)
              ? []
              : [{ protocol: 'TCP', port: collector }]),
          ],
        },
      ],
    },
  };
}

/** Of a URL, also where it leaves it out. */
function portOf(url: string | undefined): number | undefined {
  if (url === undefined) {
    return undefined;
  }
  const { port, protocol } = new URL(url);
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
}
