import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  InvalidAddress,
  checkedService,
  parseCellAddress,
  parseEndpoint,
  serviceOfAddress,
  serviceProxyPath,
} from '#shared/topology/address.ts';

describe('an address', () => {
  test.each([
    ['http://topo:2379', { scheme: 'http', host: 'topo', port: 2379 }],
    ['https://Topo.DB.svc.:2379', { scheme: 'https', host: 'topo.db.svc.', port: 2379 }],
    ['http://127.0.0.1:1', { scheme: 'http', host: '127.0.0.1', port: 1 }],
    ['https://[fd00::7]:65535', { scheme: 'https', host: 'fd00::7', port: 65_535 }],
  ])('%s is one', (text, address) => {
    expect(parseEndpoint(text)).toEqual(address);
  });

  test.each([
    '',
    'topo:2379',
    'ftp://topo:2379',
    'http://topo',
    'http://topo:0',
    'http://topo:65536',
    'http://topo:2379/',
    'http://topo:2379?x',
    'http://me@topo:2379',
    'http://-topo:2379',
    'http://to po:2379',
    'http://[topo]:2379',
    'http://topo:2379\nx',
  ])('%j is none', (text) => {
    expect(() => parseEndpoint(text)).toThrow(InvalidAddress);
  });

  test('of a cell is spoken to with the scheme of the global store, and with no other', () => {
    expect(parseCellAddress('topo:2379', 'https')).toMatchObject({ scheme: 'https' });
    expect(parseCellAddress('https://topo:2379', 'https')).toMatchObject({ scheme: 'https' });
    expect(() => parseCellAddress('http://topo:2379', 'https')).toThrow(InvalidAddress);
  });
});

describe('an in-cluster address', () => {
  test.each([
    ['topo:2379', 'topo', 'db'],
    ['topo.other.svc:2379', 'topo', 'other'],
    ['topo.other.svc.cluster.local:2379', 'topo', 'other'],
    ['topo.other.svc.cluster.local.:2379', 'topo', 'other'],
    ['http://topo.other.svc:2379', 'topo', 'other'],
  ])('%s is a Service’s', (text, name, namespace) => {
    expect(serviceOfAddress(text, 'db')).toEqual({ name, namespace, port: 2379 });
  });

  test.each(['10.0.0.7:2379', '[fd00::7]:2379', 'topo.other:2379', 'etcd-0.topo.other.svc:2379'])(
    '%s is not',
    (text) => {
      expect(() => serviceOfAddress(text, 'db')).toThrow(InvalidAddress);
    },
  );
});

describe('the path of a Service’s proxy', () => {
  test('names its namespace, name and port, and says when it is encrypted', () => {
    const service = { namespace: 'db', name: 'topo', port: 2379 };

    expect(serviceProxyPath(service, 'http')).toBe(
      '/api/v1/namespaces/db/services/topo:2379/proxy',
    );
    expect(serviceProxyPath(service, 'https')).toBe(
      '/api/v1/namespaces/db/services/https:topo:2379/proxy',
    );
  });

  test('never holds anything but two labels and a port', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.double(), (namespace, name, port) => {
        let path: string | undefined;
        try {
          path = serviceProxyPath(checkedService({ namespace, name, port }), 'http');
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidAddress);
        }

        expect(path ?? '/api/v1/namespaces/a/services/a:1/proxy').toMatch(
          /^\/api\/v1\/namespaces\/[-a-z0-9]+\/services\/[-a-z0-9]+:\d+\/proxy$/,
        );
      }),
    );
  });
});
