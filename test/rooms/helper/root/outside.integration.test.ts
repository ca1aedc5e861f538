import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { outside } from '../../../../src/helper/root/outside.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { LinuxMachine } from '../../../../src/system/processes/machine.ts';
import { probeSynchronization } from '../../../../src/telemetry/clock/clock.ts';
import { agentProgram } from '../../../stand-ins/machine/built-agent.ts';

const script = resolve(import.meta.dirname, '../../../../systemd/two-processes/ask-machine');
const never = new AbortController().signal;
const options = { timeoutMs: 20_000 };
/** Says how it was called, where the words of the script are, and ends with 3. */
const PROGRAM = `#!/bin/sh
echo "\${0##*/} $*" >>"\${0%/*}/calls"
echo "block inhibited by a test"
echo "more of it"
echo "block inhibited by a test" >&2
exit 3
`;

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'outside-'));
  path = join(folder, 'machine.sock');
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function calls(): Promise<readonly string[]> {
  const file = join(folder, 'calls');
  return existsSync(file) ? (await readFile(file, 'utf8')).trimEnd().split('\n') : [];
}

describe('the program behind the socket', () => {
  let listener: ChildProcess;

  /** The real script, with stand-ins for systemd's programs and for this project's. */
  async function listen(silenceSeconds: number, commandSeconds = 100): Promise<void> {
    for (const name of ['systemctl', 'timedatectl', 'agent', 'trial-guard']) {
      await writeFile(join(folder, name), PROGRAM);
      await chmod(join(folder, name), 0o755);
    }
    const text = (await readFile(script, 'utf8'))
      .replace('\nPATH=', `\nPATH=${folder}:`)
      .replaceAll('/usr/lib/thing-agent/', `${folder}/`)
      .replace('timeout 10 ', `timeout ${silenceSeconds} `)
      .replace('=5 100 ', `=5 ${commandSeconds} `);
    await writeFile(join(folder, 'ask'), text);
    const args = ['--accept', '--inetd', `--listen=${path}`, '/bin/sh', join(folder, 'ask')];
    listener = spawn('systemd-socket-activate', args, { stdio: 'ignore' });
    // its name is there before anybody may connect: 00010000 is __SO_ACCEPTCON (proc_net_unix)
    const listens = (line: string): boolean => line.includes(' 00010000 ') && line.endsWith(path);
    const isOpen = (): boolean => readFileSync('/proc/net/unix', 'utf8').split('\n').some(listens);
    await expect.poll(isOpen, { timeout: 20_000 }).toBe(true);
  }
  afterEach(async () => {
    const ended = once(listener, 'exit');
    listener.kill('SIGKILL');
    await ended;
  });

  /** What it answers to these bytes, until it hangs up. */
  async function answer(...parts: readonly string[]): Promise<string> {
    const socket = connect(path);
    let said = '';
    socket.setEncoding('utf8').on('data', (text: string) => (said += text));
    socket.on('error', () => {}); // it may hang up before all is written
    const ended = new Promise((resolve) => socket.once('close', resolve));
    for (const part of parts) socket.write(part);
    await ended;
    return said;
  }

  test('reboots for the helper, which is told why that failed, as where it asks by itself', async () => {
    await listen(60);
    const asked = outside(path);
    const plain = new LinuxMachine({ rebootCommand: ['systemctl', 'reboot'], startReboot: asked.startReboot });
    const message = 'systemctl reboot: exit code 3, block inhibited by a test';
    await expect(plain.reboot(undefined, never)).rejects.toMatchObject({ code: 'reboot-failed', message });
    await expect(plain.reboot('0 tryboot', never)).rejects.toMatchObject({ code: 'reboot-failed' });
    const own = new LinuxMachine({ rebootCommand: ['restart', '--now'], startReboot: asked.startReboot });
    const theirs = 'restart --now 0 tryboot: exit code 3, block inhibited by a test';
    await expect(own.reboot('0 tryboot', never)).rejects.toMatchObject({ message: theirs });
    await expect(own.reboot(undefined, never)).rejects.toMatchObject({ code: 'reboot-failed' });
    expect(await calls()).toEqual(
      [
        'systemctl reboot',
        'systemctl reboot --reboot-argument=0 tryboot',
        'agent --reboot 0 tryboot',
        'agent --reboot ',
      ].map((line) => line.trimEnd()),
    );
  });

  test('knows each question of the safety net’s and of the clock’s', async () => {
    await listen(60);
    const { run } = outside(path);
    await probeSynchronization(join(folder, 'none'), run)(never);
    expect(await calls()).toEqual(['timedatectl show --property=NTPSynchronized --value']);
    for (const command of [
      ['systemctl', 'is-active', 'thing-agent-trial.timer'],
      ['/usr/lib/thing-agent/trial-guard', '--look'],
      ['systemctl', 'start', 'thing-agent-trial.service'],
      ['systemctl', 'show', '--property=Result,ExecMainStatus', 'thing-agent-trial.service'],
    ] as const)
      expect(await run(command, options, never)).toMatchObject({
        exitCode: 3,
        stdout: 'block inhibited by a test\nmore of it',
      });
    expect((await calls()).slice(-4)).toEqual([
      'systemctl is-active thing-agent-trial.timer',
      'trial-guard --look',
      'systemctl start thing-agent-trial.service',
      'systemctl show --property=Result,ExecMainStatus thing-agent-trial.service',
    ]);
  });

  test.each([
    ['an empty line', '\n'],
    ['another command', 'poweroff\n'],
    ['an argument of its own', 'reboot --force\n'],
    ['another argument for the bootloader', 'reboot 1 tryboot\n'],
    ['a word and more', 'reboot; touch /tmp/x\n'],
    ['two lines', 'reboot\nreboot\n'],
    ['a word with a space behind it', 'reboot \n'],
    ['a pattern', 'reboo*\n'],
    ['an expansion', '$(systemctl)\n'],
    ['no end of the line', 'reboot'],
    ['a longer line than any word', `reboot${' '.repeat(100)}\n`],
    ['a megabyte', 'reboot\n'.repeat(150_000)],
  ])('refuses %s, and runs nothing', async (_what, line) => {
    await listen(60);
    expect(await answer(line)).toMatch(/^(64 \n)?$/);
    expect(await calls()).toEqual([]);
  });

  test('waits for nobody who is silent', async () => {
    await listen(1);
    expect(await answer()).toBe('64 \n');
    expect(await calls()).toEqual([]);
  });

  // Its unit ends nothing but the script.
  test('leaves nothing behind of a program that does not end', async () => {
    await listen(60, 1);
    await writeFile(join(folder, 'systemctl'), `#!/bin/sh\necho $$ >${folder}/pid\nexec sleep 600\n`);
    expect(await answer('reboot\n')).toBe('124 \n');
    expect(existsSync(`/proc/${(await readFile(join(folder, 'pid'), 'utf8')).trim()}`)).toBe(false);
  });

  test('answers beside others who are silent', async () => {
    await listen(60);
    const silent = Array.from({ length: 3 }, () => connect(path));
    await Promise.all(silent.map(async (socket) => once(socket, 'connect')));
    expect(await answer('reboot\n')).toBe('3 block inhibited by a test\n');
    for (const socket of silent) socket.destroy();
  });
});

