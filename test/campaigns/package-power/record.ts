import { statSync } from 'node:fs';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { PackageMachine, unpackDebian } from '../../promises/systemd/package/package-machine.ts';
import { PackageRig } from '../../promises/systemd/package/package-rig.ts';
import type { History } from '../boots/disk/cut.ts';
import { LoggedDisk } from '../boots/disk/logged-disk.ts';
import { readWriteLog } from '../boots/disk/write-log.ts';
import { makeDisk, MountedDisk } from './mounted-disk.ts';
import { phases } from './scene.ts';
import type { PhaseName } from './scene.ts';

/** The disk of a gateway, all that was written and flushed there, and who was at what. */
export interface PackageRecording extends History {
  /** The disk before the first phase. */
  readonly base: string;
  /** In order; the end of each is a place in the log. */
  readonly phases: readonly { readonly name: PhaseName; readonly end: number }[];
  readonly rig: PackageRig;
  readonly boot: (root: string) => Promise<PackageMachine>;
}

/** Plays all phases on a disk that is logged, in this folder. Nothing runs any more then but the service. */
export async function record(parts: AsyncDisposableStack, folder: string): Promise<PackageRecording> {
  const [disk, base, log] = ['disk.img', 'base.img', 'writes'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  await makeDisk(disk);
  let boot: PackageRecording['boot'] | undefined;
  const rig = await setUp(parts, disk, (root, packages, runtime) => {
    boot = async (place) => PackageMachine.bootOn(place, packages, runtime);
    return boot(root);
  });
  if (boot === undefined) throw new Error('no machine was booted');
  await copyFile(disk, base);
  await writeFile(log, '');
  const done: { readonly name: PhaseName; readonly end: number }[] = [];
  {
    await using logged = await LoggedDisk.open(disk, log);
    await using mounted = await MountedDisk.of(logged.path);
    rig.machine = await boot(mounted.root);
    for (const name of Object.keys(phases) as PhaseName[]) {
      console.log(`${name}: ${phases[name].says}`);
      await phases[name].play(rig);
      done.push({ name, end: statSync(log).size });
    }
    await rig.machine[Symbol.asyncDispose]();
  }
  return { base, events: readWriteLog(log, 0), boardWrites: [], partitions: [], phases: done, rig, boot };
}

type Boot = (root: string, packages: string, runtime: string) => Promise<PackageMachine>;

/** Its agent has a name at the service, and a point that waits. */
async function setUp(parts: AsyncDisposableStack, disk: string, boot: Boot): Promise<PackageRig> {
  await using mounted = await MountedDisk.of(disk);
  await unpackDebian(mounted.root);
  const rig = parts.use(
    await PackageRig.open(undefined, async (packages, runtime) => boot(mounted.root, packages, runtime)),
  );
  await rig.setUp();
  await rig.package('1.1', 'good');
  rig.service.fail({ operation: 'postDatapoints', times: 'always', fault: { kind: 'status', status: 503 } });
  await rig.machine.tell('agent', 'datapoint', 'send', 'level', '3');
  await rig.machine.tell(
    'sh',
    '-c',
    'until agent spool status --json | grep -q \'"pointsOnDisk": *1\'; do sleep 0.2; done',
  );
  await rig.machine.tell('systemctl', 'stop', 'thing-agent.service');
  await rig.machine[Symbol.asyncDispose]();
  return rig;
}
