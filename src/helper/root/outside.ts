import { access } from 'node:fs/promises';
import { connect } from 'node:net';
import type { Socket } from 'node:net';

import { describeError, systemErrorCode } from '../../system/errors.ts';
import { ProgramError, runProgram } from '../../system/processes/child-process.ts';
import type { ProgramResult, RunProgram } from '../../system/processes/child-process.ts';
import type { StartReboot } from '../../system/processes/machine.ts';
import { occurrence } from '../../system/socket.ts';
import { Deadline } from '../../system/time/deadline.ts';

/** What the helper has systemd asked for outside of its sandbox: command → word of systemd/two-processes/ask-machine. */
const words: Readonly<Record<string, string>> = {
  'systemctl reboot': 'reboot',
  'systemctl reboot --reboot-argument=0 tryboot': 'reboot 0 tryboot',
  'timedatectl show --property=NTPSynchronized --value': 'clock',
  'systemctl is-active thing-agent-trial.timer': 'net-timer',
  '/usr/lib/thing-agent/trial-guard --look': 'net-look',
  'systemctl start thing-agent-trial.service': 'net-start',
  'systemctl show --property=Result,ExecMainStatus thing-agent-trial.service': 'net-end',
};
/** A `reboot_command` of the integrator's own, as root's configuration says it. */
const OWN_REBOOT = 'own-reboot';
const MAX_ANSWER = 8_192;

/** Beside the socket of the helper, where thing-helper-machine.socket listens. */
export const MACHINE_SOCKET = 'machine.sock';

/** Promise `helper`: what is run outside of the helper's sandbox, whose processes reach no socket of PID 1. */
export interface Outside {
  readonly run: RunProgram;
  readonly startReboot: StartReboot;
}

/** A helper that a person started, in no unit, finds no socket at this path, and runs programs by itself. */
export function outside(path: string): Outside {
  const ask = async (word: string, ...asked: Parameters<RunProgram>): Promise<ProgramResult> =>
    (await isThere(path)) ? askOn(path, word, asked) : runProgram(...asked);
  return {
    run: async (command, ...rest) => {
      const word = words[command.join(' ')];
      if (word === undefined) throw new Error(`there is no word for ${command.join(' ')}`);
      return ask(word, command, ...rest);
    },
    startReboot: async (argument, command, ...rest) =>
      ask(words[command.join(' ')] ?? [OWN_REBOOT, argument ?? []].flat().join(' '), command, ...rest),
  };
}

async function isThere(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

async function askOn(path: string, word: string, asked: Parameters<RunProgram>): Promise<ProgramResult> {
  const [command, { timeoutMs }, signal] = asked;
  const named = command.join(' ');
  const late = (): Error =>
    new ProgramError('program-timeout', named, `no end within ${timeoutMs} ms, asked on ${path}`);
  using deadline = new Deadline(timeoutMs, late, signal);
  const socket = connect({ path });
  try {
    const answer = await answerTo(socket, word, deadline.signal);
    const [, code, said = ''] = /^(\d{1,3}) (.*)\n$/.exec(answer) ?? [];
    if (code === undefined) throw new Error('it hung up');
    const text = said.replaceAll('\t', '\n');
    return { exitCode: Number(code), stdout: text, stderr: text };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ProgramError) throw error;
    throw new ProgramError('program-missing', named, `asked on ${path}: ${describeError(error)}`, error);
  } finally {
    socket.destroy();
  }
}

async function answerTo(socket: Socket, word: string, signal: AbortSignal): Promise<string> {
  await occurrence(socket, 'connect', signal);
  let answer = '';
  socket.setEncoding('utf8').on('data', (text: string) => (answer = `${answer}${text}`.slice(0, MAX_ANSWER)));
  socket.write(`${word}\n`);
  await occurrence(socket, 'end', signal);
  return answer;
}
