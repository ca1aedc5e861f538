import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The result of starting a slot with these files, as kernel and systemd would produce it, without running either. */
export interface ImaginedStart {
  /** The reason why the kernel does not start systemd. */
  readonly panic: string | undefined;
  /** The reason why systemd does not start the agent: only the trial timer acts then. */
  readonly agentTrouble: string | undefined;
  /** Mount options of the state partition in fstab, or undefined if it is not mounted. */
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
