import { randomBytes } from 'node:crypto';

import type { Difference } from '../../fakes/machine/booting/slot-images.ts';
import type { RecordingStage } from './record.ts';

const MINUTE_MS = 60_000;
/** For one update. An emulated machine on a busy one: a whole update takes minutes on an idle one, ten and more on a busy one. */
export const PATIENCE_MS = { qemu: 30 * MINUTE_MS, loop: 10 * MINUTE_MS } as const;

export interface Scene {
  readonly says: string;
  /** Version → what distinguishes its image. The first one comes from the factory. */
  readonly versions: Readonly<Record<string, Difference>>;
  readonly play: (stage: RecordingStage) => Promise<void>;
  /**
   * Parts of a release in addition to the root file system: the second partition of its slot, the program of a board.
   */
  readonly beside?: readonly ('kernel' | 'board')[];
  /** Releases without a root file system: the previous one stays. */
  readonly rootless?: readonly string[];
  /** The only one that it can be played on: a unit of the scene needs a real systemd, or it is for `npm test`. */
  readonly machine?: 'qemu' | 'loop';
  /** The final version of the gateway, also after each interruption. Default: the target version. */
  readonly ends?: string;
}

/** Returns an application of which half differs from any other release's. */
function application(): string {
  return randomBytes(1024 * 1024).toString('hex');
}

function release(version: string, difference: Difference = {}): Difference {
  return { '/etc/app-version': version, '/opt/application': application(), ...difference };
}

/** A release that must not be committed: the gateway ends with its first version and reports why. */
function bad(says: string, difference: Difference, factory: Difference = {}): Scene {
  return {
    says,
    versions: { v1: release('v1', factory), v2: release('v2', difference) },
    ends: 'v1',
    play: async ({ want, untilReported, gateway }) => {
      want('v2');
      await untilReported();
      if (gateway.boots.at(-1) !== 'A') throw new Error(`slot ${gateway.boots.at(-1)} runs after a bad firmware`);
    },
  };
}

const agentUnit = '/etc/systemd/system/thing-agent.service.d/broken.conf';
/** It runs before the agent. */
function withStateUnit(name: string, command: string): Difference {
  const order = 'Before=thing-agent.service\nRequiresMountsFor=/var/lib/thing-agent';
  return {
    [`/etc/systemd/system/${name}.service`]: `[Unit]\n${order}\n[Service]\nType=oneshot\nExecStart=-${command}\nExecStart=-/bin/sync\n`,
    [`/etc/systemd/system/thing-agent.service.d/${name}.conf`]: `[Unit]\nWants=${name}.service\nAfter=${name}.service\n`,
  };
}

/** A release with an agent of another age: what that would leave of the journal, made by a program when the agent has ended. */
function withAgent(script: string): Difference {
  const lines = [
    '#!/bin/sh',
    'set -e',
    'cd "${1:-/var/lib/thing-agent}"',
    'test -f journal.json',
    `sed -E '${script}' journal.json >journal.aged`,
    'sync journal.aged',
    'mv journal.aged journal.json',
    'sync .',
  ];
  return {
    '/usr/lib/app/age-journal': `${lines.join('\n')}\n`,
    '/etc/systemd/system/thing-agent.service.d/age.conf': '[Service]\nExecStopPost=-/usr/lib/app/age-journal\n',
  };
}

/** An update from that release, whose journal the next one finds. */
function aged(says: string, script: string): Scene {
  return {
    says,
    versions: { v1: release('v1'), v2: release('v2', withAgent(script)), v3: release('v3') },
    play: inTurn('v2', 'v3'),
  };
}

/**
 * Destroys the state file system of an idle gateway once: it reboots when the version is committed, and the data under
 * the mount is overwritten before the repair unit of the image page checks it.
 */
const destroyedState: Difference = {
  '/etc/systemd/system/reboot-once.service':
    '[Unit]\nAfter=thing-agent.service\nRequiresMountsFor=/boot /var/lib/thing-agent\n' +
    '[Service]\nExecStart=/usr/lib/app/reboot-once\n',
  '/etc/systemd/system/thing-agent.service.d/reboot-once.conf': '[Unit]\nWants=reboot-once.service\n',
  '/usr/lib/app/reboot-once': [
    '#!/bin/sh',
    'test ! -e /boot/rebooted || exit 0',
    `until grep -q '"kind":"idle".*"v2"' /var/lib/thing-agent/journal.json; do sleep 1; done`,
    'touch /boot/rebooted && sync && systemctl reboot',
    '',
  ].join('\n'),
  '/etc/systemd/system/destroy.service':
    '[Unit]\nDefaultDependencies=no\nRequiresMountsFor=/boot\nBefore=thing-state-repair.service\n' +
    'After=dev-disk-by\\x2dpartlabel-state.device\n[Service]\nType=oneshot\nExecStart=/usr/lib/app/destroy\n',
  '/etc/systemd/system/thing-state-repair.service.d/destroy.conf':
    '[Unit]\nWants=destroy.service\nAfter=destroy.service\n',
  '/usr/lib/app/destroy': [
    '#!/bin/sh',
    'test -e /boot/rebooted && test ! -e /boot/destroyed || exit 0',
    'touch /boot/destroyed && sync',
    'tr "\\0" x </dev/zero | dd of=/dev/disk/by-partlabel/state bs=1M count=8 iflag=fullblock conv=fsync',
    'echo "the state file system is destroyed" >/dev/console',
    '',
  ].join('\n'),
};

