/** `<host>_<version>_<unique>`; neither of the last two has an underscore. */
const identityPattern = /_([^_]+)_[^_]+$/;

/**
 * The name under which a relay holds the Lease. Host and version are for people, and for `millrace doctor`.
 *
 * @param unique differs for each process: one that comes after this one on the same host must not pass for it
 */
export function identityOf(host: string, version: string, unique: string): string {
  return `${host}_${version}_${unique}`;
}

/** Of a Lease's holder: which release it runs, `undefined` where its name does not say. */
export function versionOfHolder(identity: string): string | undefined {
  return identityPattern.exec(identity)?.[1];
}
