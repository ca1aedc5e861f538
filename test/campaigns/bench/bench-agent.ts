import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import type { SmallerMachine } from './machine/smaller-machine.ts';
import { measure } from './measure.ts';
import type { Cost } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';

export interface AgentRig {
  readonly workFolder: string;
  /** The built program's launcher. */
  readonly program: string;
  /** The block device that is written to. */
  readonly device: string;
  /** PEM. Unsigned firmware is permitted without it. */
  readonly trustedKey?: string | undefined;
  readonly on?: SmallerMachine | undefined;
}

const SLOT_A_BYTES = 4096;

/** A gateway that has never run, whose slot B is the device. Its slot A is a file of no interest. */
async function newGateway(rig: AgentRig, serviceUrl: string): Promise<FileGateway> {
  const slotA = join(await mkdtemp(join(rig.workFolder, 'slot-')), 'a.img');
  const image = Buffer.alloc(SLOT_A_BYTES, 'A');
  await writeFile(slotA, image);
  return FileGateway.create({
    serviceUrl,
    image,
    slotBytes: SLOT_A_BYTES,
    slots: { A: slotA, B: rig.device },
    trustedKey: rig.trustedKey,
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

/** `agent --update-now --no-reboot` on a new gateway: activation, check, download, staging, reading back, journal. */
export async function installByAgent(rig: AgentRig, service: ServiceProcess): Promise<Cost> {
  await using gateway = await newGateway(rig, service.url);
  const env = agentEnvironment(rig.workFolder, gateway);
  const command = ['--config', gateway.configFile, '--update-now', '--no-reboot'];
  return await measure({ argv: [rig.program, ...command], env, on: rig.on }, rig.workFolder);
}
