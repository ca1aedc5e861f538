import { constants } from 'node:fs';

import { describe, expect, test } from 'vitest';

import { bootFs } from '../../../../src/slots/bootloaders/boot-fs.ts';
import type { BootFs } from '../../../../src/slots/bootloaders/boot-fs.ts';
import type { RunProgram } from '../../../../src/slots/bootloaders/boot-programs.ts';
import type { BootloaderSettings } from '../../../../src/slots/settings.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { howMuch } from '../../../full.ts';
import type { BootRig } from '../../slots/bootloaders/bootloader-contract.ts';
import { CustomRig } from '../../slots/bootloaders/custom-rig.ts';
import type { GatewayFolder } from '../../slots/bootloaders/gateway-folder.ts';
import { GrubRig } from '../../slots/bootloaders/grub/grub-rig.ts';
import { TrybootRig } from '../../slots/bootloaders/tryboot/tryboot-rig.ts';
import { UbootRig } from '../../slots/bootloaders/uboot-rig.ts';
import { Technician } from './technician.ts';

interface OpenRig extends BootRig {
  readonly folder: GatewayFolder;
  readonly settings: BootloaderSettings;
}

const signal = new AbortController().signal;
const QUARTER_HOUR_MS = 15 * 60_000;
const CHECKS = (howMuch(7, 1) * 86_400_000) / QUARTER_HOUR_MS;

/**
 * Counts what reaches the boot environment. A program that only reads runs once, and then again after each write:
 * three thousand runs of the same question would only show how long they take.
 */
class BootTraffic {
  readonly reads: string[] = [];
  readonly writes: string[] = [];
  #answers = new Map<string, ReturnType<RunProgram>>();

  readonly run: RunProgram = async (command, options, ending) => {
    const call = command.slice(command[0].startsWith('/') ? 1 : 0).join(' ');
    const name = call.replaceAll(/ (-[cf]|\/)\S*/g, '');
    if (/^(set-|fw_setenv.*-s)/.test(name)) {
      this.writes.push(name);
      this.#answers.clear();
      return runProgram(command, options, ending);
    }
    this.reads.push(name);
    const answer = this.#answers.get(call) ?? runProgram(command, options, ending);
    this.#answers.set(call, answer);
    return answer;
  };

  readonly fs: BootFs = {
    ...bootFs,
    readFile: async (path) => {
      if (/(grubenv|autoboot.txt)$/.test(path)) this.reads.push('block');
      else if (path.includes('grubenv')) this.reads.push('copy');
      return bootFs.readFile(path);
    },
    open: async (path, flags, mode) => {
      const isRead =
        flags === 'r' || (typeof flags === 'number' && (flags & (constants.O_WRONLY | constants.O_RDWR)) === 0);
      const list = isRead ? this.reads : this.writes;
      list.push(`open ${flags}`);
      const file = await bootFs.open(path, flags, mode);
      const sync = file.sync.bind(file);
      file.sync = async () => {
        this.writes.push('fsync');
        await sync();
      };
      return file;
    },
    rename: async (from, to) => {
      this.writes.push('rename');
      await bootFs.rename(from, to);
    },
  };
}

const kinds: Readonly<Record<string, { open: () => Promise<OpenRig>; atStart: number; perCheck: readonly string[] }>> =
  {
    'a handler': {
      open: async () => CustomRig.open(),
      atStart: 1, // counters of a handler cannot be read
      perCheck: ['get-current', 'get-primary', 'get-state A', 'get-state B', 'get-last-word B'],
    },
    'U-Boot': { open: async () => UbootRig.open(2), atStart: 1, perCheck: ['fw_printenv'] },
    GRUB: { open: async () => GrubRig.open(3), atStart: 1, perCheck: ['block', 'copy'] },
    tryboot: { open: async () => TrybootRig.open(), atStart: 0, perCheck: ['block'] },
  };

describe(`${CHECKS} update checks without an update`, () => {
  // Regression: with a handler, each check ran `set-state good`: 96 writes a day, each with two syncs.
  test.each(Object.entries(kinds))(
    'writes at most once after the boot with %s, reads the boot environment once per check, and writes no journal',
    async (_name, { open, atStart, perCheck }) => {
      await using rig = await open();
      const traffic = new BootTraffic();
      const technician = new Technician();
      await technician.update();
      technician.gateway.service.target = '2';
      await technician.update(); // slot A runs, as in the rig
      technician.bootloader = await rig.folder.bootloader(rig.settings, traffic);
      const updater = await technician.updater();
      const check = async (): Promise<void> => {
        technician.nowMs += QUARTER_HOUR_MS;
        const outcome = await updater.updateNow({ reboot: true, force: false, manual: false }, () => {}, signal);
        expect(outcome).toEqual({ kind: 'up-to-date', version: 'version 2' });
      };
      await check();
      expect(traffic.writes.length > 0 ? 1 : 0).toBe(atStart);
      traffic.reads.length = 0;
      traffic.writes.length = 0;
      technician.gateway.power.cutAfter(1);
      for (let checks = 0; checks < CHECKS; checks += 1) await check();
      expect(traffic.writes).toEqual([]);
      expect(technician.gateway.power.isOut).toBe(false);
      expect(traffic.reads.slice(0, perCheck.length)).toEqual(perCheck);
      expect(traffic.reads).toHaveLength(perCheck.length * CHECKS);
    },
  );
});
