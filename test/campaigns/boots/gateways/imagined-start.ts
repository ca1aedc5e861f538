import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What a slot's files make of a start: what kernel and systemd would do, for a machine that runs neither. */
export interface ImaginedStart {
  /** Why the kernel does not start systemd. */
  readonly panic: string | undefined;
  /** Why systemd does not start the agent: the safety net is on its own then. */
  readonly agentTrouble: string | undefined;
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
    panic: has('usr/lib/systemd/systemd') ? undefined : 'Kernel panic - not syncing: No working init found',
    agentTrouble: agentTroubleOf(has, fstab),
    stateOptions: state,
    unit: units.find((name) => has(`etc/systemd/system/${name}.service`)),
  };
}

function agentTroubleOf(has: (path: string) => boolean, fstab: string): string | undefined {
  if (fstab.includes('PARTLABEL=nowhere')) return 'systemd[1]: Reached target emergency.target.';
  const isBroken = has('etc/systemd/system/thing-agent.service.d/broken.conf');
  if (!isBroken && has('usr/lib/thing-agent/tree.a/bin/node')) return undefined;
  return 'systemd[1]: Failed to start thing-agent.service.';
}
