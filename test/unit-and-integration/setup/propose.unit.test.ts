import { describe, expect, test } from 'vitest';

import type { DetectedGateway } from '../../../src/setup/detect-gateway.ts';
import { isVersionUnknown, proposeConfig, remainingQuestions } from '../../../src/setup/propose.ts';
import type { Answers, Table } from '../../../src/setup/propose.ts';
import { findSlotPairs } from '../../../src/setup/slot-pairs.ts';

const bare: DetectedGateway = {
  partitions: [],
  bootloaders: [],
  serialPorts: [],
  deviceType: undefined,
  releaseKeys: [],
  serialNumber: 'SN-1',
  imageVersion: undefined,
  packages: undefined,
};

const known: DetectedGateway = {
  ...bare,
  partitions: ['kernel-a', 'kernel-b', 'rootfs-a', 'rootfs-b', 'state'],
  bootloaders: [{ kind: 'grub', environment: '/boot/grub2/grubenv' }],
  deviceType: 'my-board',
  releaseKeys: ['/etc/thing-agent/trust/release.pem'],
};

const said: Answers = { url: 'https://x', 'device-type': 'my-board', keys: '/a.pem' };

function names(facts: DetectedGateway, given: Table = {}, answers: Answers = {}): readonly string[] {
  return remainingQuestions(facts, given, answers).map(({ name }) => name);
}

/** Accepts everything that was found. */
function accept(facts: DetectedGateway, answers: Answers): Answers {
  const question = remainingQuestions(facts, {}, answers).find(({ found }) => found !== undefined);
  return question === undefined ? answers : accept(facts, { ...answers, [question.name]: question.found });
}

describe('partitions are taken for slots', () => {
  test.each([
    [['rootfs-a', 'rootfs-b'], ['rootfs']],
    [['system_B', 'system_A'], ['system']],
    [
      ['kernel0', 'kernel1', 'root0', 'root1'],
      ['root', 'kernel'],
    ],
    [['ROOTFS-A', 'ROOTFS-B'], ['rootfs']],
  ])('%s: %s, that of the root file system first', (partitions, found) => {
    expect(findSlotPairs(partitions).map(({ name }) => name)).toEqual(found);
  });

  test.each([[['data0', 'data1']], [['home-a', 'home-b']], [['rootfs-a']], [['rootfs-a', 'rootfs_b']], [['a', 'b']]])(
    'not %s',
    (partitions) => {
      expect(findSlotPairs(partitions)).toEqual([]);
    },
  );
});

describe('a setup asks', () => {
  test('for everything where nothing is known, and for the handler of a bootloader of its own', () => {
    const questions = ['url', 'device-type', 'keys', 'slot-a', 'slot-b', 'bootloader'];
    expect(names(bare)).toEqual([...questions, 'version']);
    expect(names({ ...bare, serialNumber: undefined })).toContain('serial-number');
    expect(names(bare, {}, { bootloader: 'custom' })).toContain('handler');
    expect(remainingQuestions(bare, {}, {}).map(({ found }) => found)).toEqual([
      ...questions.map(() => undefined),
      'none',
    ]);
  });

  test('only for the address where the gateway tells the rest', () => {
    const without = remainingQuestions(known, {}, {}).filter(({ found }) => found === undefined);
    expect(without.map(({ name }) => name)).toEqual(['url']);
  });

  test('for any setting of a given configuration', () => {
    const given = {
      service: { url: 'https://x' },
      device: { device_type: 'y', serial_number: 'z', factory_version: '1.0' },
      trust: { allow_unsigned: true },
      targets: { main: { kind: 'slots' } },
    };
    expect(names({ ...bare, serialNumber: undefined }, given)).toEqual([]);
    const boards = { ...given, targets: { meter: { kind: 'mcu' } } };
    expect(remainingQuestions(bare, boards, {})).toMatchObject([{ name: 'slot-a', found: 'none' }]);
    expect(names(bare, boards, { 'slot-a': '/dev/sda2' })).toEqual(['slot-b', 'bootloader']);
    expect(names(known, boards)).toEqual(['slot-a', 'slot-b', 'bootloader']);
  });

  test('for the bootloader where the files of two are there', () => {
    const two = { ...known, bootloaders: [...known.bootloaders, { kind: 'uboot' } as const] };
    expect(remainingQuestions(two, {}, {}).find(({ name }) => name === 'bootloader')?.found).toBeUndefined();
  });

  test('not for a second slot, nor for a bootloader, where only boards are updated', () => {
    expect(names(bare, {}, { ...said, 'slot-a': 'none' })).toEqual([]);
    expect(proposeConfig(bare, {}, { ...said, 'slot-a': 'none' })).not.toHaveProperty('targets');
  });
});

