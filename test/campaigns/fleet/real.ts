import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

import { buildTree } from '../../../systemd/make/build.ts';
import { artifact, image, releaseKey } from '../../fakes/machine/demo-firmware.ts';
import { FileGateway, stop } from '../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { Authority } from '../../unit-and-integration/service/rest/certificates.ts';
import { memoryOf, workOf } from '../bench/process-facts.ts';
import { spreadOf } from '../bench/statistics.ts';

const MINUTE_MS = 60_000;
const QUIET_MINUTES = 2;
const DEADLINE_MS = 20 * MINUTE_MS;
const LOOK_MS = 200;
/** The version in the service's record of a new thing; then its targets in order. */
const [FACTORY, FIRST, SECOND] = ['0', '1', '2'];

export interface RealFigures {
  readonly things: number;
  /** From the first start until the last one was activated and had looked. */
  readonly upSeconds: number;
  /** Checks in each minute of the schedule alone: one per thing. */
  readonly looksPerMinute: readonly number[];
  readonly busiestSecond: number;
  readonly connections: number;
  readonly memory: { readonly pssMib: number; readonly privateMib: number; readonly descriptors: number };
  readonly cpuMsPerMinute: number;
  /** Seconds from the new version until the last thing runs and reports it. */
  readonly updatedSeconds: number;
  readonly calls: Readonly<Record<string, number>>;
}

/**
 * Runs this number of daemons on this machine over TLS, each with one check per minute: details that the simulation
 * omits.
 */
export async function playReal(things: number, tell: (line: string) => void): Promise<RealFigures> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'fleet-'));
  stack.defer(async () => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const program = join(folder, 'tree/agent');
  await buildTree({ out: join(folder, 'tree'), main: 'src/main.ts', arch: process.arch, node: process.execPath });
  process.env['CACHE_DIRECTORY'] = folder;
  const authority = stack.use(await Authority.create());
  const tls = await authority.issue('service', 'IP:127.0.0.1');
  const times: number[] = [];
  const onCall = ({ operation }: { readonly operation: string }): void => {
    if (operation === 'targetVersion') times.push(performance.now());
  };
  const ids = [FACTORY, FIRST, SECOND];
  const firmware = await Promise.all(ids.map(async (id) => artifact(id, image(`healthy ${id}`))));
  const versions = firmware.map((content, index) => ({ id: ids[index] ?? '', firmware: bufferContent(content) }));
  const world = { versions, currentVersionId: FACTORY, targetVersionId: FIRST, tls, onCall };
  const service = stack.use(await startStandIn(world));
  const options = { serviceUrl: service.url, program, caFile: authority.caFile };
  const fleet = stack.use(new Fleet());
  tell(`making ${things} gateways`);
  for (let index = 0; index < things; index += 1) await fleet.add(index, options);

  const startedMs = performance.now();
  tell('starting them, and updating them to the first version');
  fleet.start();
  await until(() => isOn(service, things, FIRST));
  const upSeconds = secondsSince(startedMs);
  tell(`all up and updated after ${upSeconds.toFixed(0)} s; watching them for ${QUIET_MINUTES} minutes`);
  times.length = 0;
  const fromMs = performance.now();
  const before = await fleet.cpuMs();
  await sleep(QUIET_MINUTES * MINUTE_MS);
  const cpuMsPerMinute = ((await fleet.cpuMs()) - before) / QUIET_MINUTES / things;
  const perSecond = countsOf(times, fromMs, 1000);
  const looksPerMinute = countsOf(times, fromMs, MINUTE_MS).slice(0, QUIET_MINUTES);
  const memory = await fleet.memory();
  const connections = await fleet.connectionsTo(new URL(service.url).port);

  tell('naming a second version');
  const namedMs = performance.now();
  service.world.targetVersionId = SECOND;
  await until(() => isOn(service, things, SECOND));
  const calls = Object.groupBy(service.calls, ({ operation, status }) => `${operation} ${status}`);
  return {
    things,
    upSeconds,
    looksPerMinute,
    busiestSecond: Math.max(...perSecond),
    connections,
    memory,
    cpuMsPerMinute,
    updatedSeconds: secondsSince(namedMs),
    calls: Object.fromEntries(Object.entries(calls).map(([name, of]) => [name, of?.length ?? 0])),
  };
}

interface GatewayOptions {
  readonly serviceUrl: string;
  readonly program: string;
  readonly caFile: string;
}

class Fleet implements AsyncDisposable {
  readonly #gateways: FileGateway[] = [];
  readonly #daemons = new Map<FileGateway, ChildProcess>();
  readonly #lives: Promise<void>[] = [];
  readonly #stopped = new AbortController();

