import { createFsFromVolume, Volume } from 'memfs';

import type { DurableFs } from '../../../src/system/files/durable-file.ts';

/** A state directory, `/state`, in memory, which counts the files that were replaced in it. */
export class MemoryState {
  readonly volume = new Volume();
  writes = 0;

  constructor() {
    this.volume.mkdirSync('/state');
  }

  get fs(): DurableFs {
    const real = createFsFromVolume(this.volume).promises as unknown as DurableFs;
    return {
      open: async (...given) => real.open(...given),
      readFile: async (file) => real.readFile(file),
      rename: async (from, to) => {
        this.writes += 1;
        await real.rename(from, to);
      },
    };
  }
}
