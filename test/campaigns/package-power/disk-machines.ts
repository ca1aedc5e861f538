import type { DebianMachine } from '../../guarantees/systemd/package/package-machine.ts';
import type { Lent } from '../../guarantees/systemd/package/package-rig.ts';

/** Machines of a kind, each with one disk in a file. */
export interface DiskMachines {
  /** Where they find the service, in the configuration of the agent; as on this machine, if not given. */
  readonly serviceTable?: string;
  /** By their clock, until they have come to rest. */
  readonly restSeconds: number;
  /** A disk with Debian, which has not booted yet. */
  readonly makeDisk: (path: string) => Promise<void>;
  /** What a machine boots with is put on its disk, where that is its place. */
  readonly lend: (disk: string, lent: Lent) => Promise<void>;
  /** Booted. `log`: where every write and flush of the disk is noted. The power fails when it is disposed. */
  readonly boot: (disk: string, lent: Lent, log?: string) => Promise<DebianMachine>;
}
