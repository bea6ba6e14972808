/** Labels of the pods, claims, Services and PodDisruptionBudgets of a Shard; attach mode finds pods by the same. */
export const shardLabel = 'millrace.dev/shard';
export const poolLabel = 'millrace.dev/pool';
export const cellLabel = 'millrace.dev/cell';
export const indexLabel = 'millrace.dev/index';

/** On the pods of a GoVerse cluster's nodes: the name of their GoverseCluster. */
export const goverseLabel = 'millrace.dev/goverse';

/** Labels of a backup's Job besides that of its Shard. Its pods have none of these: they are no members. */
export const scheduleLabel = 'millrace.dev/schedule';
export const slotLabel = 'millrace.dev/slot';
export const attemptLabel = 'millrace.dev/attempt';
