import type { DebianMachine } from '../../guarantees/systemd/package/package-machine.ts';
import type { Lent } from '../../guarantees/systemd/package/package-rig.ts';

/** Machines of a kind, each with one disk in a file. */
export interface DiskMachines {
  /** The table of the agent's configuration with the service's address. Default: the service on this machine. */
  readonly serviceTable?: string;
  /** By their clock, until they have come to rest. */
  readonly restSeconds: number;
  /** A disk with Debian, which has not booted yet. */
  readonly makeDisk: (path: string) => Promise<void>;
  /** Puts the machine's files onto its disk, if the disk is their location. */
  readonly lend: (disk: string, lent: Lent) => Promise<void>;
  /** Booted. `log`: where every write and flush of the disk is noted. The power fails when it is disposed. */
  readonly boot: (disk: string, lent: Lent, log?: string) => Promise<DebianMachine>;
}
