interface Conditioned {
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** Whether a pod or a node says of itself that it is Ready. Not knowing is not ready. */
export function isReady({ status }: Conditioned): boolean {
  return (
    status?.conditions?.some(
      (condition) => condition.type === 'Ready' && condition.status === 'True',
    ) ?? false
  );
}
