import { MAX_HOLD_DAYS, MAX_HOLD_MS } from '../../control/api/hold-limit.ts';
import type { InstallFlags } from '../../control/operations.ts';
import { describeHold, sentence } from '../../control/presentation/headline.ts';
import { printable } from '../../system/log/printable.ts';
import { parseDuration } from '../../system/time/duration.ts';
import { ArgumentError, commandsOf, throughDaemon } from '../arguments/command.ts';
import type { ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { CliError } from '../errors.ts';
import { renderParagraph } from '../screen/layout.ts';
import { follow } from './follow.ts';
import { wholePath } from './named-file.ts';
import { singleParagraph, printResult } from './print.ts';
import { withAgent, withReadOnlyAgent } from './with-agent.ts';

export const updateCommands = commandsOf('Update', [
  {
    name: '--update-now',
    options: ['no-reboot', 'force'],
    summary: 'check for an update and install it now',
    details: [
      'Queries the service for the assigned version, installs it, and reboots into it if needed.',
      'Does not wait for [update] reboot_window. With --force, ignores windows, metered connections, agent hold, quarantine, ' +
        'exhausted attempts, manually installed files and hooks, this time only. Signatures are always checked.',
      `${throughDaemon} If an update is already running, shows its progress. Ctrl-C does not stop an update in the daemon.`,
      'If the update replaces the package of the agent itself, waits up to one hour for the new agent and prints the result.',
    ],
    run: async (typed, context) => follow({ name: 'update', input: installFlags(typed) }, typed, context),
  },
  {
    name: 'install',
    operands: ['FILE'],
    options: ['no-reboot', 'force', 'allow-downgrade'],
    summary: 'install a file as an update, with the same checks',
    details: ['FILE is an artifact or an image, for example on a USB stick. It must not be encoded.', throughDaemon],
    run: install,
  },
  {
    name: 'commit',
    summary: 'commit the trial without waiting',
    details: [
      'Skips the remaining health checks, also if the daemon is running them. Flashes the boards of the update first.',
      throughDaemon,
    ],
    run: async (typed, context) => follow({ name: 'commit', input: {} }, typed, context),
  },
  {
    name: 'rollback',
    options: ['no-reboot', 'force', 'yes'],
    meanings: {
      force: 'roll back even to a revoked release, and leave boards that cannot be restored',
      yes: 'do not ask for confirmation',
    },
    summary: 'roll back to the previous version, or end a trial',
    details: [
      'On a terminal, asks for confirmation, since the gateway reboots.',
      'Rolls back the boards together with the gateway. If a board cannot, nothing is rolled back, unless you use --force.',
      throughDaemon,
    ],
    run: rollback,
  },
  {
    name: 'cancel',
    summary: 'cancel a download or a pending reboot',
    details: [
      'A cancelled update does not restart automatically; to restart it, run agent --update-now. To end a running trial, run agent rollback or agent commit.',
      'Runs in the daemon, if there is one. Without a daemon, press Ctrl-C in the terminal that runs the download.',
    ],
    run: async (typed, context) => follow({ name: 'cancel', input: {} }, typed, context),
  },
  {
    name: 'reboot',
    summary: 'reboot, into the staged update if there is one',
    details: [
      'If a trial is running, its health checks run again after the reboot. Refused while an update is being written.',
      'Boots a staged update now, without waiting for [update] reboot_window. The hook [hooks] before_reboot is called and can prevent the reboot.',
    ],
    run: reboot,
  },
  {
    name: 'hold',
    operands: ['[DURATION]'],
    options: ['reason'],
    summary: 'pause updates, for example for 4h or 2d, or until agent resume',
    details: [
      'During the hold, the agent checks for updates, but installs only trust lists. A running download pauses, and resumes after the hold. A running trial is not affected. agent rollback is always possible.',
      'An update you staged with --no-reboot still starts at the next reboot; to prevent that, run agent cancel.',
      'The hold survives restarts and updates, and agent status shows it. To install anyway, use --force with --update-now or install.',
      throughDaemon,
    ],
    run: hold,
  },
  {
    name: 'resume',
    summary: 'resume updates after agent hold',
    details: [
      'The next check installs the assigned version. To install it now, run agent --update-now.',
      throughDaemon,
    ],
    run: resume,
  },
  {
    name: 'unblock',
    operands: ['VERSION'],
    summary: 'allow a failed version to be installed again',
    details: [
      'VERSION is a name, an id, or the start of a digest, as agent status lists it under Quarantine.',
      'Installs nothing. The next check may install the version; to install it now, run agent --update-now.',
      'The exit code is 77 if no such version is blocked.',
      throughDaemon,
    ],
    run: unblock,
  },
]);

async function install(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { operands, flags } = typed;
  const [file = ''] = operands;
  const path = wholePath(file, context);
  await using opened = await context.openFile(path);
  const allowed = flags.has('allow-downgrade') ? { allowDowngrade: true } : {};
  const input = { ...installFlags(typed), ...allowed, path, file: opened };
  return await follow({ name: 'install', input }, typed, context, opened);
}

async function rollback(typed: ParsedCommand, context: CliContext): Promise<number> {
  if (context.isInteractive && !typed.json && !typed.flags.has('yes')) await confirmRollback(context);
  return follow({ name: 'rollback', input: installFlags(typed) }, typed, context);
}

/** Throws if you do not confirm the rollback. */
async function confirmRollback(context: CliContext): Promise<void> {
  const status = await withReadOnlyAgent(context, (agent) => agent.status({}, context.signal));
  const what =
    status.phase === 'trial'
      ? `End the trial of ${status.running?.version ?? 'the running version'}`
      : `Roll back to ${status.previous?.versionName ?? 'the previous version'}`;
  using person = context.person();
  const answer = await person.ask(`${printable(what)}? The gateway may reboot. [y/N]`, context.signal);
  if (!/^y(es)?$/i.test(answer ?? '')) throw new CliError('not-confirmed', 'nothing was changed');
}

async function reboot(typed: ParsedCommand, context: CliContext): Promise<number> {
  await withAgent(context, (agent) => agent.reboot({}, context.signal));
  return printResult({ rebooting: true }, singleParagraph('The gateway is rebooting.'), typed, context);
}

async function unblock(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [version = ''] = typed.operands;
  const { versions } = await withAgent(context, (agent) => agent.unblock({ version }, context.signal));
  const text = `${versions.join(', ')} can be installed again: agent --update-now`;
  return printResult({ unblocked: versions }, singleParagraph(text), typed, context);
}

async function hold(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [duration] = typed.operands;
  const durationMs = duration === undefined ? undefined : parseDuration(duration);
  if (duration !== undefined && (durationMs === undefined || durationMs === 0)) {
    throw new ArgumentError(`${duration} is not a duration such as 30m, 4h or 2d`);
  }
  if (durationMs !== undefined && durationMs > MAX_HOLD_MS) {
    throw new ArgumentError(
      `${duration} is too long: at most ${MAX_HOLD_DAYS}d, or no duration to hold until agent resume`,
    );
  }
  const reason = typed.values.get('reason');
  const order = { ...(durationMs !== undefined && { durationMs }), ...(reason !== undefined && { reason }) };
  const held = await withAgent(context, (agent) => agent.hold(order, context.signal));
  return printResult(held, (page) => renderParagraph(sentence(describeHold(held, page)), page), typed, context);
}

async function resume(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { wasHeld } = await withAgent(context, (agent) => agent.resume({}, context.signal));
  const text = wasHeld
    ? 'Updates resume at the next check. To check now: agent --update-now'
    : 'Updates were not on hold.';
  return printResult({ wasHeld }, singleParagraph(text), typed, context);
}

function installFlags({ flags }: ParsedCommand): InstallFlags {
  return { reboot: !flags.has('no-reboot'), force: flags.has('force') };
}
