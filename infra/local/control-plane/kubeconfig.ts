import { writeFile } from 'node:fs/promises';
import { stringify } from 'yaml';

export interface KubeconfigContent {
  /** `https://host:port` */
  readonly server: string;
  /** PEM. */
  readonly ca: string;
  readonly user: string;
  readonly token: string;
}

/** Writes a kubeconfig with one cluster, one user and one context, readable by its owner only. */
export async function writeKubeconfig(path: string, content: KubeconfigContent): Promise<void> {
  const name = 'millrace-local';
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name,
        cluster: {
          server: content.server,
          'certificate-authority-data': Buffer.from(content.ca).toString('base64'),
        },
      },
    ],
    users: [{ name: content.user, user: { token: content.token } }],
    contexts: [{ name, context: { cluster: name, user: content.user } }],
    'current-context': name,
  };
  await writeFile(path, stringify(kubeconfig), { mode: 0o600 });
}
