import { durationSeconds, durationPattern } from '#shared/api/duration.ts';
import type { JsonValue } from '#shared/kube/json.ts';
import { isList, isObject, isSame, objectAt, textAt } from './json-data.ts';

/** What a rule says, of the value and of the one before it. */
type Rule = (self: JsonValue, oldSelf: JsonValue) => boolean;

const aDuration = `self.matches('${durationPattern}')`;
const wholeSeconds = "!self.contains('.') && !self.contains('ms')";

/**
 * Every rule of the definitions in this language, by its text. A rule that is new or changed has none and throws where it
 * is first met, so that the model never admits what the real server refuses.
 */
const rules: { readonly [text: string]: Rule } = {
  'self == oldSelf': isSame,
  "self == 'default'": (self) => self === 'default',
  "self == '0-inf'": (self) => self === '0-inf',
  'self >= 1 && self <= 32': (self) => typeof self === 'number' && self >= 1 && self <= 32,
  'self >= 1 && self <= 8': (self) => typeof self === 'number' && self >= 1 && self <= 8,
  'oldSelf.all(old, old in self)': (self, oldSelf) =>
    items(oldSelf).every((old) => items(self).includes(old)),
  'oldSelf.all(old, self.exists(pool, pool.name == old.name))': (self, oldSelf) =>
    items(oldSelf).every((old) => items(self).some((pool) => nameOf(pool) === nameOf(old))),
  'self.all(cell, self.exists_one(other, other == cell))': (self) =>
    new Set(items(self)).size === items(self).length,
  "self.all(volume, volume.name != 'data')": (self) =>
    items(self).every((volume) => nameOf(volume) !== 'data'),
  "self.all(key, !key.startsWith('millrace.dev/'))": (self) =>
    keys(self).every((key) => !key.startsWith('millrace.dev/')),
  "self.all(key, !key.matches('^([a-z]+[.])?millrace[.]dev/'))": (self) =>
    keys(self).every((key) => !/^([a-z]+[.])?millrace[.]dev\//.test(key)),
  'has(self.podTemplate) == has(oldSelf.podTemplate)': (self, oldSelf) =>
    has(self, 'podTemplate') === has(oldSelf, 'podTemplate'),
  '!has(self.podTemplate) || has(self.storage)': (self) =>
    !has(self, 'podTemplate') || has(self, 'storage'),
  '!has(self.nodeName)': (self) => !has(self, 'nodeName'),
  '!has(self.hostname) && !has(self.subdomain)': (self) =>
    !has(self, 'hostname') && !has(self, 'subdomain'),
  "(!has(self.restartPolicy) || self.restartPolicy == 'Always') && !has(self.activeDeadlineSeconds)":
    (self) =>
      ['Always', undefined].includes(fieldOf(self, 'restartPolicy')) &&
      !has(self, 'activeDeadlineSeconds'),
  "!has(self.restartPolicy) || self.restartPolicy == 'Never'": (self) =>
    ['Never', undefined].includes(fieldOf(self, 'restartPolicy')),
  "has(self.jobTemplate) || self.schedules.all(schedule, schedule.engine != 'job')": (self) =>
    has(self, 'jobTemplate') ||
    items(isObject(self) ? (self['schedules'] ?? null) : null).every(
      (schedule) => fieldOf(schedule, 'engine') !== 'job',
    ),
  '!has(self.terminationGracePeriodSeconds) || self.terminationGracePeriodSeconds >= 1': (self) => {
    const seconds = isObject(self) ? self['terminationGracePeriodSeconds'] : undefined;
    return typeof seconds !== 'number' || seconds >= 1;
  },
  "isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))": isPositiveQuantity,
  [`${aDuration} && duration(self) >= duration('5s')`]: (self) => secondsOf(self) >= 5,
  [`!self.quietFor.matches('${durationPattern}') || !self.deleteAfter.matches('${durationPattern}') || duration(self.deleteAfter) >= duration(self.quietFor)`]:
    (self) => {
      const [quiet, deletion] = [fieldOf(self, 'quietFor'), fieldOf(self, 'deleteAfter')];
      const known = [quiet, deletion].map((text) => secondsOf(text ?? ''));
      const [quietSeconds = Number.NaN, deletionSeconds = Number.NaN] = known;
      return known.some(Number.isNaN) || deletionSeconds >= quietSeconds;
    },
  [`${aDuration} && duration(self) >= duration('10s')`]: (self) => secondsOf(self) >= 10,
  [`${aDuration} && duration(self) >= duration('5s') && duration(self) <= duration('1h')`]: (
    self,
  ) => secondsOf(self) >= 5 && secondsOf(self) <= 3600,
  [`${aDuration} && duration(self) >= duration('1m')`]: (self) => secondsOf(self) >= 60,
  [`${aDuration} && duration(self) >= duration('5m')`]: (self) => secondsOf(self) >= 300,
  [`${aDuration} && ${wholeSeconds}`]: (self) => secondsOf(self) >= 0 && isWhole(self),
  [`${aDuration} && ${wholeSeconds} && duration(self) >= duration('10s')`]: (self) =>
    secondsOf(self) >= 10 && isWhole(self),
  'has(self.cron) != has(self.every)': (self) => has(self, 'cron') !== has(self, 'every'),
  [`!has(self.every) || !self.every.matches('${durationPattern}') || !self.jitter.matches('${durationPattern}') || duration(self.jitter) + duration(self.jitter) < duration(self.every)`]:
    (self) => {
      const [every, jitter] = [fieldOf(self, 'every'), fieldOf(self, 'jitter')];
      const known = [every, jitter].map((text) => secondsOf(text ?? ''));
      const [everySeconds = Number.NaN, jitterSeconds = Number.NaN] = known;
      return known.some(Number.isNaN) || 2 * jitterSeconds < everySeconds;
    },
  "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$')": (self) =>
    /^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$/.test(
      textAt(objectAt(isObject(self) ? self : undefined, 'metadata'), 'name') ?? '',
    ),
  "self.dataPlane.kind != 'multigres' || self.name == 'postgres'": (self) =>
    textAt(objectAt(isObject(self) ? self : undefined, 'dataPlane'), 'kind') !== 'multigres' ||
    nameOf(self) === 'postgres',
  'has(self.endpoints) != has(self.service)': (self) =>
    has(self, 'endpoints') !== has(self, 'service'),
  'has(self.url) != has(self.service)': (self) => has(self, 'url') !== has(self, 'service'),
  "!has(self.tlsSecret) || !has(self.endpoints) || self.endpoints.all(endpoint, endpoint.startsWith('https://'))":
    (self) =>
      !has(self, 'tlsSecret') ||
      !isObject(self) ||
      items(self['endpoints']).every((endpoint) => startsWith(endpoint, 'https://')),
  "self.all(endpoint, endpoint.startsWith('https://')) || self.all(endpoint, endpoint.startsWith('http://'))":
    (self) =>
      items(self).every((endpoint) => startsWith(endpoint, 'https://')) ||
      items(self).every((endpoint) => startsWith(endpoint, 'http://')),
  "isURL(self) && self.matches('^https?://([-A-Za-z0-9.]+|[[][0-9A-Fa-f:]+[]]):[0-9]+$')": (self) =>
    isUrl(self, /^https?:\/\/([-A-Za-z0-9.]+|[[][0-9A-Fa-f:]+[\]]):[0-9]+$/),
  "isURL(self) && self.matches('^https?://[^/?#@]+(/[^?#]*)?$')": (self) =>
    isUrl(self, /^https?:\/\/[^/?#@]+(\/[^?#]*)?$/),
  "has(self.s3) == (self.type == 's3')": (self) =>
    has(self, 's3') === (fieldOf(self, 'type') === 's3'),
  "has(self.filesystem) == (self.type == 'filesystem')": (self) =>
    has(self, 'filesystem') === (fieldOf(self, 'type') === 'filesystem'),
  '!(has(self.credentialsSecret) && has(self.serviceAccountName))': (self) =>
    !(has(self, 'credentialsSecret') && has(self, 'serviceAccountName')),
  "isURL(self) && self.matches('^https?://([-A-Za-z0-9.]+|[[][0-9A-Fa-f:]+])(:[0-9]{1,5})?$')": (
    self,
  ) => isUrl(self, /^https?:\/\/([-A-Za-z0-9.]+|[[][0-9A-Fa-f:]+[\]])(:[0-9]{1,5})?$/),
  "self.matches('^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$') && !self.contains('..') && !self.matches('^[0-9]+([.][0-9]+){3}$')":
    (self) =>
      typeof self === 'string' &&
      /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(self) &&
      !self.includes('..') &&
      !/^[0-9]+([.][0-9]+){3}$/.test(self),
  "self.matches('^[A-Za-z0-9!_.*()-]+(/[A-Za-z0-9!_.*()-]+)*$') && !self.matches('(^|/)[.]{1,2}(/|$)')":
    (self) => isPathOf(self, /^[A-Za-z0-9!_.*()-]+(\/[A-Za-z0-9!_.*()-]+)*$/),
  "self.matches('^(/[A-Za-z0-9._-]+)+$') && !self.matches('(^|/)[.]{1,2}(/|$)')": (self) =>
    isPathOf(self, /^(\/[A-Za-z0-9._-]+)+$/),
};

/** Not a number where it is no duration. */
function secondsOf(self: JsonValue): number {
  return typeof self === 'string' && new RegExp(durationPattern).test(self)
    ? durationSeconds(self)
    : Number.NaN;
}

function isWhole(self: JsonValue): boolean {
  return typeof self === 'string' && !self.includes('.') && !self.includes('ms');
}

const patterns = new Map<string, RegExp>();

/**
 * Whether a rule of a definition holds.
 *
 * @param oldSelf the value before, where the rule asks for it
 * @throws where the rule is not known here
 */
export function ruleHolds(rule: string, self: JsonValue, oldSelf: JsonValue | undefined): boolean {
  const known = rules[rule];
  if (known !== undefined) {
    return known(self, oldSelf ?? null);
  }
  // Patterns of names are the same in CEL's language and in this one.
  const pattern = /^self\.matches\('([^']*)'\)$/.exec(rule)?.[1];
  if (pattern === undefined) {
    throw new Error(`the model does not know the rule ${rule}`);
  }
  const expression = patterns.get(pattern) ?? new RegExp(pattern);
  patterns.set(pattern, expression);
  return typeof self === 'string' && expression.test(self);
}

function items(value: JsonValue | undefined): readonly JsonValue[] {
  return isList(value) ? value : [];
}

function keys(value: JsonValue): readonly string[] {
  return isObject(value) ? Object.keys(value) : [];
}

function has(value: JsonValue, field: string): boolean {
  return isObject(value) && value[field] !== undefined;
}

function fieldOf(value: JsonValue, field: string): string | undefined {
  return isObject(value) ? textAt(value, field) : undefined;
}

function nameOf(value: JsonValue): string | undefined {
  return fieldOf(value, 'name');
}

function startsWith(value: JsonValue, start: string): boolean {
  return typeof value === 'string' && value.startsWith(start);
}

/** Of this form, and no part of it leads elsewhere. */
function isPathOf(value: JsonValue, form: RegExp): boolean {
  return typeof value === 'string' && form.test(value) && !/(^|\/)[.]{1,2}(\/|$)/.test(value);
}

function isUrl(value: JsonValue, pattern: RegExp): boolean {
  return typeof value === 'string' && pattern.test(value) && URL.canParse(value);
}

/** Kubernetes quantities: a decimal number with a suffix or an exponent (resource.ParseQuantity). */
function isPositiveQuantity(value: JsonValue): boolean {
  const number =
    typeof value === 'string'
      ? /^\+?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/.exec(value)?.[1]
      : undefined;
  return number !== undefined && Number(number) > 0;
}
