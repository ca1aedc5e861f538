import { statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { DebianMachine } from '../../guarantees/systemd/package/package-machine.ts';
import { PackageRig } from '../../guarantees/systemd/package/package-rig.ts';
import type { Lent } from '../../guarantees/systemd/package/package-rig.ts';
import type { History } from '../boots/disk/cut.ts';
import { readWriteLog } from '../boots/disk/write-log.ts';
import type { DiskMachines } from './disk-machines.ts';
import { copyDisk } from './mounted-disk.ts';
import { phases } from './scene.ts';
import type { PhaseName } from './scene.ts';

/** The disk of a gateway, all that was written and flushed there, and who was at what. */
export interface PackageRecording extends History {
  readonly machines: DiskMachines;
  /** The disk before the first phase. */
  readonly base: string;
  /** In order; the end of each is a place in the log. */
  readonly phases: readonly { readonly name: PhaseName; readonly end: number }[];
  readonly rig: PackageRig<DebianMachine>;
  readonly boot: (disk: string) => Promise<DebianMachine>;
}

/** Records all phases on a logged disk in this directory. Afterwards only the service runs. */
export async function record(
  parts: AsyncDisposableStack,
  folder: string,
  machines: DiskMachines,
  before?: string,
): Promise<PackageRecording> {
  const disk = join(folder, 'disk.img');
  const base = join(folder, 'base.img');
  const log = join(folder, 'writes');
  await machines.makeDisk(disk);
  let lent: Lent | undefined;
  const rig = parts.use(
    await PackageRig.openOn({
      ...machines,
      before,
      boot: async (given) => {
        lent = given;
        await machines.lend(disk, given);
        return machines.boot(disk, given);
      },
    }),
  );
  if (lent === undefined) throw new Error('no machine was booted');
  const known = lent;
  await setUp(rig);
  await rig.machine[Symbol.asyncDispose]();
  await machines.lend(disk, known);
  await copyDisk(disk, base);
  await writeFile(log, '');
  const done: { readonly name: PhaseName; readonly end: number }[] = [];
  rig.machine = await machines.boot(disk, known, log);
  for (const name of Object.keys(phases) as PhaseName[]) {
    console.log(`${name}: ${phases[name].says}`);
    await phases[name].play(rig);
    done.push({ name, end: statSync(log).size });
  }
  await rig.machine[Symbol.asyncDispose]();
  const boot = async (cut: string): Promise<DebianMachine> => machines.boot(cut, known);
  return { machines, base, events: readWriteLog(log, 0), boardWrites: [], partitions: [], phases: done, rig, boot };
}

/** Its agent has a name at the service, and a point that waits. */
async function setUp(rig: PackageRig<DebianMachine>): Promise<void> {
  await rig.setUp();
  await rig.package('1.1', 'good');
  rig.service.fail({ operation: 'postDatapoints', times: 'always', fault: { kind: 'status', status: 503 } });
  await rig.machine.tell('agent', 'datapoint', 'send', 'level', '3');
  await rig.machine.tell(
    'sh',
    '-c',
    'until agent queue status --json | grep -q \'"pointsOnDisk": *1\'; do sleep 0.2; done',
  );
  await rig.machine.tell('systemctl', 'stop', 'thing-agent.service');
  await rig.machine.tell('sync');
}
