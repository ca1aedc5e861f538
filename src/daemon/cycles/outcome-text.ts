import type { OperationOutcome } from '../../control/events.ts';
import { listOf } from '../../control/presentation/outcome.ts';

/** Returns the outcome of an operation for the log. */
export function outcomeText(outcome: OperationOutcome): string {
  switch (outcome.kind) {
    case 'up-to-date':
      return outcome.isRecovery === true ? 'no interrupted update' : `${outcome.version} is up to date`;
    case 'deferred':
      return `${outcome.version} is deferred: ${outcome.reason}`;
    case 'installed':
      return describeInstalled(outcome);
    case 'reboot-required':
      return `${outcome.version} is staged in slot ${outcome.slot} and waits for a reboot`;
    case 'rebooting':
      return describeReboot(outcome);
    case 'rolled-back':
      return `${outcome.version} was rolled back: ${outcome.reason}`;
    case 'cancelled':
      return `${outcome.version} was cancelled`;
    case 'nothing-to-cancel':
      return 'nothing to cancel';
    case 'flashed':
      return `${outcome.board} runs ${outcome.version}`;
  }
}

function describeInstalled({ version, trustList }: Extract<OperationOutcome, { kind: 'installed' }>): string {
  return trustList === undefined ? `${version} is installed` : `${listOf(trustList.number)} is in effect`;
}

function describeReboot({
  version,
  slot,
  goesBack,
  reason = 'unknown reason',
}: Extract<OperationOutcome, { kind: 'rebooting' }>): string {
  return goesBack === true
    ? `abandoning ${version} (${reason}): rebooting into slot ${slot}`
    : `rebooting into slot ${slot} with ${version}`;
}
