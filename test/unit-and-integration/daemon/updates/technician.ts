import type { OperationOutcome } from '../../../../src/control/events.ts';
import type { InstallFlags } from '../../../../src/control/operations.ts';
import type { DailyWindow } from '../../../../src/system/time/daily-window.ts';
import type { Outcome } from '../../../../src/update/outcome.ts';
import { Updater } from '../../../../src/update/updater.ts';
import type { UpdaterDeps } from '../../../../src/update/updater.ts';
import { Gateway } from '../../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { LIST, openPlainFirmware, plainFirmware, plainFirmwareOpener } from '../../update/plain-firmware.ts';

const signal = new AbortController().signal;
const byHand = { reboot: true, force: false, manual: true };

/** A gateway whose agent is restarted at each boot, and its operator. */
export class Technician {
  readonly gateway: Gateway;
  /** Takes the place of the one in memory. */
  bootloader: UpdaterDeps['ports']['bootloader'] | undefined;
  window: DailyWindow | undefined;
  rebootWindow: DailyWindow | undefined;
  /** Minutes since midnight, or undefined for an unsynchronized clock. */
  minute: number | undefined = 0;
  hooks: UpdaterDeps['hooks'];
  outcomeProperty: string | undefined;
  follow: UpdaterDeps['settings']['follow'] = { kind: 'target' };
  /** The interface through which downloads cost, if that is the way to the service. */
  meteredLink: string | undefined;
  /** Reason why the next start of the agent would reject its configuration. */
  configProblem: string | undefined;
  /** Called when a list took effect. */
  onListTaken: () => void = () => {};
  /** The number of the last list that took effect; each has the next one. */
  listNumber: number | undefined;
  /** Since it was switched on. */
  elapsedMs = 0;
  /** Milliseconds since the epoch, of the wall clock, and whether something has set it. */
  nowMs = 0;
  isClockSet = true;
  /** Number of requested reboots; none is executed. */
  reboots = 0;
  /** Reason why no release is trusted any longer. */
  doubt: string | undefined;
  /** Reason why a list would forbid everything. */
  revocation: string | undefined;

  constructor() {
    const firmware = new Map(['1', '2', '3'].map((id) => [id, plainFirmware(`image of version ${id}`)]));
    firmware.set('bad', plainFirmware('bad image'));
    firmware.set('evil', plainFirmware('an image of somebody', 'forged: '));
    firmware.set('long', plainFirmware(`image of version long ${'.'.repeat(80)}`));
    firmware.set('trust-7', plainFirmware('a release with the name of a list'));
    for (const id of ['trust-1', 'trust-2']) firmware.set(id, plainFirmware('', LIST));
    const service = new MemoryService(firmware, '1');
    const complaint = (content: string): string | undefined => (content.startsWith('bad') ? 'not well' : undefined);
    const slots = { A: 'factory image', B: '' };
    this.gateway = new Gateway({ service, openFirmware: openPlainFirmware, slots, complaint });
    this.gateway.start();
  }

  async updater(): Promise<Updater> {
    const ports = await this.gateway.ports();
    const reboot = async (): Promise<void> => {
      this.reboots += 1;
    };
    const machine = { ...ports.machine, reboot };
    const clock = { ...ports.clock, monotonicMs: () => this.elapsedMs, nowMs: () => this.nowMs };
    const distrusted = async (): Promise<string | undefined> => this.doubt;
    const revoked = async (): Promise<string | undefined> => this.revocation;
    const onList = (): void => {
      this.listNumber = (this.listNumber ?? 0) + 1;
      this.onListTaken();
    };
    const openFirmware = plainFirmwareOpener(onList);
    const settings = {
      follow: this.follow,
      policy: { attempts: 3, window: this.window, rebootWindow: this.rebootWindow, quarantineMs: 30 * 86_400_000 },
      outcomeProperty: this.outcomeProperty,
    } as const;
    return new Updater({
      ports: {
        ...ports,
        bootloader: this.bootloader ?? ports.bootloader,
        openFirmware,
        clock,
        isClockSet: async () => this.isClockSet,
        machine,
        distrusted,
        revoked,
        listInEffect: async () => this.listNumber,
        meteredLink: async () => this.meteredLink,
        configProblem: async () => this.configProblem,
      },
      service: this.gateway.service,
      settings,
      minuteOfDay: () => this.minute,
      hooks: this.hooks,
    });
  }

  async updateOnce(flags: InstallFlags & { readonly manual: boolean }): Promise<OperationOutcome> {
    return (await this.updater()).updateNow(flags, () => {}, signal);
  }

  async settle(): Promise<Outcome> {
    return (await this.updater()).settle(() => {}, signal);
  }

  /** Updates, with every reboot that this takes; returns the last outcome. */
  async update(): Promise<unknown> {
    for (;;) {
      const outcome = await this.updateOnce(byHand);
      if (outcome.kind !== 'rebooting') return outcome;
      this.gateway.start();
    }
  }

  /** The machine has not rebooted yet. */
  async rollbackUntilReboot(flags: InstallFlags): Promise<OperationOutcome> {
    return (await this.updater()).rollback(flags, () => {}, signal);
  }

  async rollback(): Promise<unknown> {
    await this.rollbackUntilReboot(byHand);
    this.gateway.start();
    return this.update();
  }

  /** From a stick. */
  async installList(): Promise<OperationOutcome> {
    const source = this.gateway.service.firmware('trust-1');
    return (await this.updater()).installFile(source, 'trust-1', byHand, { onEvent: () => {}, signal });
  }

  async install(text: string, force = false, name = 'manual', { reboot } = { reboot: true }): Promise<unknown> {
    const source = new MemoryService(new Map([['file', plainFirmware(text)]]), 'file').firmware('file');
    const flags = { ...byHand, force, reboot };
    await (await this.updater()).installFile(source, name, flags, { onEvent: () => {}, signal });
    if (!reboot) return undefined;
    this.gateway.start();
    return this.update();
  }
}
