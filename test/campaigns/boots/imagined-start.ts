import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What a slot's files make of a start: what kernel and systemd would do, for a machine that runs neither. */
export interface ImaginedStart {
  /** Why the machine is reset before an agent runs: a panic, or the safety net. */
  readonly trouble: string | undefined;
  /** How fstab mounts the state partition; undefined: not at all. */
  readonly stateOptions: string | undefined;
  /** A unit of the scene's: see scenes.ts. */
  readonly unit: 'fill' | 'tidy' | undefined;
}

export function imagineStart(slot: string): ImaginedStart {
  const has = (path: string): boolean => existsSync(join(slot, path));
  const fstab = has('etc/fstab') ? readFileSync(join(slot, 'etc/fstab'), 'utf8') : '';
  const state = /^\S+[=/]state \/var\/lib\/thing-agent ext4 (\S+)/m.exec(fstab)?.[1];
  const units = ['fill', 'tidy'] as const;
  return {
    trouble: troubleOf(has, fstab),
    stateOptions: state,
    unit: units.find((name) => has(`etc/systemd/system/${name}.service`)),
  };
}

function troubleOf(has: (path: string) => boolean, fstab: string): string | undefined {
  if (!has('usr/lib/systemd/systemd')) return 'Kernel panic - not syncing: No working init found';
  const isAgentThere = has('usr/lib/thing-agent/tree.a/bin/node');
  const isAgentBroken = has('etc/systemd/system/thing-agent.service.d/broken.conf');
  const isEmergency = fstab.includes('PARTLABEL=nowhere');
  if (isAgentThere && !isAgentBroken && !isEmergency) return undefined;
  return 'trial-guard: a trial is open that nobody judges: rebooting';
}
