/** Labels of the pods, claims, Services and PodDisruptionBudgets of a Shard; attach mode finds pods by the same. */
export const shardLabel = 'millrace.dev/shard';
export const poolLabel = 'millrace.dev/pool';
export const cellLabel = 'millrace.dev/cell';
export const indexLabel = 'millrace.dev/index';
