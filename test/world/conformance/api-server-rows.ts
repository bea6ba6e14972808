import { applyRows } from './apply-rows.ts';
import { controllerRows } from './controller-rows.ts';
import { guardedWriteRows } from './guarded-write-rows.ts';
import { listRows, watchRows } from './list-rows.ts';
import { podRows } from './pod-rows.ts';
import { schemaRows } from './schema-rows.ts';
import type { Row } from './script.ts';

/** Everything in which the model of the API server is held to the real one. */
export const apiServerRows: readonly Row[] = [
  ...guardedWriteRows,
  ...applyRows,
  ...podRows,
  ...listRows,
  ...watchRows,
  ...schemaRows,
  ...controllerRows,
];

/** The namespace that a row is played in. */
export function namespaceOf(row: Row): string {
  return `row-${apiServerRows.indexOf(row) + 1}`;
}