describe('which release runs here', () => {
  const withSlots: Answers = { ...said, 'slot-a': '/dev/sda2', 'slot-b': '/dev/sda3', bootloader: 'uboot' };

  // Regression: without it the first check downloads the running version.
  test('is requested if something is updated, and may be unknown', () => {
    expect(remainingQuestions(bare, {}, withSlots)).toMatchObject([{ name: 'version', found: 'none' }]);
    expect(proposeConfig(bare, {}, { ...withSlots, version: '1.4.0' })).toMatchObject({
      device: { factory_version: '1.4.0' },
    });
    expect(proposeConfig(bare, {}, { ...withSlots, version: 'none' })).not.toHaveProperty('device.factory_version');
    const unknown = ['none', '1.4.0'].map((version) => isVersionUnknown(bare, {}, { ...withSlots, version }));
    expect(unknown).toEqual([true, false]);
  });

  test.each<[string, DetectedGateway, Table, Answers]>([
    ['the image says', { ...bare, imageVersion: '1.4.0' }, {}, withSlots],
    ['the given part says', bare, { device: { factory_version: '1.4.0' } }, withSlots],
    ['a file says, as the given part names it', bare, { device: { factory_version_file: '/etc/v' } }, withSlots],
    ['matters to nobody, as nothing is updated', bare, {}, { ...said, 'slot-a': 'none' }],
  ])('is not asked where it %s', (_, facts, given, answers) => {
    expect(names(facts, given, answers)).toEqual([]);
    expect(isVersionUnknown(facts, given, answers)).toBe(false);
  });
});

describe('packages', () => {
  const debian: DetectedGateway = { ...bare, packages: new Set(['libc6', 'thing-agent', 'app2.0']) };
  const without: Answers = { ...said, 'slot-a': 'none' };

  test('are suggested with dpkg and without slots: the agent’s own, if it was installed as one', () => {
    expect(names(debian)).not.toContain('packages');
    expect(remainingQuestions(debian, {}, without)).toMatchObject([{ name: 'packages', found: 'thing-agent' }]);
    expect(remainingQuestions({ ...bare, packages: new Set(['libc6']) }, {}, without)).toMatchObject([
      { found: 'none' },
    ]);
    expect(names(debian, {}, { ...without, packages: 'thing-agent' })).toEqual(['version']);
  });

  test.each<[string, Partial<DetectedGateway>, string | undefined]>([
    ['the agent came as a package, and there is no slot', {}, 'none'],
    ['that is a Debian that GRUB starts', { bootloaders: known.bootloaders }, 'none'],
    ['the agent came as no package', { packages: new Set(['libc6']) }, undefined],
    ['there is no dpkg', { packages: undefined }, undefined],
    ['one slot has the name of one', { partitions: ['rootfs_B'] }, undefined],
    ['a bootloader was prepared for slots', { bootloaders: [{ kind: 'uboot' }] }, undefined],
  ])('are taken in place of slots where nobody is asked, if need be: where %s', (_, facts, answer) => {
    const [slot] = remainingQuestions({ ...debian, ...facts }, {}, said);
    expect([slot?.name, slot?.found, slot?.nonInteractive?.answer]).toEqual(['slot-a', undefined, answer]);
  });

  test('are added to boards only on request, and not to packages', () => {
    const boards = { targets: { meter: { kind: 'mcu' } } };
    expect(remainingQuestions(debian, boards, without)).toMatchObject([{ name: 'packages', found: 'none' }, {}]);
    const packages = { targets: { app: { kind: 'package', package: 'app' } } };
    expect(names(debian, packages, without)).toEqual(['version']);
  });

  test('become targets, whose names are those that releases use', () => {
    const answers = { ...without, packages: 'thing-agent, app2.0' };
    expect(proposeConfig(debian, {}, answers)['targets']).toEqual({
      agent: { kind: 'package', package: 'thing-agent' },
      'app2-0': { kind: 'package', package: 'app2.0' },
    });
    expect(proposeConfig(debian, {}, { ...without, packages: 'none' })).not.toHaveProperty('targets');
  });
});

describe('a setup proposes', () => {
  test('the detected ones: all pairs, of which the one with the root file system has the bootloader', () => {
    expect(proposeConfig(known, {}, accept(known, { url: 'https://x' }))).toEqual({
      service: { url: 'https://x' },
      device: { device_type: 'my-board' },
      trust: { keys: ['/etc/thing-agent/trust/release.pem'] },
      targets: {
        gateway: {
          kind: 'slots',
          slots: { A: '/dev/disk/by-partlabel/rootfs-a', B: '/dev/disk/by-partlabel/rootfs-b' },
          bootloader: { kind: 'grub', environment: '/boot/grub2/grubenv' },
        },
        kernel: {
          kind: 'slots',
          slots: { A: '/dev/disk/by-partlabel/kernel-a', B: '/dev/disk/by-partlabel/kernel-b' },
        },
      },
    });
  });

  test('no pair in addition to given slots', () => {
    const answers = { ...said, 'slot-a': '/dev/sda2', 'slot-b': '/dev/sda3', bootloader: 'uboot' } as const;
    expect(proposeConfig(known, {}, answers)).toMatchObject({
      targets: { gateway: { slots: { A: '/dev/sda2', B: '/dev/sda3' }, bootloader: { kind: 'uboot' } } },
    });
    expect(proposeConfig(known, {}, answers)).not.toHaveProperty('targets.kernel');
  });

  test('given values instead of detected ones', () => {
    const given = { device: { device_type: 'other', serial_number: 'SN' }, update: { window: '02:00-03:00' } };
    expect(proposeConfig(known, given, { url: 'https://x' })).toMatchObject({
      ...given,
      service: { url: 'https://x' },
    });
  });
});
