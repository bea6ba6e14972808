import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** PEM. */
export interface Identity {
  readonly certificate: string;
  readonly key: string;
}

/** A certificate authority in a folder of its own. */
export interface Authority {
  /** PEM. */
  readonly ca: string;
  readonly caPath: string;
  /**
   * A certificate for 127.0.0.1, as server and as client, and its key; `<name>.crt` and `<name>.key` in the folder.
   *
   * @param days how long it is valid from now; -1: it was over yesterday
   */
  sign(name: string, days?: number): Promise<Identity>;
}

const newKey = 'req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes';

/** Makes a certificate authority with openssl. */
export async function makeAuthority(folder: string): Promise<Authority> {
  const path = (name: string) => join(folder, name);
  const openssl = (options: string) => run('openssl', options.split(' '), { cwd: folder });
  await openssl(`${newKey} -x509 -days 2 -subj /CN=authority -keyout ca.key -out ca.crt`);
  // The gateway inside etcd is a client of its own server with the server's certificate.
  await writeFile(
    path('extensions'),
    'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n',
  );
  return {
    ca: await readFile(path('ca.crt'), 'utf8'),
    caPath: path('ca.crt'),
    async sign(name, days = 2) {
      // No common name: etcd would take it for the user.
      await openssl(`${newKey} -subj /O=${name} -keyout ${name}.key -out ${name}.csr`);
      await openssl(
        `x509 -req -in ${name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days ${days} -extfile extensions -out ${name}.crt`,
      );
      return {
        certificate: await readFile(path(`${name}.crt`), 'utf8'),
        key: await readFile(path(`${name}.key`), 'utf8'),
      };
    },
  };
}
