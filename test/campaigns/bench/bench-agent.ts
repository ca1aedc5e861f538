import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import type { SmallerMachine } from './machine/smaller-machine.ts';
import { measure } from './measure.ts';
import type { Cost } from './measure.ts';
import type { ProbeReport } from './probe.ts';
import type { ServiceProcess } from './service-process.ts';

export interface AgentRig {
  readonly workFolder: string;
  /** The built program's launcher. */
  readonly program: string;
  /** The block device that is written to. */
  readonly device: string;
  /** PEM. Unsigned firmware is permitted without it. */
  readonly trustedKey?: string | undefined;
  readonly caFile?: string | undefined;
  readonly on?: SmallerMachine | undefined;
}

const SLOT_A_BYTES = 4096;

/** A gateway that has never run, whose slot B is the device. Its slot A is a file of no interest. */
export async function newGateway(rig: AgentRig, serviceUrl: string): Promise<FileGateway> {
  const slotA = join(await mkdtemp(join(rig.workFolder, 'slot-')), 'a.img');
  const image = Buffer.alloc(SLOT_A_BYTES, 'A');
  await writeFile(slotA, image);
  return FileGateway.create({
    serviceUrl,
    image,
    slotBytes: SLOT_A_BYTES,
    slots: { A: slotA, B: rig.device },
    trustedKey: rig.trustedKey,
    ...(rig.caFile === undefined ? {} : { serviceToml: `ca_file = "${rig.caFile}"` }),
  });
}

export function agentEnvironment(workFolder: string, gateway: FileGateway): Readonly<Record<string, string>> {
  return {
    RUNTIME_DIRECTORY: join(gateway.directory, 'run'),
    CACHE_DIRECTORY: workFolder,
    NODE_COMPILE_CACHE: workFolder,
    NO_PROXY: '*',
    no_proxy: '*',
  };
}

/** `agent --update-now --no-reboot` on a new gateway: activation, look, download, staging, reading back, journal. */
export async function installByAgent(rig: AgentRig, service: ServiceProcess): Promise<Cost> {
  return install(rig, service, [rig.program]);
}

/** As the launcher sets them; it clears NODE_OPTIONS, so that the probe has to do without it. */
const launcherOptions = [
  '--disable-warning=ExperimentalWarning',
  '--max-semi-space-size=1',
  '--max-old-space-size=256',
];

/** The same with the probe inside. */
export async function installProbed(rig: AgentRig, service: ServiceProcess): Promise<ProbeReport> {
  const report = join(rig.workFolder, 'probe.json');
  const probe = join(import.meta.dirname, 'probe.ts');
  const tree = dirname(rig.program);
  const argv = [join(tree, 'bin/node'), ...launcherOptions, `--import=${probe}`, join(tree, 'lib/main.js')] as const;
  await install(rig, service, argv, { BENCH_PROBE_REPORT: report });
  return JSON.parse(await readFile(report, 'utf8')) as ProbeReport;
}

async function install(
  rig: AgentRig,
  service: ServiceProcess,
  program: readonly [string, ...string[]],
  environment: Readonly<Record<string, string>> = {},
): Promise<Cost> {
  await using gateway = await newGateway(rig, service.url);
  const env = { ...agentEnvironment(rig.workFolder, gateway), ...environment };
  const command = ['--config', gateway.configFile, '--update-now', '--no-reboot'];
  return await measure({ argv: [...program, ...command], env, on: rig.on }, rig.workFolder);
}
