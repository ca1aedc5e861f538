import { MAX_HOLD_DAYS, MAX_HOLD_MS } from '../../control/api/hold-limit.ts';
import type { InstallFlags } from '../../control/operations.ts';
import { describeHold } from '../../control/presentation/headline.ts';
import { parseDuration } from '../../system/time/duration.ts';
import { ArgumentError, throughDaemon } from '../arguments/command.ts';
import type { Command, ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { renderParagraph } from '../screen/layout.ts';
import { follow } from './follow.ts';
import { wholePath } from './named-file.ts';
import { singleParagraph, printResult } from './print.ts';
import { withAgent } from './with-agent.ts';

export const updateCommands: readonly Command[] = [
  {
    name: '--update-now',
    operands: [],
    options: ['no-reboot', 'force'],
    group: 'Update',
    summary: 'check, install and report now',
    details: [
      'Asks the service which version this gateway should run, installs it, and reboots into it where that is needed.',
      'Does not wait for [update] reboot_window. With --force nothing that holds a version back counts, this once: windows, metered links, ' +
        'agent hold, quarantine, attempts that are used up, a file that a person installed, hooks. Whom the gateway trusts always counts.',
      `${throughDaemon} If an update is under way already, its progress is shown. Ctrl-C leaves a daemon's update running.`,
      'Where the agent itself is exchanged as a package, the new one is waited for, an hour at most, and says how the update ended.',
    ],
    run: updateNow,
  },
  {
    name: 'install',
    operands: ['FILE'],
    options: ['no-reboot', 'force', 'allow-downgrade'],
    group: 'Update',
    summary: 'install a file, under the same rules',
    details: ['FILE is an artifact or an image itself, not encoded, as on a USB stick.', throughDaemon],
    run: install,
  },
  {
    name: 'commit',
    operands: [],
    options: [],
    group: 'Update',
    summary: 'keep the firmware on trial without waiting',
    details: [
      'The health gate is not waited for, and a daemon that waits for it gives way; boards of the update are flashed first.',
      throughDaemon,
    ],
    run: commit,
  },
  {
    name: 'rollback',
    operands: [],
    options: ['no-reboot', 'force'],
    meanings: { force: 'without boards that cannot; also to what was revoked' },
    group: 'Update',
    summary: 'end a trial, or go back to what was before',
    details: ['Boards go back with the gateway; where one cannot, nothing goes back, but with --force.', throughDaemon],
    run: rollback,
  },
  {
    name: 'cancel',
    operands: [],
    options: [],
    group: 'Update',
    summary: 'end a download, or a wait for a reboot',
    details: [
      'What is cancelled is not begun again by itself: agent --update-now does that. A trial that runs already is ended by agent rollback, or kept by agent commit.',
      'Through the daemon, if one runs. A download in another terminal is ended there, with Ctrl-C.',
    ],
    run: cancel,
  },
  {
    name: 'reboot',
    operands: [],
    options: [],
    group: 'Update',
    summary: 'reboot, into the staged firmware if any',
    details: [
      'A trial that is being judged is judged after the boot, if it runs then. Refused while a firmware is being written.',
      'What waits for [update] reboot_window is read, armed and booted now; [hooks] before_reboot is asked, and where it does not consent nothing reboots.',
    ],
    run: reboot,
  },
  {
    name: 'hold',
    operands: ['[DURATION]'],
    options: ['reason'],
    group: 'Update',
    summary: 'install nothing, for 4h, 2d, or until resume',
    details: [
      'A look or a download under way ends, and goes on afterwards; a trial that runs is judged all the same. agent rollback is always possible.',
      'What a person staged with --no-reboot is armed, and any reboot starts it all the same: agent cancel ends that.',
      'It lasts across restarts and updates, and agent status shows it. --force of --update-now and install goes through for that order.',
      throughDaemon,
    ],
    run: hold,
  },
  {
    name: 'resume',
    operands: [],
    options: [],
    group: 'Update',
    summary: 'lift what agent hold did',
    details: ['The next look installs what the service names, or agent --update-now.', throughDaemon],
    run: resume,
  },
  {
    name: 'unblock',
    operands: ['VERSION'],
    options: [],
    group: 'Update',
    summary: 'let a version be tried again that ended badly',
    details: [
      'VERSION is a name, an id, or the begin of a digest, as agent status lists it under Quarantine.',
      'Nothing is installed by this: the next look may do it, or agent --update-now.',
      'Where no such version is held back (any more), nothing is changed, and the exit code is 77.',
      throughDaemon,
    ],
    run: forget,
  },
];

async function updateNow(typed: ParsedCommand, context: CliContext): Promise<number> {
  return follow(
    { begin: (agent, onEvent) => agent.update(installFlags(typed), onEvent, context.signal) },
    typed,
    context,
  );
}

async function install(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { operands, flags } = typed;
  const [file = ''] = operands;
  const path = wholePath(file, context);
  await using opened = await context.openFile(path);
  const input = {
    ...installFlags(typed),
    path,
    file: opened,
    ...(flags.has('allow-downgrade') && { allowDowngrade: true as const }),
  };
  return await follow(
    { begin: (agent, onEvent) => agent.install(input, onEvent, context.signal), file: opened },
    typed,
    context,
  );
}

async function commit(typed: ParsedCommand, context: CliContext): Promise<number> {
  return follow({ begin: (agent, onEvent) => agent.commit({}, onEvent, context.signal) }, typed, context);
}

async function rollback(typed: ParsedCommand, context: CliContext): Promise<number> {
  return follow(
    { begin: (agent, onEvent) => agent.rollback(installFlags(typed), onEvent, context.signal), isRollback: true },
    typed,
    context,
  );
}

async function cancel(typed: ParsedCommand, context: CliContext): Promise<number> {
  return follow({ begin: (agent, onEvent) => agent.cancel({}, onEvent, context.signal) }, typed, context);
}

async function reboot(typed: ParsedCommand, context: CliContext): Promise<number> {
  await withAgent(context, (agent) => agent.reboot({}, context.signal));
  return printResult({ rebooting: true }, singleParagraph('The gateway reboots now.'), typed, context);
}

async function forget(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [version = ''] = typed.operands;
  const { versions } = await withAgent(context, (agent) => agent.unblock({ version }, context.signal));
  const text = `${versions.join(', ')} may be tried again: agent --update-now`;
  return printResult({ unblocked: versions }, singleParagraph(text), typed, context);
}

async function hold(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [duration] = typed.operands;
  const durationMs = duration === undefined ? undefined : parseDuration(duration);
  if (duration !== undefined && (durationMs === undefined || durationMs === 0)) {
    throw new ArgumentError(`${duration} is no duration such as 30m, 4h or 2d`);
  }
  if (durationMs !== undefined && durationMs > MAX_HOLD_MS) {
    throw new ArgumentError(
      `${duration} is too long: ${MAX_HOLD_DAYS}d at most, or no duration, which lasts until agent resume`,
    );
  }
  const reason = typed.values.get('reason');
  const order = { ...(durationMs !== undefined && { durationMs }), ...(reason !== undefined && { reason }) };
  const held = await withAgent(context, (agent) => agent.hold(order, context.signal));
  return printResult(held, (page) => renderParagraph(describeHold(held, page), page), typed, context);
}

async function resume(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { wasHeld } = await withAgent(context, (agent) => agent.resume({}, context.signal));
  const text = wasHeld ? 'Updates go on with the next look, or now: agent --update-now' : 'Nothing was held.';
  return printResult({ wasHeld }, singleParagraph(text), typed, context);
}

function installFlags({ flags }: ParsedCommand): InstallFlags {
  return { reboot: !flags.has('no-reboot'), force: flags.has('force') };
}
