import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  formatShard,
  isPinned,
  marksOf,
  parseShard,
  pinOf,
  withPin,
  withoutPin,
} from '#shared/goverse/shard-value.ts';

function value(text: string) {
  return parseShard(text) ?? expect.unreachable();
}

describe('a shard’s value', () => {
  test.each([
    ['a:1,b:2', 'a:1', 'b:2', []],
    ['a:1', 'a:1', '', []],
    [',b:2', '', 'b:2', []],
    ['', '', '', []],
    [',', '', '', []],
    ['a:1,,f=pinned,f=x', 'a:1', '', ['pinned', 'x']],
    ['f=x,a:1,f=y,b:2', 'a:1', 'b:2', ['x', 'y']],
    [' a:1 , b:2 , f=x ', 'a:1', 'b:2', ['x']],
    ['a:1,b:2,f=', 'a:1', 'b:2', []],
    ['a:1,b:2,,', 'a:1', 'b:2', []],
  ])('%j', (text, target, current, flags) => {
    expect(parseShard(text)).toEqual({ target, current, flags });
  });

  test('with more parts than are known is not read', () => {
    expect(parseShard('a:1,b:2,c:3')).toBeUndefined();
  });

  test('is written as GoVerse writes it, flags in their order', () => {
    expect(formatShard({ target: 'a:1', current: '', flags: ['x', 'pinned'] })).toBe(
      'a:1,,f=x,f=pinned',
    );
  });

  test.each(['a,b', 'a b', 'f=pinned'])('takes no address like %j', (target) => {
    expect(() => formatShard({ target, current: '', flags: [] })).toThrow('no address');
  });

  test('is the same after it was written and read', () => {
    const address = fc.constantFrom('', 'a:1', '10.0.0.7:48000', '[fd00::7]:48000');
    const flag = fc.stringMatching(/^[a-z0-9-]{1,12}$/);
    fc.assert(
      fc.property(address, address, fc.array(flag), (target, current, flags) => {
        expect(parseShard(formatShard({ target, current, flags }))).toEqual({
          target,
          current,
          flags,
        });
      }),
    );
  });
});

describe('a pin', () => {
  test('carries the mark of who set it', () => {
    const pinned = withPin(value('a:1,b:2,f=x'), 'drain-1') ?? expect.unreachable();

    expect(formatShard(pinned)).toBe('a:1,b:2,f=x,f=pinned,f=millrace-drain-1');
    expect([isPinned(pinned), marksOf(pinned), pinOf(pinned)]).toEqual([true, ['drain-1'], 'ours']);
  });

  test('is set twice without being there twice', () => {
    const once = withPin(value('a:1,b:2'), 'one') ?? expect.unreachable();

    expect(withPin(once, 'one')).toEqual(once);
  });

  test('of somebody else is not made ours, nor taken off', () => {
    const foreign = value('a:1,b:2,f=pinned');

    expect(pinOf(foreign)).toBe('foreign');
    expect(withPin(foreign, 'one')).toBeUndefined();
    expect(withoutPin(foreign, 'one')).toBe(foreign);
  });

  test('goes with its mark, and leaves everything else', () => {
    const pinned = value('a:1,b:2,f=x,f=pinned,f=millrace-one,f=y');

    expect(formatShard(withoutPin(pinned, 'one'))).toBe('a:1,b:2,f=x,f=y');
  });

  test('stays while another hand-over’s mark wants it', () => {
    const both = value('a:1,b:2,f=pinned,f=millrace-one,f=millrace-two');

    expect(formatShard(withoutPin(both, 'one'))).toBe('a:1,b:2,f=pinned,f=millrace-two');
  });

  test('that somebody took off leaves a mark that is still ours to remove', () => {
    const bare = value('a:1,b:2,f=millrace-one');

    expect(pinOf(bare)).toBe('ours');
    expect(formatShard(withoutPin(bare, 'one'))).toBe('a:1,b:2');
  });

  test.each(['', 'a,b', 'UPPER', '-a', 'a'.repeat(64)])('has no mark %j', (id) => {
    expect(() => withPin(value('a:1,'), id)).toThrow('no id');
  });
});
