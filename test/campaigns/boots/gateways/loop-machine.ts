import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, watch } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { GatewayMachine } from '../../../fakes/machine/booting/gateway-machine.ts';
import type { PowerCycle, RunningMachine } from '../../../fakes/machine/booting/gateway-machine.ts';
import { agentProgram } from '../../../fakes/machine/built-agent.ts';
import { gatewayConfig } from '../../../fakes/machine/gateway-config.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { LoggedDisk } from '../disk/logged-disk.ts';
import { partitionsOf } from '../record.ts';
import { GrubProgram } from './grub-choice.ts';
import { imagineStart } from './imagined-start.ts';
import { mountAll } from './loop-mounts.ts';
import type { Mounts } from './loop-mounts.ts';
import { runSafetyNet } from './safety-net.ts';

/** As long as systemd waits for the agent to end. */
const STOP_MS = 60_000;

export interface LoopGatewayOptions {
  readonly disk: string;
  readonly servicePort: number;
  readonly publicKey: string;
  /** The board's part of the configuration. */
  readonly board?: string | undefined;
  readonly logs?: string | undefined;
  readonly onLine?: ((line: string) => void) | undefined;
}

/**
 * A gateway with a real disk, bootloader and agent on this machine: GRUB as a program chooses the slot, this Linux
 * mounts the disk's partitions, and the agent runs. Kernel and systemd are modeled.
 */
export function loopGateway({ logs, onLine, ...options }: LoopGatewayOptions): GatewayMachine {
  return new GatewayMachine({ logs, onLine, start: (cycle) => new LoopMachine({ ...options, ...cycle }) });
}

type LoopMachineOptions = Omit<LoopGatewayOptions, 'logs' | 'onLine'> & PowerCycle;

class LoopMachine implements RunningMachine {
  readonly ended: Promise<boolean>;
  readonly #options: LoopMachineOptions;
  readonly #power = new AbortController();

  constructor(options: LoopMachineOptions) {
    this.#options = options;
    this.ended = this.#run();
  }

  kill(): void {
    this.#power.abort();
  }

  /** True if it ended in a reset. */
  async #run(): Promise<boolean> {
    const { disk, log, onLine } = this.#options;
    await using parts = new AsyncDisposableStack();
    const path = log === undefined ? disk : parts.use(await LoggedDisk.open(disk, log)).path;
    const { starts, told } = await bootloader(path);
    const slot = starts[0];
    if (slot !== 'A' && slot !== 'B') {
      onLine(`GRUB starts ${slot ?? 'nothing'}`);
      return false;
    }
    onLine(`  Booting \`Slot ${slot}'`);
    const folder = await temporaryFolder(parts);
    const mounts = await mountAll(parts, { path, partitions: await partitionsOf(disk), folder, slot });
    onLine('systemd[1]: Reached target local-fs.target.');
    const { panic, agentTrouble, stateOptions } = imagineStart(mounts.slot);
    if (panic !== undefined) {
      onLine(panic);
      return true;
    }
    await this.#prepare(folder, mounts, `thing.slot=${slot} ${told}`);
    if (agentTrouble !== undefined) {
      onLine(agentTrouble);
      await runSafetyNet({ folder, state: mounts.state, isStateMounted: stateOptions !== undefined, onLine });
      if (existsSync(join(folder, 'reset'))) return true;
      return await this.#untilPowerFails();
    }
    while (!this.#power.signal.aborted) {
      const isReset = await this.#untilReset(folder);
      if (isReset) {
        await stopPost(mounts);
        return true;
      }
    }
    return false;
  }

  async #untilPowerFails(): Promise<false> {
    const cut = once(this.#power.signal, 'abort');
    if (!this.#power.signal.aborted) await cut;
    return false;
  }

  async #prepare(folder: string, mounts: Mounts, commandLine: string): Promise<void> {
    const { publicKey, servicePort, board = '' } = this.#options;
    const { kernels } = mounts;
    const health = `{ deadline = "20s", commands = [["${mounts.slot}/usr/lib/app/healthy"]] }`;
    const config = gatewayConfig({
      url: `http://127.0.0.1:${servicePort}`,
      health,
      schedule: '*/2 * * * * *',
      key: join(folder, 'release.pem'),
      slots: mounts.slots,
      environment: join(mounts.boot, 'grub/grubenv'),
      serialNumber: 'GW-0001',
      extra: `[paths]
state = "${mounts.state}"
run = "${folder}/run"

[system]
reboot_command = ["${folder}/reboot"]
boot_id_file = "${folder}/boot-id"
${kernels === undefined ? '' : `[targets.kernel]\nkind = "slots"\nslots = { A = "${kernels.A}", B = "${kernels.B}" }`}
${board}`,
    });
    await mkdir(join(folder, 'run'));
    await writeFile(join(folder, 'config.toml'), config);
    await writeFile(join(folder, 'release.pem'), publicKey);
    await writeFile(join(folder, 'boot-id'), `${randomUUID()}\n`);
    await writeFile(join(folder, 'command-line'), `${commandLine}\n`);
    await writeFile(join(folder, 'reboot'), `#!/bin/sh\n: > '${folder}/reset'\n`, { mode: 0o755 });
  }

  /** Runs the agent until it requests a reset, exits, or loses power. */
  async #untilReset(folder: string): Promise<boolean> {
    const agent = startAgent(folder, this.#options.onLine);
    const ended = once(agent, 'close');
    const cut = once(this.#power.signal, 'abort');
    const watcher = watch(folder);
    const reset = Promise.withResolvers<undefined>();
    watcher.on('change', () => existsSync(join(folder, 'reset')) && reset.resolve(undefined));
    try {
      if (this.#power.signal.aborted) return false;
      await Promise.race([ended, cut, reset.promise]);
      const isReset = existsSync(join(folder, 'reset'));
      agent.kill(isReset ? 'SIGTERM' : 'SIGKILL');
      const timer = setTimeout(() => agent.kill('SIGKILL'), STOP_MS);
      await ended;
      clearTimeout(timer);
      return isReset;
    } finally {
      watcher.close();
    }
  }
}

async function bootloader(disk: string): Promise<{ readonly starts: readonly string[]; readonly told: string }> {
  using grub = new GrubProgram(disk);
  return await grub.start(1, '');
}

async function temporaryFolder(parts: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'loop-machine-'));
  parts.defer(async () => rm(folder, { recursive: true }));
  return folder;
}

/** Runs a slot's program after its agent ended: see scenes.ts. */
async function stopPost({ slot, state }: Mounts): Promise<void> {
  const program = join(slot, 'usr/lib/app/age-journal');
  if (existsSync(program)) await tool([program, state]);
}

/** It sees a command line of its own, in mounts of its own. */
function startAgent(folder: string, onLine: (line: string) => void): ChildProcess {
  const script = 'mount --bind "$1" /proc/cmdline && exec "$2" --config "$3" run';
  const given = ['sh', '-c', script, 'sh', join(folder, 'command-line'), agentProgram(), join(folder, 'config.toml')];
  const agent = spawn('unshare', ['--mount', 'setpriv', '--pdeathsig', 'KILL', ...given], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, RUNTIME_DIRECTORY: join(folder, 'run'), NO_PROXY: '*', no_proxy: '*' },
  });
  createInterface({ input: agent.stderr }).on('line', (line) => onLine(`agent[${agent.pid}]: ${line}`));
  return agent;
}
