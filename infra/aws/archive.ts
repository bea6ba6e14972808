import type { StepName } from '#shared/api/steps.ts';
import { type Template, arnOf, policy, refuseWithoutTls } from './template.ts';

/** As long as somebody may still ask why something was decided. */
const keptDays = 90;

/** What was overwritten or deleted by mistake can be fetched back for so long. */
const oldVersionDays = 30;

/** The bucket's name is CloudFormation's: such names are taken world-wide. */
const bucketId = 'ArchiveBucket';

/**
 * The bucket for what was decided and why. It outlives the stack: a record of production is no part of its deployment. Where
 * the stack's first deployment fails it goes again.
 */
export function archive(): Template {
  const files = { 'Fn::Sub': `\${${bucketId}.Arn}/*` };
  return {
    [bucketId]: {
      Type: 'AWS::S3::Bucket',
      DeletionPolicy: 'RetainExceptOnCreate',
      UpdateReplacePolicy: 'Retain',
      Properties: {
        VersioningConfiguration: { Status: 'Enabled' },
        BucketEncryption: {
          ServerSideEncryptionConfiguration: [
            { ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } },
          ],
        },
        PublicAccessBlockConfiguration: {
          BlockPublicAcls: true,
          BlockPublicPolicy: true,
          IgnorePublicAcls: true,
          RestrictPublicBuckets: true,
        },
        OwnershipControls: { Rules: [{ ObjectOwnership: 'BucketOwnerEnforced' }] },
        LifecycleConfiguration: {
          Rules: [
            {
              Id: 'forget',
              Status: 'Enabled',
              ExpirationInDays: keptDays,
              NoncurrentVersionExpiration: { NoncurrentDays: oldVersionDays },
              AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 },
            },
          ],
        },
      },
    },
    [`${bucketId}Policy`]: {
      Type: 'AWS::S3::BucketPolicy',
      Properties: {
        Bucket: { Ref: bucketId },
        PolicyDocument: policy([refuseWithoutTls('s3:*', [arnOf(bucketId), files])]),
      },
    },
  };
}

/** Where a step's decisions go, and which of them: `archive` of the deployment. */
export const archiveVariables: Template = {
  MILLRACE_ARCHIVE: { 'Fn::Sub': `s3://\${${bucketId}}` },
  MILLRACE_ARCHIVE_DECISIONS: '${param:archive}',
};

/** A step adds to its own decisions. It reads none, and what was written it cannot take back: old versions stay. */
export function archiveStatement(step: StepName): Template {
  return {
    Effect: 'Allow',
    Action: 's3:PutObject',
    Resource: { 'Fn::Sub': `\${${bucketId}.Arn}/decisions/*/${step}/*` },
  };
}

export const archiveOutputs: Template = {
  ArchiveBucket: {
    Description: 'The bucket for what was decided and why',
    Value: { Ref: bucketId },
  },
};
