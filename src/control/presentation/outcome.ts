import type { OperationOutcome } from '../events.ts';
import type { OutcomeReport } from '../reports.ts';
import { pluralize } from './counted.ts';
import { sentence } from './headline.ts';
import { trialOfBoard } from './rows/board-rows.ts';
import type { Message } from './rows/row.ts';

type TakenList = NonNullable<Extract<OperationOutcome, { kind: 'installed' }>['trustList']>;

/** Describes the outcome of an operation. With `forced`, omits the hint about `--force`. */
export function describeOutcome(outcome: OperationOutcome, forced: boolean): Message {
  const { version } = outcome;
  switch (outcome.kind) {
    case 'up-to-date':
      return { tone: 'good', text: describeUpToDate(outcome) };
    case 'installed':
      return {
        tone: 'good',
        text: outcome.trustList === undefined ? `Done: ${version} is installed.` : describeList(outcome.trustList),
      };
    case 'reboot-required':
      return {
        tone: 'attention',
        text: `${describeStaged(outcome)}. It starts at the next boot: agent reboot`,
      };
    case 'rebooting':
      return describeReboot(outcome);
    case 'deferred':
      return { tone: 'attention', text: describeDeferral(outcome, forced) };
    case 'rolled-back':
      return { tone: 'attention', text: describeRollback(outcome) };
    case 'cancelled':
      return { tone: 'good', text: `Cancelled: ${version}.` };
    case 'nothing-to-cancel':
      return { tone: 'good', text: 'Nothing to cancel.' };
    case 'flashed':
      return { tone: 'good', text: describeFlashed(outcome) };
  }
}

function describeUpToDate({
  version,
  trustList,
  isRecovery,
  reason,
}: Extract<OperationOutcome, { kind: 'up-to-date' }>): string {
  if (isRecovery === true) return sentence(reason ?? 'No interrupted update');
  if (reason !== undefined) return `Nothing to do: ${reason}.`;
  return `Nothing to do: ${version} is ${trustList === true ? 'in effect' : 'installed'}.`;
}

function describeDeferral(
  { version, code, reason }: Extract<OperationOutcome, { kind: 'deferred' }>,
  forced: boolean,
): string {
  if (code === 'outside-reboot-window') return `${version} is staged: ${reason} (${code}). Now: agent reboot`;
  const force = forced ? '' : ' To install it anyway, use --force.';
  return `${version} is deferred: ${reason} (${code}).${force}`;
}

/** Returns the result of an attempt in words. */
export function resultWord({
  outcome,
  code,
}: {
  readonly outcome: string;
  readonly code?: string | undefined;
}): string {
  return code === 'cancelled' ? code : outcome.replace('-', ' ');
}

/** Describes the result of the last attempt. */
export function resultOf(last: OutcomeReport): string {
  const { version, by, outcome } = last;
  const end = resultWord(last);
  if (by !== 'rollback') return `${version} ${end}`;
  return outcome === 'installed'
    ? `rolled back to ${version}`
    : `rollback to ${version} ${end.replace('rolled back', 'undone')}`;
}

/** Returns the name of a trust list. */
export function listOf(number: number): string {
  return `trust list ${number}`;
}

function describeList({ number, keys, revokedKeys, unknownKeys, revokedReleases }: TakenList): string {
  const revoked = [
    ...(revokedKeys === 0 ? [] : [pluralize(revokedKeys, 'key')]),
    ...(revokedReleases === 0 ? [] : [pluralize(revokedReleases, 'release')]),
  ];
  const news = [
    ...keys.map((name) => `+${name}`),
    ...(revoked.length === 0 ? [] : [`${revoked.join(' and ')} revoked`]),
  ];
  const changes = news.length === 0 ? 'no changes' : news.join(', ');
  const unmatched = pluralize(unknownKeys, 'revoked key matches', 'revoked keys match');
  const unknown = unknownKeys === 0 ? '' : ` Warning: ${unmatched} no known key.`;
  return `Done: trust list ${number} is in effect: ${changes}.${unknown}`;
}

function describeFlashed({ board, version, unchanged, known }: Extract<OperationOutcome, { kind: 'flashed' }>): string {
  if (known === 'sent') {
    const done =
      unchanged === true ? `Nothing to do: ${board} contains ${version}` : `Done: ${board} received ${version}`;
    return `${done}; it cannot report its running image.`;
  }
  if (unchanged === true) return `Nothing to do: ${board} runs ${version} already.`;
  return `Done: ${board} runs ${version}${known === 'on-trial' ? `, ${trialOfBoard}` : ''}.`;
}

/** Returns the name of an attempt: the version, or a rollback to it. */
function attemptOf({ version, isRollback }: { readonly version: string; readonly isRollback?: boolean | undefined }) {
  return isRollback === true ? `The rollback to ${version}` : version;
}

function describeRollback(outcome: Extract<OperationOutcome, { kind: 'rolled-back' }>): string {
  const { isRollback, instead, reason } = outcome;
  const end = isRollback === true ? 'was undone' : 'was rolled back';
  const back = instead === undefined ? '' : isRollback === true ? `, back to ${instead}` : ` to ${instead}`;
  const next = isRollback === true ? '. For its steps: agent log' : '';
  return `${attemptOf(outcome)} ${end}${back}: ${reason}${next}`;
}

function describeStaged(outcome: Extract<OperationOutcome, { kind: 'reboot-required' | 'rebooting' }>): string {
  return `${attemptOf(outcome)} is staged in slot ${outcome.slot}`;
}

function describeReboot(outcome: Extract<OperationOutcome, { kind: 'rebooting' }>): Message {
  const { slot, reason, goesBack, isRollback, instead } = outcome;
  if (goesBack !== true) {
    const text = `${describeStaged(outcome)}; the gateway is rebooting into it. Afterwards: agent status`;
    return { tone: 'strong', text };
  }
  const end = isRollback === true ? 'is undone' : 'is rolled back';
  const back = instead === undefined ? `slot ${slot}` : `${instead} in slot ${slot}`;
  const text = `${attemptOf(outcome)} ${end} (${reason ?? 'unknown reason'}): the gateway is rebooting into ${back}. Afterwards: agent status`;
  return { tone: 'attention', text };
}
