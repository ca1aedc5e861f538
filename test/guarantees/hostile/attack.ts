import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import type { TelemetryStatus } from '../../../src/control/telemetry-protocol.ts';

/** An attack by one sensor, one board or one member of the group on the daemon. */
export interface Attack {
  /** Completes "against a daemon …". */
  readonly name: string;
  /** Makes what the sensors of this configuration read; `place` is a folder of its own. */
  readonly prepare: (place: string) => Promise<{ readonly toml: string; readonly world?: AsyncDisposable }>;
  /** Requests through the control socket. */
  readonly act?: (socketPath: string) => Promise<void>;
  /** It has reached the daemon. */
  readonly isSeen: (status: TelemetryStatus) => boolean;
}

type SourceStatus = TelemetryStatus['sources'][number];

/** Every sensor of the configuration has failed, or had something of it dropped. */
export function everySource(condition: (source: SourceStatus) => boolean): Attack['isSeen'] {
  return ({ sources }) => sources.length > 0 && sources.every(condition);
}

export function sensor(event: string, source: string, more = ''): string {
  return `\n[[sensors]]\nevent = "${event}"\nevery = "200ms"\ntimeout = "2s"\nsource = { ${source} }\n${more}`;
}

/** As TOML. */
export function shell(script: string): string {
  return JSON.stringify(['sh', '-c', script]);
}

/** All at once. */
export function together(attacks: readonly Attack[]): Attack {
  const [only] = attacks;
  if (only !== undefined && attacks.length === 1) return only;
  return {
    name: attacks.map(({ name }) => name).join(', and '),
    prepare: async (place) => {
      await using stack = new AsyncDisposableStack();
      const tables = new Set<string>();
      for (const [index, attack] of attacks.entries()) {
        const own = join(place, String(index));
        await mkdir(own);
        const { toml, world } = await attack.prepare(own);
        tables.add(toml);
        if (world !== undefined) stack.use(world);
      }
      const all = stack.move();
      return { toml: [...tables].join(''), world: { [Symbol.asyncDispose]: async () => all.disposeAsync() } };
    },
    act: async (socketPath) => {
      await Promise.all(attacks.map(async ({ act }) => act?.(socketPath)));
    },
    isSeen: ({ sources }) => sources.every(({ failures, dropped }) => failures + dropped > 0),
  };
}
