import { randomUUID } from 'node:crypto';
import { mkdir, open, readFile, rm, writeFile } from 'node:fs/promises';

import type { Runtime } from '../../../src/daemon/wiring/wiring.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { FileJournal } from '../../../src/update/journal/journal.ts';
import type { SlotName } from '../../../src/update/ports.ts';
import { GatewayFolder } from '../../unit-and-integration/slots/bootloaders/gateway-folder.ts';
import { chosenPartition, factoryAutoboot } from '../../unit-and-integration/slots/bootloaders/tryboot/tryboot-rig.ts';
import { DEVICE_TYPE } from './service-process.ts';
import type { SoakService } from './service.ts';

const SLOT_BYTES = 64 * 1024;
const MAX_RESETS = 4;

/**
 * A Raspberry Pi in a folder: two small files as slots, its own boot files, and the real rooms of the agent on them. An image
 * that begins with `unhealthy` is; one that begins with `dead` never starts.
 */
export class SoakGateway implements AsyncDisposable {
  readonly #folder: GatewayFolder;
  readonly #service: SoakService;

  private constructor(folder: GatewayFolder, service: SoakService) {
    this.#folder = folder;
    this.#service = service;
  }

  static async create(service: SoakService): Promise<SoakGateway> {
    const folder = await GatewayFolder.create();
    const gateway = new SoakGateway(folder, service);
    await writeFile(folder.file('autoboot.txt'), factoryAutoboot);
    await writeFile(folder.file('release.pem'), service.publicPem);
    for (const name of ['slot-a', 'slot-b']) {
      await using slot = await open(folder.file(name), 'w');
      await slot.truncate(SLOT_BYTES);
    }
    await writeFile(folder.file('slot-a'), 'healthy factory\n', { flag: 'r+' });
    await writeFile(folder.file('healthy'), healthProgram(folder), { mode: 0o755 });
    await writeFile(folder.file('reboot'), `#!/bin/sh\necho "$1" > ${folder.file('argument')}\n`, { mode: 0o755 });
    await mkdir(folder.file('timesync'));
    await writeFile(folder.file('timesync/synchronized'), '');
    await gateway.provision();
    await gateway.configure();
    return gateway;
  }

  get configFile(): string {
    return this.#folder.file('config.toml');
  }

  get runDirectory(): string {
    return this.#folder.file('run');
  }

  /** Boot state of this machine. */
  get boot(): NonNullable<Runtime['boot']> {
    const { path } = this.#folder;
    return { commandLine: `${path}/cmdline`, deviceTreePartition: `${path}/partition`, timesync: `${path}/timesync` };
  }

  /** The machine starts: the firmware chooses; a slot that is dead is reset by the watchdog. */
  async start(): Promise<SlotName> {
    for (let resets = 0; resets < MAX_RESETS; resets += 1) {
      const argument = await readFile(this.#folder.file('argument'), { encoding: 'utf8', flag: 'a+' });
      await rm(this.#folder.file('argument'));
      const autoboot = await readFile(this.#folder.file('autoboot.txt'), 'utf8');
      const partition = chosenPartition(autoboot, argument.trim() === '0 tryboot');
      const slot = partition === 2 ? 'A' : 'B';
      await this.#folder.started(slot, partition);
      await writeFile(this.#folder.file('boot-id'), randomUUID());
      const image = await readFile(this.#folder.file(`slot-${slot.toLowerCase()}`), 'latin1');
      if (!image.startsWith('dead')) return slot;
    }
    throw new Error('only dead slots boot');
  }

  async configure(line = ''): Promise<void> {
    await writeFile(this.configFile, this.#configText(line));
  }

  async provision(): Promise<void> {
    await mkdir(this.#folder.file('state'));
    const journal = await FileJournal.open(this.#folder.file('state'), silentLog);
    const version = { id: 'factory', name: 'factory' };
    const installed = { digest: 'factory', provides: {}, payloads: [], version, slot: 'A' as const, at: '' };
    await journal.append({ type: 'factory-version', installed });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#folder[Symbol.asyncDispose]();
  }

  #configText(line: string): string {
    const { path } = this.#folder;
    return `
[service]
url = "${this.#service.url}"
[device]
serial_number = "GW-SOAK"
device_type = "${DEVICE_TYPE}"
[paths]
state = "${path}/state"
run = "${path}/run"
[update]
schedule = "*/15 * * * *"
splay = "1m"
trial_attempts = 1
health = { deadline = "10s", commands = [["${path}/healthy"]] }
${line}
[trust]
keys = ["${path}/release.pem"]
[report]
outcome = "update_outcome"
[system]
reboot_command = ["${path}/reboot"]
boot_id_file = "${path}/boot-id"
[targets.gateway]
kind = "slots"
slots = { A = "${path}/slot-a", B = "${path}/slot-b" }
bootloader = { kind = "tryboot", autoboot = "${path}/autoboot.txt", partitions = { A = 2, B = 3 } }
`;
  }
}

/** The application's own opinion. */
function healthProgram(folder: GatewayFolder): string {
  return `#!/bin/sh
case $(cat ${folder.file('cmdline')}) in *thing.slot=B*) slot=b ;; *) slot=a ;; esac
read -r word version < ${folder.file('slot-')}$slot
test "$word" != unhealthy
`;
}