  async add(index: number, { serviceUrl, program, caFile }: GatewayOptions): Promise<void> {
    const gateway = await FileGateway.create({
      serviceUrl,
      program,
      serialNumber: `GW-${index}`,
      image: image('healthy 0'),
      slotBytes: 400_000,
      trustedKey: releaseKey.publicPem,
      serviceToml: `ca_file = "${caFile}"`,
      updateToml: 'schedule = "* * * * *"',
      splay: '60s',
      healthDeadline: '120s', // hundreds of concurrent trials share this machine
    });
    this.#gateways.push(gateway);
  }

  start(): void {
    this.#lives.push(...this.#gateways.map(async (gateway) => this.#live(gateway)));
  }

  /** Runs the daemon; where it asks for a reboot, it is killed, the bootloader chooses, and it is started again. */
  async #live(gateway: FileGateway): Promise<void> {
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      const daemon = gateway.spawn(['run']);
      daemon.stdout?.resume();
      daemon.stderr?.resume();
      this.#daemons.set(gateway, daemon);
      const ended = failWhenEnded(daemon, signal);
      ended.catch(() => {}); // after the reboot, the result is unused
      try {
        await Promise.race([gateway.rebootRequest(signal), ended]);
      } catch (error) {
        if (!signal.aborted) throw error;
      }
      await stop(daemon, 'SIGKILL');
      if (!signal.aborted) gateway.boot();
    }
  }

  get #pids(): readonly number[] {
    return [...this.#daemons.values()].map(({ pid }) => pid ?? NaN);
  }

  async cpuMs(): Promise<number> {
    const work = await Promise.all(this.#pids.map(workOf));
    return work.reduce((sum, { cpuMs }) => sum + cpuMs, 0);
  }

  /** The median of all daemons. */
  async memory(): Promise<RealFigures['memory']> {
    const found = await Promise.all(this.#pids.map(memoryOf));
    const descriptors = await Promise.all(this.#pids.map(async (pid) => (await readdir(`/proc/${pid}/fd`)).length));
    const median = (values: readonly number[]): number => spreadOf(values).median;
    return {
      pssMib: median(found.map(({ pssMib }) => pssMib)),
      privateMib: median(found.map(({ privateDirtyMib }) => privateDirtyMib)),
      descriptors: median(descriptors),
    };
  }

  /** Established ones: proc_pid_net(5). */
  async connectionsTo(port: string): Promise<number> {
    const wanted = Number(port).toString(16).toUpperCase().padStart(4, '0');
    const lines = (await readFile('/proc/net/tcp', 'utf8')).split('\n');
    return lines.filter((line) => new RegExp(`^\\s*\\d+: \\w+:\\w+ \\w+:${wanted} 01 `).test(line)).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort(new Error('the fleet is stopped'));
    await Promise.allSettled(this.#lives);
    await Promise.all(this.#gateways.map(async (gateway) => gateway[Symbol.asyncDispose]()));
  }
}

async function failWhenEnded(daemon: ChildProcess, signal: AbortSignal): Promise<void> {
  const [code] = (await once(daemon, 'exit')) as [number | null];
  if (!signal.aborted) throw new Error(`a daemon ended with ${code}`);
}

/** True if each of them has reported this version to the service. */
function isOn(service: StandIn, things: number, version: string): boolean {
  const known = [...service.world.things];
  return known.length === things && known.every(({ currentVersionId }) => currentVersionId === version);
}

async function until(isTrue: () => boolean): Promise<void> {
  const lastMs = performance.now() + DEADLINE_MS;
  while (!isTrue()) {
    if (performance.now() > lastMs)
      throw new Error(`not all of them came so far in ${DEADLINE_MS / MINUTE_MS} minutes`);
    await sleep(LOOK_MS);
  }
}

function secondsSince(startedMs: number): number {
  return (performance.now() - startedMs) / 1000;
}

function countsOf(times: readonly number[], fromMs: number, binMs: number): readonly number[] {
  const counts: number[] = [];
  for (const time of times) {
    const bin = Math.floor((time - fromMs) / binMs);
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return Array.from(counts, (count) => count ?? 0);
}

export function renderReal(figures: RealFigures): string {
  const { things, upSeconds, looksPerMinute, busiestSecond, connections, memory, cpuMsPerMinute, updatedSeconds } =
    figures;
  const calls = Object.entries(figures.calls).map(([name, count]) => `${name}: ${count}`);
  return [
    `${things} daemons, a look each minute, over TLS`,
    `all activated and updated to the first version after ${upSeconds.toFixed(0)} s`,
    `looks a minute: ${looksPerMinute.join(', ')}; ${busiestSecond} in the busiest second, ${(things / 60).toFixed(1)} in the mean`,
    `open connections to the service: ${connections}`,
    `of a daemon, the median: PSS ${memory.pssMib.toFixed(1)} MiB, ${memory.privateMib.toFixed(1)} private, ${memory.descriptors} descriptors, ${cpuMsPerMinute.toFixed(0)} ms of a processor a minute`,
    `all run the second version, and have said so, after ${updatedSeconds.toFixed(0)} s`,
    `calls: ${calls.join(', ')}`,
  ].join('\n');
}
