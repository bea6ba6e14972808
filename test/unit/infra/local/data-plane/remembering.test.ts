import { expect, test } from 'vitest';
import { remembering } from '#infra/local/data-plane/remembering.ts';

test('a value is computed once, and the result is the same from then on', () => {
  const asked: string[] = [];
  const lengthOf = remembering((value) => {
    asked.push(value);
    return { length: value.length };
  });

  const first = lengthOf('abc');
  const second = lengthOf('abc');
  const other = lengthOf('');

  expect(second).toBe(first);
  expect([first, other]).toEqual([{ length: 3 }, { length: 0 }]);
  expect(asked).toEqual(['abc', '']);
});

test('a result of null is remembered too', () => {
  let asked = 0;
  const nothing = remembering(() => {
    asked += 1;
    return null;
  });

  const results = [nothing('a'), nothing('a')];

  expect(results).toEqual([null, null]);
  expect(asked).toBe(1);
});

test('it forgets when it holds more than a thousand values, and computes anew', () => {
  let asked = 0;
  const same = remembering((value) => {
    asked += 1;
    return value;
  });

  for (let number = 0; number <= 1_000; number++) {
    same(`value ${number}`);
  }
  const again = same('value 0');

  expect(again).toBe('value 0');
  expect(asked).toBe(1_002);
});
