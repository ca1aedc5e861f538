import { PackageMachine, unpackDebian } from '../../guarantees/systemd/package/package-machine.ts';
import { LoggedDisk } from '../boots/disk/logged-disk.ts';
import type { DiskMachines } from './disk-machines.ts';
import { makeFileSystem, MountedDisk } from './mounted-disk.ts';

/** Containers: this machine's kernel, which mounts the disk, and a systemd of their own. */
export const nspawnMachines: DiskMachines = {
  restSeconds: 110,
  makeDisk: async (path) => {
    await makeFileSystem(path);
    await using mounted = await MountedDisk.of(path);
    await unpackDebian(mounted.root);
  },
  lend: async () => {},
  boot: async (disk, { packages, runtime }, log) => {
    await using opened = new AsyncDisposableStack();
    const seen = log === undefined ? disk : opened.use(await LoggedDisk.open(disk, log)).path;
    const mounted = opened.use(await MountedDisk.of(seen));
    const machine = opened.use(await PackageMachine.bootOn(mounted.root, packages, runtime));
    const all = opened.move();
    return {
      console: machine.console,
      exec: async (...command) => machine.exec(...command),
      tell: async (...command) => machine.tell(...command),
      put: async (path, text) => machine.put(path, text),
      [Symbol.asyncDispose]: async () => all.disposeAsync(),
    };
  },
};
