import { execFileSync } from 'node:child_process';
import { existsSync, openSync, readdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import process from 'node:process';

// Run in the place of the helper, in its unit: tries to get what that keeps from it. The argument is a file that names its aims; a file beside
// it has what it got.

interface Aims {
  readonly sockets: readonly string[];
  /** A process of root's without capabilities. */
  readonly victim: string;
}

const [, , path = ''] = process.argv;
const { sockets, victim } = JSON.parse(readFileSync(path, 'utf8')) as Aims;
const MANAGER = ['org.freedesktop.systemd1', '/org/freedesktop/systemd1', 'org.freedesktop.systemd1.Manager'];

const tries: Readonly<Record<string, () => unknown>> = {
  'systemd-run': () => program('systemd-run', '--wait', 'true'),
  'systemctl start': () => program('systemctl', 'start', 'thing-agent-trial.service'),
  'systemctl reboot': () => program('systemctl', 'reboot'),
  StartTransientUnit: () =>
    program('busctl', 'call', ...MANAGER, 'StartTransientUnit', 'ssa(sv)a(sa(sv))', 'x.service', 'fail', '0', '0'),
  mount: () => program('mount', '-t', 'tmpfs', 'none', '/mnt'),
  'a unit of its own': () => writeFileSync('/run/systemd/system/mine.service', ''),
  'a unit that stays': () => writeFileSync('/etc/systemd/system/mine.service', ''),
  'an argument for the next reboot': () => writeFileSync('/run/systemd/reboot-param', ''),
  'another device': () => unlinkSync('/dev/null'),
  'what root’s commands run': () => writeFileSync('/var/cache/thing-agent/mine', ''),
  'the terminals': () => readdirSync('/dev/pts'),
  'shared memory': () => readdirSync('/dev/shm'),
  'the files of PID 1': () => readdirSync('/proc/1/root/run'),
  'the files of a process with as few rights': () => readdirSync(`/proc/${victim}/root/run`),
  'its memory': () => openSync(`/proc/${victim}/mem`, 'r+'),
};

function program(name: string, ...args: readonly string[]): void {
  execFileSync(name, args, { timeout: 20_000, stdio: 'ignore' });
}

function isDone(name: string): boolean {
  try {
    tries[name]?.();
    return true;
  } catch (error) {
    if (error instanceof Error) return false;
    throw error;
  }
}

async function isReached(socket: string): Promise<boolean> {
  if (!socket.startsWith('@')) return existsSync(socket);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const line = connect(`\0${socket.slice(1)}`);
  line.once('connect', () => resolve(true)).once('error', () => resolve(false));
  return promise.finally(() => line.destroy());
}

const done = Object.keys(tries).filter(isDone);
const reached: string[] = [];
for (const socket of sockets) if (await isReached(socket)) reached.push(socket);
writeFileSync(`${path}.found`, JSON.stringify({ tried: Object.keys(tries).length, done, reached }));
