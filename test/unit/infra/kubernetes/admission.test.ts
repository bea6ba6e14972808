import { describe, expect, test } from 'vitest';
import { admissionPolicies } from '#infra/kubernetes/admission.ts';

const grants = { namespace: 'millrace', workNamespaces: [], secrets: [], services: [] };

describe('the admission policies', () => {
  test('each have a binding that denies', () => {
    const manifests = admissionPolicies(grants);

    const policies = manifests.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy');
    const bindings = manifests.filter(({ kind }) => kind === 'ValidatingAdmissionPolicyBinding');
    expect(policies.length).toBeGreaterThan(5);
    expect(bindings.map(({ spec }) => spec)).toEqual(
      policies.map(({ metadata }) => ({ policyName: metadata.name, validationActions: ['Deny'] })),
    );
  });

  test('know the users that share an identity with its service account', () => {
    const text = JSON.stringify(
      admissionPolicies({ ...grants, users: { 'drain-step': ['arn:aws:sts::1:assumed-role/a'] } }),
    );

    expect(text).toContain(
      "'drain-step': ['system:serviceaccount:millrace:drain-step', 'arn:aws:sts::1:assumed-role/a']",
    );
  });

  test('take no name that could end its text in an expression', () => {
    const users = { 'drain-step': ["a' || true || 'b"] };

    expect(() => admissionPolicies({ ...grants, users })).toThrow('cannot stand in an expression');
  });
});
