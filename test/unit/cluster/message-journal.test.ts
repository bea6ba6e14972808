import { expect, test } from 'vitest';
import { MessageJournal } from '#test/cluster/message-journal.ts';

const QueueUrl = 'http://127.0.0.1/000000000000/jobs';

function tell(journal: MessageJournal, action: string, asked: object, answered: object): void {
  journal.observe(
    {
      method: 'POST',
      path: '/',
      query: new URLSearchParams(),
      headers: { 'x-amz-target': `AmazonSQS.${action}` },
      body: JSON.stringify({ QueueUrl, ...asked }),
      atMs: 0,
    },
    { status: 200, body: JSON.stringify(answered) },
  );
}

function receive(journal: MessageJournal, receipt: string, ...ids: string[]): void {
  const Messages = ids.map((id) => ({ MessageId: id, ReceiptHandle: `${id}-${receipt}` }));
  tell(journal, 'ReceiveMessage', {}, ids.length === 0 ? {} : { Messages });
}

test('a message is followed from its being sent over each receive to its deletion', () => {
  const journal = new MessageJournal();

  tell(
    journal,
    'SendMessageBatch',
    { Entries: [] },
    { Successful: [{ MessageId: 'a' }, { MessageId: 'b' }] },
  );
  receive(journal, 'first', 'a', 'b');
  receive(journal, 'none');
  receive(journal, 'second', 'b');
  const Entries = [
    { Id: '0', ReceiptHandle: 'a-first' },
    { Id: '1', ReceiptHandle: 'b-second' },
  ];
  tell(journal, 'DeleteMessageBatch', { Entries }, { Successful: [{ Id: '1' }] });

  expect(journal.messages).toEqual([
    {
      id: 'a',
      queue: 'jobs',
      sentAtMs: expect.any(Number) as number,
      receives: 1,
      deletedAtMs: undefined,
    },
    {
      id: 'b',
      queue: 'jobs',
      sentAtMs: expect.any(Number) as number,
      receives: 2,
      deletedAtMs: expect.any(Number) as number,
    },
  ]);
  expect(journal.batches.map((batch) => batch.map(({ id }) => id))).toEqual([['a', 'b'], ['b']]);
});

test('a message that came another way has no time of its sending', () => {
  const journal = new MessageJournal();

  receive(journal, 'first', 'a');

  expect(journal.messages.map(({ sentAtMs }) => sentAtMs)).toEqual([undefined]);
});
