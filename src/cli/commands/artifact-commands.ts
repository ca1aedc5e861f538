import { dirname, join } from 'node:path';

import { formatBytes } from '../../control/presentation/bytes.ts';
import { pluralize } from '../../control/presentation/counted.ts';
import { printable } from '../../system/log/printable.ts';
import { parseUtcTime } from '../../system/time/utc-time.ts';
import { ArgumentError, commandsOf } from '../arguments/command.ts';
import type { OptionName, ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { wholePath } from './named-file.ts';
import { printResult } from './print.ts';

/** Commands for a release machine: they need neither a gateway nor a configuration. */
export const artifactCommands = commandsOf('Release tools', [
  {
    name: 'artifact trust',
    operands: ['FILE'],
    options: ['from', 'number', 'keys', 'not-before', 'not-after', 'revoke-keys', 'revoke-releases'],
    summary: 'write a trust list',
    details: [
      'Continues the previously released trust list (--from). LIST is separated by commas. Keys are files with public keys; keys to revoke can also be fingerprints. ' +
        'Releases are artifacts or their digests. A revocation is permanent: later trust lists cannot undo it on a gateway.',
      'TIME is in UTC: a day, such as 2026-12-01, or with a time, such as 2026-12-01T06:00:00Z.',
      'Prints the mender-artifact command that signs the list. Use a key that the gateways already trust. To replace a key, ' +
        'sign the list that adds the new key with the old key.',
    ],
    run: writeTrustList,
  },
  {
    name: 'artifact delta',
    operands: ['OLD', 'NEW'],
    options: ['name', 'device-type', 'key', 'target', 'security-version', 'output'],
    needed: ['name', 'device-type'],
    summary: 'create a delta artifact for gateways that run OLD',
    details: [
      'OLD and NEW are the images in the artifacts of the full releases. A gateway whose partition contains ' +
        'exactly OLD rebuilds NEW from it. Every other gateway rejects the delta (delta-base-mismatch) after the header, ' +
        'and needs the full release. Deltas need a read-only root: a partition that is written while it is mounted no longer matches OLD.',
      'Reads both images into memory; mender-artifact writes the artifact. Without --key, sign it later: mender-artifact sign FILE --key PRIVATE_KEY.',
    ],
    run: writeDelta,
  },
]);

/**
 * A trust list needs at least one of these options. With `--number` alone it only states that the date is at least
 * today.
 */
const contentOptions: readonly OptionName[] = ['from', 'number', 'keys', 'revoke-keys', 'revoke-releases'];

async function writeTrustList(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { operands, values } = typed;
  const [file = ''] = operands;
  const path = wholePath(file, context);
  const many = (name: OptionName): string[] => (values.get(name) ?? '').split(',').filter((part) => part !== '');
  if (!contentOptions.some((name) => values.has(name)))
    throw new ArgumentError('a trust list needs --keys, --revoke-keys or --revoke-releases');
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
  'this trust list revokes keys and adds none: a gateway whose configuration names no other key can no longer install updates';

function refuseUnusableTimes(values: ParsedCommand['values']): void {
  const [notBefore, notAfter] = (['not-before', 'not-after'] as const).map((name) => {
    const text = values.get(name);
    if (text === undefined) return undefined;
    const time = parseUtcTime(text);
    if (time === undefined)
      throw new ArgumentError(`--${name} ${text} is not a time in UTC, such as 2026-12-01 or 2026-12-01T06:00:00Z`);
    if (!values.has('keys')) throw new ArgumentError(`--${name} needs --keys`);
    return time;
  });
  if (notBefore !== undefined && notAfter !== undefined && notBefore >= notAfter)
    throw new ArgumentError('--not-after is not later than --not-before: the keys would never be trusted');
}

function numberOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,12}$/.test(text)) return Number(text);
  throw new ArgumentError(`${text} is not the number of a trust list`);
}

async function writeDelta(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { operands, values } = typed;
  const [base = '', result = ''] = operands.map((file) => wholePath(file, context));
  const name = needed('name', values);
  const deviceType = needed('device-type', values);
  const securityVersion = values.get('security-version');
  if (securityVersion !== undefined && !/^\d{1,15}$/.test(securityVersion))
    throw new ArgumentError(`--security-version ${securityVersion} is not a whole number`);
  const output = wholePath(values.get('output') ?? `${name.replaceAll('/', '-')}.delta.mender`, context);
  const typedKey = values.get('key');
  const key = typedKey === undefined ? undefined : wholePath(typedKey, context);
  const target = values.get('target');
  const order = { base, result, name, deviceType, target, securityVersion, key, output };
  const delta = await context.writeDelta(order, context.signal);
  const share = ((100 * delta.deltaBytes) / delta.result.sizeBytes).toFixed(1);
  const size = `${formatBytes(delta.deltaBytes)}, ${share} % of the image's ${formatBytes(delta.result.sizeBytes)}`;
  const lines = [`${delta.path}: ${size}.`, `For gateways that run ${delta.base.digest}.`];
  if (key === undefined) lines.push(`Sign it: mender-artifact sign ${delta.path} --key PRIVATE_KEY`);
  return printResult(delta, () => lines.map((line) => `${printable(line)}\n`).join(''), typed, context);
}

function needed(name: OptionName, values: ParsedCommand['values']): string {
  const value = values.get(name);
  if (value === undefined || value === '') throw new ArgumentError(`--${name} is missing`);
  return value;
}
