import type { DebianMachine } from '../../guarantees/systemd/package/package-machine.ts';
import type { PackageRig } from '../../guarantees/systemd/package/package-rig.ts';

type Rig = PackageRig<DebianMachine>;

export type PhaseName = keyof typeof phases;

interface Phase {
  readonly says: string;
  readonly play: (rig: Rig) => Promise<void>;
  /** The commands to repeat after an interruption, or with the package installer at work, at that point. */
  readonly again: readonly (readonly string[])[];
  /** The installed version at the end, or undefined for no package and no remaining file. */
  readonly ends: string | undefined;
  /** True if an agent must run after an interruption, in the phase or at its end. */
  readonly hasAgent: boolean;
  /** True if identity, journal and queue must exist after an interruption. */
  readonly hasMemory: boolean;
}

const installed = (version: string): readonly string[] => ['--install', `/packages/${version}.deb`];
const removed = ['--remove', 'thing-agent'];
const purged = ['--purge', 'thing-agent'];

async function dpkg(rig: Rig, args: readonly string[]): Promise<void> {
  await rig.machine.tell('dpkg', ...args);
  // A start that the manager has begun is of this phase.
  const settled = 'while [ "$(systemctl show --value --property=Job thing-agent.service)" != "" ]; do sleep 0.2; done';
  await rig.machine.tell('sh', '-c', settled);
}

function byHand(says: string, args: readonly string[], ends: string, hasAgent = true): Phase {
  return { says, play: async (rig) => dpkg(rig, args), again: [args], ends, hasAgent, hasMemory: true };
}

/** The life of a package, one phase after the other; 1.0 is installed at first, and an agent runs. */
export const phases = {
  upgraded: byHand('a person installs a newer one', installed('1.1'), '1.1'),
  downgraded: byHand('a person installs an older one', installed('1.0'), '1.0'),
  removed: { ...byHand('a person removes it', removed, '1.0', false), again: [removed, installed('1.0')] },
  reinstalled: byHand('a person installs it again', installed('1.0'), '1.0', false),
  'put-back': {
    ...byHand(
      'dpkg cannot configure what the agent installs, and the guard puts back what stood before',
      installed('1.1'),
      '1.1',
    ),
    play: async (rig) => {
      await rig.offer('v2', '1.2', 'refused');
      const report = rig.nextReport();
      await rig.order();
      await report;
      await untilAtRest(rig.machine, 600); // the guard sees the end after the service
    },
  },
  purged: { ...byHand('a person purges it', purged, '', false), ends: undefined, hasMemory: false },
  installed: {
    ...byHand('a person installs it on a machine that never had it', installed('1.0'), '1.0', false),
    hasMemory: false,
  },
} as const satisfies Readonly<Record<string, Phase>>;

/** Waits until the package installer is done, the package is complete, and the agent runs, without an operator. */
export async function untilAtRest(machine: DebianMachine, seconds: number): Promise<void> {
  const guard = '/var/lib/thing-agent/packages/agent/request /etc/systemd/system/thing-agent-package-agent.service';
  const atRest = `
    until systemctl is-active --quiet thing-agent.service && ! ls ${guard} 2>&1 | grep -qv "No such file" && agent status --json | grep -q '"phase": *"idle"'; do
      sleep 1
    done`;
  await machine.tell('timeout', String(seconds), 'sh', '-c', atRest);
}