test.each([
  [['0 tryboot'], 'restarts --with=0 tryboot\n'],
  [[], 'restarts\n'],
])('for a reboot_command of the integrator’s own it is the program that runs it, with %j', async (args, said) => {
  const config = join(folder, 'config.toml');
  const command = ['sh', '-c', 'echo "$0${1:+ $1}" >&2; exit 4', 'restarts', '--with={argument}'];
  await writeFile(
    config,
    `service.url = "http://127.0.0.1:9"\ndevice.device_type = "gateway"\nsystem.reboot_command = ${JSON.stringify(command)}\n`,
    {
      mode: 0o600,
    },
  );
  const env = { THING_AGENT_CONFIG: config };
  const reboot = [agentProgram(), '--reboot', ...args] as const;
  const ended = await runProgram(reboot, { timeoutMs: 60_000, env }, never);
  expect(ended).toEqual({ exitCode: 4, stdout: '', stderr: said });
});

describe('the helper', () => {
  let server: Server;
  afterEach(() => {
    server.close();
  });

  async function answered(respond: (socket: Socket) => void): Promise<unknown> {
    server = createServer((socket) => {
      socket.on('error', () => {}); // it is hung up on
      socket.once('data', () => respond(socket));
    }).listen(path);
    await once(server, 'listening');
    const { run } = outside(path);
    return run(['timedatectl', 'show', '--property=NTPSynchronized', '--value'], { timeoutMs: 500 }, never);
  }

  test.each([
    ['nothing', ''],
    ['half of an answer', '0 ye'],
    ['no answer', 'yes\n'],
    ['more than an answer', `0 ${'y'.repeat(100_000)}\n`],
  ])('takes %s for no answer', async (_what, text) => {
    await expect(answered((socket) => socket.end(text))).rejects.toMatchObject({ code: 'program-missing' });
  });

  test('waits for no answer longer than for the program', async () => {
    await expect(answered(() => {})).rejects.toMatchObject({ code: 'program-timeout' });
  });

  test('has no word for any other program', async () => {
    server = createServer().listen(path);
    await expect(outside(path).run(['systemctl', 'poweroff'], options, never)).rejects.toThrow('no word for');
  });

  test('runs the program by itself where nobody has made a socket, as one that a person started', async () => {
    server = createServer();
    const machine = new LinuxMachine({
      rebootCommand: ['sh', '-c', 'echo by itself >&2; exit 5'],
      startReboot: outside(path).startReboot,
    });
    await expect(machine.reboot(undefined, never)).rejects.toThrow('exit code 5, by itself');
  });
});
