import { describe, expect, test } from 'vitest';
import { accessOf, relayAccess, sweepAccess } from '#infra/kubernetes/access.ts';
import type { StepDeclaration } from '#shared/kernel/step.ts';

describe('the access a step needs', () => {
  test('follows from its declaration, each once', () => {
    const step: StepDeclaration = {
      name: 'drain-step',
      target: 'Shard',
      reads: [
        { api: 'kubernetes', kind: 'Shard', verbs: ['get'] },
        { api: 'kubernetes', kind: 'Pod', verbs: ['list'] },
        { api: 'topology', what: 'pooler records' },
      ],
      writes: [
        { effect: 'advance' },
        { effect: 'applyStatus' },
        { effect: 'emitEvent' },
        { effect: 'patchObject', kind: 'Shard' },
        { effect: 'createObject', kind: 'Pod' },
        { effect: 'deleteObject', kind: 'Pod' },
        { effect: 'switchPrimary' },
      ],
    };

    expect(accessOf(step)).toEqual([
      { kind: 'Shard', verb: 'get' },
      { kind: 'Pod', verb: 'list' },
      { kind: 'Shard', verb: 'patch' },
      { kind: 'Shard', verb: 'patch', subresource: 'status' },
      { kind: 'Event', verb: 'create' },
      { kind: 'Pod', verb: 'create' },
      { kind: 'Pod', verb: 'get' },
      { kind: 'Pod', verb: 'delete' },
    ]);
  });
});

test('the sweep needs to list the targets, and nothing else', () => {
  expect(sweepAccess).toEqual([
    { kind: 'Shard', verb: 'list' },
    { kind: 'Database', verb: 'list' },
    { kind: 'GoverseCluster', verb: 'list' },
  ]);
});

test('the relay needs to list and watch every kind that a route names', () => {
  expect(relayAccess.map(({ kind, verb }) => `${verb} ${kind}`).toSorted()).toEqual([
    'list Database',
    'list GoverseCluster',
    'list Pod',
    'list Shard',
    'watch Database',
    'watch GoverseCluster',
    'watch Pod',
    'watch Shard',
  ]);
});