/** Installs one version after another, each until it was reported to the service. */
function inTurn(...versions: readonly string[]): Scene['play'] {
  return async ({ want, untilTold }) => {
    for (const version of versions) {
      want(version);
      await untilTold(version);
    }
  };
}

const bootPartition = 'PARTLABEL=boot /boot auto nofail,noatime 0 0\n';

export const scenes: Readonly<Record<string, Scene>> = {
  update: {
    says: 'a whole update from activation to switch, and one back into slot A',
    versions: { v1: release('v1'), v2: release('v2'), v3: release('v3') },
    play: inTurn('v2', 'v3'),
  },
  'newer-journal': aged(
    'an update from an agent that is newer: its journal has parts that nobody else knows',
    '1s/[}]$/,"history":[{"attempt":"attempt-8"}],"forecast":{"kind":"rain"}}/',
  ),
  'older-journal': aged(
    'an update from an agent that is older: its journal lacks what slots were seen to run, and whose fault things were',
    '1s/,?"seen":[{][^}]*[}]//g; 1s/[{],/{/g; 1s/,"fault":"[a-z]*"//g',
  ),
  short: {
    says: 'a whole update from activation to switch',
    versions: { v1: release('v1'), v2: release('v2') },
    play: inTurn('v2'),
  },
  pairs: {
    says: 'an update of slots of two partitions, and then one of the kernel alone',
    versions: { v1: release('v1'), v2: release('v2'), v3: {} },
    beside: ['kernel'],
    rootless: ['v3'],
    play: inTurn('v2', 'v3'),
  },
  board: {
    says: 'an update of the gateway and of a board on its serial port, and one more',
    versions: { v1: release('v1'), v2: release('v2'), v3: release('v3') },
    beside: ['board'],
    play: inTurn('v2', 'v3'),
  },
  together: {
    says: 'one update of slots of two partitions and of a board',
    versions: { v1: release('v1'), v2: release('v2') },
    machine: 'loop',
    beside: ['kernel', 'board'],
    play: inTurn('v2'),
  },
  'no-init': bad('a firmware without init', { '/usr/lib/systemd/systemd': undefined }),
  'no-kernel': bad('a firmware without a kernel', { '/vmlinuz': undefined }),
  'no-runtime': bad('a firmware whose agent has no runtime', { '/usr/lib/thing-agent/tree.a/bin/node': undefined }),
  'no-agent': bad('a firmware whose agent cannot start', {
    [agentUnit]: '[Service]\nExecStart=\nExecStart=/bin/false\n',
  }),
  sick: bad('a firmware whose health fails', {
    '/usr/lib/app/healthy': '#!/bin/sh\necho the pump does not turn; exit 1\n',
  }),
  emergency: bad('a firmware that ends in emergency mode', {
    '/etc/fstab': `${bootPartition}PARTLABEL=nowhere /srv ext4 x-systemd.device-timeout=5s 0 2\n`,
  }),
  'no-state': bad('a firmware that does not mount the state partition', { '/etc/fstab': bootPartition }),
  'state-read-only': bad('a firmware that mounts the state partition read-only', {
    '/etc/fstab': `${bootPartition}PARTLABEL=state /var/lib/thing-agent ext4 ro,noatime 0 2\n`,
  }),
  'state-destroyed': {
    says: 'a state file system that is destroyed while a version runs, and an update after that',
    machine: 'qemu',
    versions: { v1: release('v1'), v2: release('v2', destroyedState), v3: release('v3') },
    play: async ({ want, untilTold, gateway }) => {
      want('v2');
      await untilTold('v2');
      await gateway.console.until(/the state file system is destroyed/);
      await gateway.console.until(/agent started/);
      want('v3');
      await untilTold('v3');
    },
  },
  'state-full': bad(
    'a firmware that fills the state partition, which the one before tidies up when it starts',
    withStateUnit(
      'fill',
      '/bin/sh -c "for n in 1 2 3; do dd if=/dev/zero of=/var/lib/thing-agent/ballast.$$n bs=4k conv=fsync; done"',
    ),
    withStateUnit('tidy', '/bin/sh -c "rm -f /var/lib/thing-agent/ballast.*"'),
  ),
};

export function sceneNamed(name: string): Scene {
  const scene = scenes[name];
  if (scene === undefined) throw new Error(`there is no scene ${name}; there are ${Object.keys(scenes).join(', ')}`);
  return scene;
}
