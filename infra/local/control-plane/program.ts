import { fileURLToPath } from 'node:url';

export type ProgramName = 'etcd' | 'kube-apiserver' | 'kube-controller-manager';

/** A program of the local run and the pinned Go module it can be built from. */
export interface Program {
  readonly name: string;
  readonly version: string;
  /** The folder with the go.mod that pins everything the build uses. */
  readonly moduleDir: string;
  readonly package: string;
  readonly linkerFlags: string;
  /** Measured on two cores with an empty build cache; for the message before the wait. */
  readonly usualBuildMinutes: number;
}

// Must agree with the go.mod files beside; a test holds them together.
const kubernetesVersion = '1.36.3';
const etcdVersion = '3.6.8';

const kubernetes = {
  version: kubernetesVersion,
  moduleDir: fileURLToPath(new URL('go/kubernetes', import.meta.url)),
  // Without these the API server would call itself v0.0.0 at /version, and clients look at that.
  linkerFlags: [
    '-s -w',
    ...Object.entries({
      gitVersion: `v${kubernetesVersion}`,
      gitMajor: kubernetesVersion.split('.')[0],
      gitMinor: kubernetesVersion.split('.')[1],
    }).map(([variable, value]) => `-X k8s.io/component-base/version.${variable}=${value}`),
  ].join(' '),
};

export const programs: Readonly<Record<ProgramName, Program>> = {
  etcd: {
    name: 'etcd',
    version: etcdVersion,
    moduleDir: fileURLToPath(new URL('go/etcd', import.meta.url)),
    package: 'go.etcd.io/etcd/server/v3',
    linkerFlags: '-s -w',
    usualBuildMinutes: 1,
  },
  'kube-apiserver': {
    ...kubernetes,
    name: 'kube-apiserver',
    package: 'k8s.io/kubernetes/cmd/kube-apiserver',
    usualBuildMinutes: 4,
  },
  'kube-controller-manager': {
    ...kubernetes,
    name: 'kube-controller-manager',
    package: 'k8s.io/kubernetes/cmd/kube-controller-manager',
    usualBuildMinutes: 1,
  },
};

/** No part of the control plane: what people give it commands with. */
export const kubectlProgram: Program = {
  ...kubernetes,
  name: 'kubectl',
  package: 'k8s.io/kubernetes/cmd/kubectl',
  usualBuildMinutes: 1,
};

/** The oldest Go that the pinned modules build with. */
export const oldestGo = { major: 1, minor: 26 };
