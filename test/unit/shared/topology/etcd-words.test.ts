import { describe, expect, test } from 'vitest';
import { etcdWords } from '#shared/topology/etcd-words.ts';

describe('the words for a failure of etcd', () => {
  test.each<[string, string, RegExp]>([
    [
      'the number of a thread',
      'No connection established. Last error: 404D48B2:error:0A00045C:SSL routines::tlsv13 alert certificate required:../rec_layer_s3.c:918:SSL alert number 116\n',
      /^it asks for a client certificate, and there is none \(put tls\.crt and tls\.key/,
    ],
    [
      'a duration',
      '4 DEADLINE_EXCEEDED: Deadline exceeded after 1.667s,LB pick: 0.002s,remote_addr=127.0.0.1:2379',
      /^no answer in time \(/,
    ],
    ['another duration', 'no answer within 4.987 s', /^no answer in time \(/],
  ])('are without %s', (_, message, words) => {
    expect(etcdWords(message)).toMatch(words);
  });

  test('say what to do where somebody has to', () => {
    expect(etcdWords('7 PERMISSION_DENIED: etcdserver: permission denied')).toBe(
      '7 PERMISSION_DENIED: etcdserver: permission denied (grant the role of the user what the README of the step names)',
    );
  });

  test('are the first line of what is not known', () => {
    expect(
      etcdWords('14 UNAVAILABLE: connect ECONNREFUSED 127.0.0.1:1. Resolution note: \nmore'),
    ).toBe('14 UNAVAILABLE: connect ECONNREFUSED 127.0.0.1:1.');
  });
});
