import { describeError } from '../errors.ts';
import type { Log } from '../log/log.ts';
import { unprintable } from '../log/printable.ts';
import { SystemError } from '../system-errors.ts';
import { runProgram } from './child-process.ts';
import type { Environment } from './environment.ts';

/**
 * Notifications to the service manager (sd_notify(3)). Every call returns immediately, without waiting for the
 * delivery.
 */
export interface ServiceManager extends AsyncDisposable {
  /** `watchdog` must be called at least this often. Omitted without a watchdog. */
  readonly watchdogMs: number | undefined;
  /** The daemon has started, or has reloaded. */
  ready(): void;
  reloading(): void;
  stopping(): void;
  /** One line for people: what the daemon does. */
  status(text: string): void;
  /** The daemon is alive and makes progress. */
  watchdog(): void;
}

/** Sends assignments such as `READY=1` in one message. */
export type SendToManager = (assignments: readonly string[]) => Promise<void>;

const SEND_TIMEOUT_MS = 10_000;
const MAX_STATUS_LENGTH = 200;
const never = new AbortController().signal;

/**
 * Connects to the service manager that started this process. The messages are sent by systemd-notify(1), since Node has
 * no Unix datagram sockets (`net.connect` ends with EPROTOTYPE, `open` with ENXIO, and `dgram` knows only UDP). That program waits until the manager has read the message, so that it is attributed to the
 * unit; an agent without CAP_SYS_ADMIN needs `NotifyAccess=all`, since the message then carries the program's process
 * id.
 *
 * Without `$NOTIFY_SOCKET` nothing is sent.
 */
export function connectServiceManager(
  environment: Environment,
  log: Log,
  send: SendToManager = sendByProgram(environment),
): ServiceManager {
  const told = (environment['NOTIFY_SOCKET'] ?? '') === '' ? undefined : new Notifier(send, log);
  return {
    watchdogMs: told === undefined ? undefined : watchdogMs(environment, process.pid),
    ready: () => told?.tell('lifecycle', ['READY=1']),
    reloading: () => told?.tell('lifecycle', ['RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`]),
    stopping: () => told?.tell('lifecycle', ['STOPPING=1']),
    status: (text) => told?.tell('status', [`STATUS=${oneLine(text)}`]),
    watchdog: () => told?.tell('watchdog', ['WATCHDOG=1']),
    [Symbol.asyncDispose]: async () => told?.finish(),
  };
}

/**
 * Returns the watchdog's time as in sd_watchdog_enabled(3), or undefined if none is set or it is meant for another
 * process.
 */
export function watchdogMs(environment: Environment, pid: number): number | undefined {
  const { WATCHDOG_USEC: usec = '', WATCHDOG_PID: watched = '' } = environment;
  if (!/^[1-9]\d{0,17}$/.test(usec) || (watched !== '' && watched !== String(pid))) return undefined;
  return Math.floor(Number(usec) / 1000);
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll(unprintable, ' ').trim().slice(0, MAX_STATUS_LENGTH);
}

function sendByProgram({ NOTIFY_SOCKET = '' }: Environment): SendToManager {
  const options = { timeoutMs: SEND_TIMEOUT_MS, env: { NOTIFY_SOCKET } };
  return async (assignments) => {
    const result = await runProgram(['systemd-notify', ...assignments], options, never);
    if (result.exitCode === 0) return;
    throw new SystemError('notify-failed', `systemd-notify: ${describeError(result.stderr.trim())}`);
  };
}

type Subject = 'lifecycle' | 'status' | 'watchdog';

/** Sends one message at a time. Keeps only the newest unsent message on each subject for the next one. */
class Notifier {
  readonly #send: SendToManager;
  readonly #log: Log;
  #waiting = new Map<Subject, readonly string[]>();
  #sending: Promise<void> | undefined;
  #failing = false;

  constructor(send: SendToManager, log: Log) {
    this.#send = send;
    this.#log = log;
  }

  tell(subject: Subject, assignments: readonly string[]): void {
    this.#waiting.set(subject, assignments);
    this.#sending ??= this.#sendWaiting();
  }

  async finish(): Promise<void> {
    await this.#sending;
  }

  async #sendWaiting(): Promise<void> {
    try {
      do {
        const message = this.#waiting;
        this.#waiting = new Map();
        await this.#sendOne(message);
      } while (this.#waiting.size > 0 && !this.#failing);
    } finally {
      this.#sending = undefined;
    }
  }

  async #sendOne(message: ReadonlyMap<Subject, readonly string[]>): Promise<void> {
    try {
      await this.#send([...message.values()].flat());
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) this.#log.warn({ error: describeError(error) }, "cannot notify systemd of the agent's state");
      this.#failing = true;
      this.#waiting = new Map([...message, ...this.#waiting]);
    }
  }
}
