import { execFileSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { TelemetryStatus } from '../../../src/control/telemetry-protocol.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import { artifact, image, releaseKey } from '../../fakes/machine/demo-firmware.ts';
import { FileGateway, stop } from '../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import type { Attack } from './attack.ts';
import { Onlooker } from './onlooker.ts';

/** SIGTERM that takes longer has failed; on a machine that does something else, too. */
const PATIENCE_MS = 30_000;
const LONGEST_ATTACK_MS = 60_000;

/** Result of an attack. */
export interface Verdict {
  readonly slowestStatusMs: number;
  /** The same, corrected for other load on the machine. */
  readonly slowestCalmStatusMs: number;
  readonly rssMiB: number;
  /** The problem, unless the daemon responds, updates, and ends in order. */
  readonly failure: string | undefined;
}

interface Parts {
  readonly stack: AsyncDisposableStack;
  readonly service: StandIn;
  readonly gateway: FileGateway;
  readonly attack: Attack;
  readonly daemon: ChildProcess;
  readonly onlooker: Onlooker;
}

/** The real program, with sensors that do their worst; the service has an update. */
export class HostileGateway implements AsyncDisposable {
  readonly #parts: Parts;
  #slowestMs = 0;
  #slowestCalmMs = 0;
  #rssMiB = 0;

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  static async start(attack: Attack): Promise<HostileGateway> {
    await using stack = new AsyncDisposableStack();
    const service = stack.use(await startService());
    const place = execFileSync('mktemp', ['-d', '/tmp/hostile-XXXXXX'], { encoding: 'utf8' }).trim();
    stack.defer(() => void execFileSync('rm', ['-rf', place]));
    const { toml, world } = await attack.prepare(place);
    if (world !== undefined) stack.use(world);
    const options = { serviceUrl: service.url, image: image('healthy 0'), slotBytes: 2_000_000, extraToml: toml };
    const gateway = stack.use(await FileGateway.create({ ...options, trustedKey: releaseKey.publicPem }));
    service.fail({ operation: 'any', fault: { kind: 'status', status: 503 }, times: 'always' });
    const daemon = await gateway.startDaemon();
    const onlooker = stack.use(new Onlooker());
    return new HostileGateway({ stack: stack.move(), service, gateway, attack, daemon, onlooker });
  }

  /** Asks `status` until the attack has shown itself, then asks for all that a daemon owes. */
  async verdict(): Promise<Verdict> {
    const failure = await this.#failure();
    const slowest = {
      slowestStatusMs: Math.round(this.#slowestMs),
      slowestCalmStatusMs: Math.round(this.#slowestCalmMs),
    };
    return { failure, ...slowest, rssMiB: Math.round(this.#rssMiB) };
  }

  async #failure(): Promise<string | undefined> {
    const { attack, gateway, service, daemon } = this.#parts;
    try {
      await attack.act?.(this.#socket);
      await this.#untilSeen();
      service.clearFaults();
      const { exitCode, stderr } = await gateway.run('--update-now');
      if (exitCode !== 0 || !gateway.rebootRequested) return `no update (${exitCode}): ${stderr}`;
      await this.#look();
    } catch (error) {
      return String(error);
    }
    const code = await Promise.race([stop(daemon), systemClock.sleep(PATIENCE_MS, forever).then(() => 'deaf')]);
    return code === 0 ? undefined : `SIGTERM: ${code}`;
  }

  async #untilSeen(): Promise<void> {
    const deadline = AbortSignal.timeout(LONGEST_ATTACK_MS);
    for (let seen = false; !seen;) {
      seen = this.#parts.attack.isSeen(await this.#look());
      if (!seen) await systemClock.sleep(200, deadline);
    }
  }

  async #look(): Promise<TelemetryStatus> {
    const { onlooker, gateway, daemon } = this.#parts;
    const { telemetry, statusMs, calmStatusMs } = await onlooker.look(join(gateway.directory, 'run'));
    this.#slowestMs = Math.max(this.#slowestMs, statusMs);
    this.#slowestCalmMs = Math.max(this.#slowestCalmMs, calmStatusMs);
    this.#rssMiB = Math.max(this.#rssMiB, peakRssMiB(daemon.pid));
    return telemetry;
  }

  get #socket(): string {
    return join(this.#parts.gateway.directory, 'run/root.sock');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.stack.disposeAsync();
  }
}

const forever = new AbortController().signal;

async function startService(): Promise<StandIn> {
  const firmware = bufferContent(await artifact('one', image('healthy 1')));
  return startStandIn({ versions: [{ id: 'one', firmware }] });
}

/** VmHWM of proc(5), /proc/pid/status. */
function peakRssMiB(pid: number | undefined): number {
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}
