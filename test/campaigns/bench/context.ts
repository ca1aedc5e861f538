import type { SmallerMachine } from './machine/smaller-machine.ts';

export interface BenchContext {
  /** A folder on a disk, emptied at the end. */
  readonly workFolder: string;
  /** The built program's launcher, and the runtime that it uses. */
  readonly program: string;
  readonly node: string;
  readonly sizeBytes: number;
  readonly rounds: number;
  /** A short run: shorter waits, without slow parts. */
  readonly quick: boolean;
  /** For what is measured in an installation, and in what it is compared with. */
  readonly on: SmallerMachine;
  readonly tell: (line: string) => void;
}
