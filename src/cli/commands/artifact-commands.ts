import { dirname, join } from 'node:path';

import { formatBytes } from '../../control/presentation/bytes.ts';
import { pluralize } from '../../control/presentation/counted.ts';
import { printable } from '../../system/log/printable.ts';
import { parseUtcTime } from '../../system/time/utc-time.ts';
import { ArgumentError } from '../arguments/command.ts';
import type { Command, OptionName, ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { wholePath } from './named-file.ts';
import { printResult } from './print.ts';

/** Commands for a release machine: they need neither a gateway nor a configuration. */
export const artifactCommands: readonly Command[] = [
  {
    name: 'artifact trust',
    operands: ['FILE'],
    options: ['from', 'number', 'keys', 'not-before', 'not-after', 'revoke-keys', 'revoke-releases'],
    group: 'Release tools',
    summary: 'write a list of keys and revocations',
    details: [
      'Continues the list that was released before (--from). LIST is separated by commas: keys are files with public keys, ' +
        'or, to be revoked, their fingerprints; releases are artifacts, or their digests. What was revoked once stays ' +
        'revoked on a gateway, whatever comes later.',
      'TIME is in UTC: a day, such as 2026-12-01, or with a time, such as 2026-12-01T06:00:00Z.',
      'mender-artifact signs it: the command is shown. The key must be one that the gateways trust now; to replace a key, ' +
        'sign the list that names the new one with the old one.',
    ],
    run: writeTrustList,
  },
  {
    name: 'artifact delta',
    operands: ['OLD', 'NEW'],
    options: ['name', 'device-type', 'key', 'target', 'security-version', 'output'],
    needed: ['name', 'device-type'],
    group: 'Release tools',
    summary: 'make a small artifact for gateways that run OLD',
    details: [
      'OLD and NEW are images, as they are in the artifacts of the whole releases. A gateway on which the partition holds ' +
        'exactly OLD rebuilds NEW from it; every other one refuses it (delta-base-mismatch) before it fetches more than the header, ' +
        'and needs the whole release. Partitions that are written to while they run take no deltas: ' +
        'the root must be read-only.',
      'Both images are read into memory; mender-artifact writes the artifact. Without --key: mender-artifact sign FILE --key PRIVATE_KEY.',
    ],
    run: writeDelta,
  },
];

/** A list needs at least one of these options. With `--number` alone it says that the date is at least today. */
const sayings: readonly OptionName[] = ['from', 'number', 'keys', 'revoke-keys', 'revoke-releases'];

async function writeTrustList(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { operands, values } = typed;
  const [file = ''] = operands;
  const path = wholePath(file, context);
  const many = (name: OptionName): string[] => (values.get(name) ?? '').split(',').filter((part) => part !== '');
  if (!sayings.some((name) => values.has(name)))
    throw new ArgumentError('a list names keys (--keys), or what is revoked (--revoke-keys, --revoke-releases)');
  refuseUnusableTimes(values);
  const list = await context.writeTrustList(path, {
    from: values.get('from'),
    number: numberOf(values.get('number')),
    keys: many('keys'),
    notBefore: values.get('not-before'),
    notAfter: values.get('not-after'),
    revokedKeys: many('revoke-keys'),
    revokedReleases: many('revoke-releases'),
  });
  const name = `trust-${list.number}`;
  const sign =
    `mender-artifact write module-image --type thing-trust --artifact-name ${name} --device-type DEVICE_TYPE ` +
    `--file ${path} --compression none --key PRIVATE_KEY --output-path ${join(dirname(path), `${name}.mender`)}`;
  const { keys, revoked } = list;
  const counts = [
    pluralize(keys.length, 'key'),
    pluralize(revoked.keys.length, 'revoked key'),
    pluralize(revoked.releases.length, 'revoked release'),
  ].join(', ');
  const warnings = keys.length === 0 && revoked.keys.length > 0 ? [leavesNoKey] : [];
  if (!typed.json) for (const warning of warnings) context.err.write(`agent: warning: ${warning}\n`);
  const text = `${printable(`${path}: list ${list.number}, ${counts}. Sign it:`)}\n${printable(sign)}\n`;
  return printResult({ path, ...list, sign, warnings }, () => text, typed, context);
}

const leavesNoKey =
  'this list revokes keys and names none: a gateway that trusts no other key by its configuration installs nothing any more';

function refuseUnusableTimes(values: ParsedCommand['values']): void {
  const [notBefore, notAfter] = (['not-before', 'not-after'] as const).map((name) => {
    const text = values.get(name);
    if (text === undefined) return undefined;
    const time = parseUtcTime(text);
    if (time === undefined)
      throw new ArgumentError(`--${name} ${text} is no time in UTC, such as 2026-12-01 or 2026-12-01T06:00:00Z`);
    if (!values.has('keys')) throw new ArgumentError(`--${name} is said of the keys of --keys, which is missing`);
    return time;
  });
  if (notBefore !== undefined && notAfter !== undefined && notBefore >= notAfter)
    throw new ArgumentError('--not-after is not later than --not-before: the keys would never be trusted');
}

function numberOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,12}$/.test(text)) return Number(text);
  throw new ArgumentError(`${text} is no number of a list`);
}

async function writeDelta(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { operands, values } = typed;
  const [base = '', result = ''] = operands.map((file) => wholePath(file, context));
  const name = needed('name', values);
  const deviceType = needed('device-type', values);
  const securityVersion = values.get('security-version');
  if (securityVersion !== undefined && !/^\d{1,15}$/.test(securityVersion))
    throw new ArgumentError(`--security-version ${securityVersion} is no whole number`);
  const output = wholePath(values.get('output') ?? `${name.replaceAll('/', '-')}.delta.mender`, context);
  const typedKey = values.get('key');
  const key = typedKey === undefined ? undefined : wholePath(typedKey, context);
  const target = values.get('target');
  const order = { base, result, name, deviceType, target, securityVersion, key, output };
  const delta = await context.writeDelta(order, context.signal);
  const share = ((100 * delta.deltaBytes) / delta.result.sizeBytes).toFixed(1);
  const size = `${formatBytes(delta.deltaBytes)}, ${share} % of the image's ${formatBytes(delta.result.sizeBytes)}`;
  const lines = [`${delta.path}: ${size}.`, `It fits gateways that run ${delta.base.digest}.`];
  if (key === undefined) lines.push(`Sign it: mender-artifact sign ${delta.path} --key PRIVATE_KEY`);
  return printResult(delta, () => lines.map((line) => `${printable(line)}\n`).join(''), typed, context);
}

function needed(name: OptionName, values: ParsedCommand['values']): string {
  const value = values.get(name);
  if (value === undefined || value === '') throw new ArgumentError(`--${name} is missing`);
  return value;
}
