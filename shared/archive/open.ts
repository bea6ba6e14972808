import type { SegmentReader, SegmentWriter } from './archive.ts';
import { bucketSchema } from './config.ts';
import { readConfig } from '#shared/kernel/config.ts';
import type { ArchivePlace } from './place.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Opens an archive to write to. Code and connections are loaded at the first segment. */
export function openSegmentWriter(place: ArchivePlace, environment: Environment): SegmentWriter {
  let opening: Promise<SegmentWriter> | undefined;
  return {
    async put(key, bytes, signal) {
      opening ??= open(place, environment);
      await (await opening).put(key, bytes, signal);
    },
    close() {
      void opening?.then((writer) => writer.close());
    },
  };
}

/**
 * Opens an archive to read from.
 *
 * @throws ConfigurationError where the environment does not say how a bucket is reached
 */
export function openSegmentReader(
  place: ArchivePlace,
  environment: Environment,
): Promise<SegmentReader> {
  return open(place, environment);
}

async function open(
  place: ArchivePlace,
  environment: Environment,
): Promise<SegmentReader & SegmentWriter> {
  if (place.kind === 'folder') {
    const { folderSegments } = await import('./folder-segments.ts');
    return folderSegments(place.path);
  }
  const { AWS_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL } = readConfig(
    bucketSchema,
    environment,
  );
  const endpoint = AWS_ENDPOINT_URL_S3 ?? AWS_ENDPOINT_URL;
  const { bucketSegments } = await import('./bucket-segments.ts');
  return bucketSegments(place, {
    region: AWS_REGION,
    ...(endpoint === undefined ? {} : { endpoint }),
  });
}
