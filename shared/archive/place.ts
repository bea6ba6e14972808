/** Where an archive is. */
export type ArchivePlace =
  /** Segments are objects of a bucket, below `prefix`, which is empty or ends with a slash. */
  | { readonly kind: 's3'; readonly bucket: string; readonly prefix: string }
  /** Segments are files below a folder of this machine. */
  | { readonly kind: 'folder'; readonly path: string };

const bucketUrl =
  /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/+([A-Za-z0-9][A-Za-z0-9/_-]{0,200}))?\/*$/;

/** What {@link parsePlace} takes, for errors that say what to do. */
export const placeForms = 's3://bucket, s3://bucket/prefix or file:///folder';

/** Reads `s3://bucket/prefix` or `file:///folder`; `undefined` for anything else. */
export function parsePlace(text: string): ArchivePlace | undefined {
  const [, bucket, prefix = ''] = bucketUrl.exec(text) ?? [];
  if (bucket !== undefined) {
    const inner = prefix.replace(/\/+$/, '');
    return { kind: 's3', bucket, prefix: inner === '' ? '' : `${inner}/` };
  }
  if (!/^file:\/\/\/./.test(text) || !URL.canParse(text)) {
    return undefined;
  }
  return { kind: 'folder', path: decodeURIComponent(new URL(text).pathname) };
}

/** As {@link parsePlace} takes it. */
export function textOfPlace(place: ArchivePlace): string {
  return place.kind === 's3'
    ? `s3://${place.bucket}/${place.prefix}`.replace(/\/$/, '')
    : `file://${encodeURI(place.path)}`;
}
