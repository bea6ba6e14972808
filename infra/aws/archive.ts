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

export const archiveOutputs: Template = {
  ArchiveBucket: {
    Description: 'The bucket for what was decided and why',
    Value: { Ref: bucketId },
  },
};
