import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, open, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { firmwareOpener } from '../../../src/firmware/open-firmware.ts';
import { FirmwareDownload } from '../../../src/service/rest/firmware-download.ts';
import { defaultResume } from '../../../src/service/rest/settings.ts';
import { callRetry } from '../../../src/service/session.ts';
import { createSlotsTarget } from '../../../src/slots/slots-target.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { retry } from '../../../src/system/time/retry.ts';
import { FileJournal } from '../../../src/update/journal/journal.ts';
import type { UpdateState } from '../../../src/update/journal/state.ts';
import type { UpdatePorts } from '../../../src/update/policy/install-request.ts';
import { planUpdate } from '../../../src/update/policy/plan.ts';
import type { FirmwareSource, Target } from '../../../src/update/ports.ts';
import type { FirmwareRequest } from '../../../src/update/ports/incoming.ts';
import { update } from '../../../src/update/update.ts';
import { FakeBootloader } from '../../fakes/machine/memory/fake-bootloader.ts';
import { portSettings, portsWith } from '../../fakes/machine/memory/ports.ts';
import { Power } from '../../fakes/machine/power.ts';
import { fileContent, randomContent } from '../../fakes/service/firmware-content.ts';
import { FirmwareText } from '../../fakes/service/firmware-text.ts';
import { writeArtifact } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import type { ArtifactOptions } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';
import { Line, PowerCut } from './line.ts';
import type { LineOptions } from './line.ts';

export interface SlowLineOptions extends LineOptions {
  readonly imageBytes: number;
  readonly compression: ArtifactOptions['compression'];
}

export interface SlowLineReport {
  readonly textBytes: number;
  readonly hours: number;
  readonly connections: number;
  readonly drops: number;
  readonly powerCuts: number;
  /** Bytes beyond the length of the text: received twice, and sent twice by the service. */
  readonly receivedAgainBytes: number;
  readonly sentAgainBytes: number;
  readonly checkpoints: number;
  readonly journalBytes: number;
  /** Bytes read from the slot again after a power loss. */
  readonly readAgainBytes: number;
  readonly digest: string;
  readonly wantedDigest: string;
}

const VERSION = { id: '2', name: '2' };
const DEVICE_TYPE = 'far-gateway';
const MOST_LIVES = 400;
const BLOCK_BYTES = 1024 * 1024;
const settings = { attempts: 3, window: undefined, quarantineMs: Infinity };
const wired = { meteredLink: undefined, configProblem: undefined };
const circumstances = { policy: settings, minuteOfDay: 0, ...wired, manual: false, force: false };

class Arrived extends Error {}

/** One update over such a line: the real rooms on a real disk, in simulated time. */
export async function playSlowLine(options: SlowLineOptions): Promise<SlowLineReport> {
  const directory = await mkdtemp(join(tmpdir(), 'slow-line-'));
  try {
    const gateway = await FarGateway.create(directory, options);
    for (let life = 0; life < MOST_LIVES; life += 1) {
      if (await gateway.live()) return await gateway.report();
    }
    throw new Error(`it did not arrive in ${MOST_LIVES} lives of the gateway`);
  } finally {
    await rm(directory, { recursive: true });
  }
}

class FarGateway {
  readonly #directory: string;
  readonly #line: Line;
  readonly #textBytes: number;
  readonly #imageBytes: number;
  readonly #wantedDigest: string;
  readonly #bootloader = new FakeBootloader(new Power(), () => 0.5);
  readonly #open: UpdatePorts['openFirmware'];
  readonly #target;
  readonly #counts = { checkpoints: 0, journalBytes: 0, readAgainBytes: 0 };
  #attempts = 0;

  private constructor(directory: string, line: Line, parts: PreparedFirmware) {
    this.#directory = directory;
    this.#line = line;
    ({ textBytes: this.#textBytes, imageBytes: this.#imageBytes, wantedDigest: this.#wantedDigest } = parts);
    const { clock } = line;
    const { trust } = parts;
    this.#open = firmwareOpener({ encoding: 'auto', trust, deviceType: DEVICE_TYPE, clock });
    const slots = { A: join(directory, 'slot-a'), B: join(directory, 'slot-b') };
    this.#target = createSlotsTarget({ name: 'gateway', slots }, { bootedSlot: async () => 'A', log: silentLog });
  }

  static async create(directory: string, options: SlowLineOptions): Promise<FarGateway> {
    const firmware = await prepareFirmware(directory, options);
    await mkdir(join(directory, 'state'));
    for (const name of ['slot-a', 'slot-b']) {
      await using slot = await open(join(directory, name), 'w');
      await slot.truncate(Math.ceil(options.imageBytes / BLOCK_BYTES + 1) * BLOCK_BYTES);
    }
    return new FarGateway(directory, new Line(options, firmware.text), firmware);
  }

  /** Runs from one start to the next power loss. True if the update arrived and is armed. */
  async live(): Promise<boolean> {
    const journal = await FileJournal.open(join(this.#directory, 'state'), silentLog);
    const plan = planUpdate(journal.state, VERSION, { ...circumstances, nowMs: this.#line.clock.nowMs() });
    if (plan.kind !== 'install')
      throw new Error(`the version is ${plan.kind}${'reason' in plan ? `: ${plan.reason}` : ''}`);
    const order = { version: VERSION, by: 'service', source: this.#source, reboot: true, force: false } as const;
    const signal = new AbortController().signal;
    try {
      this.#counts.readAgainBytes += prefixOf(journal.state);
      for (;;) await this.#round(() => update(order, this.#ports(journal, signal)));
    } catch (error) {
      if (error instanceof Arrived) return true;
      if (!(error instanceof PowerCut)) throw error;
      await this.#tear(prefixOf(journal.state));
      return false;
    }
  }

  async report(): Promise<SlowLineReport> {
    const { connections, drops, powerCuts, sentBytes, receivedBytes } = this.#line.counts;
    return {
      textBytes: this.#textBytes,
      hours: this.#line.nowMs / 3_600_000,
      connections,
      drops,
      powerCuts,
      receivedAgainBytes: receivedBytes - this.#textBytes,
      sentAgainBytes: sentBytes - this.#textBytes,
      ...this.#counts,
      digest: await this.#target.digestOf('B', this.#imageBytes, new AbortController().signal),
      wantedDigest: this.#wantedDigest,
    };
  }

  /** Runs one cycle of the daemon: a paused attempt resumes with the next check. */
  async #round(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Error && 'remedy' in error && error.remedy === 'retry')) throw error;
      await this.#line.clock.sleep(15 * 60_000, new AbortController().signal);
    }
  }

  get #source(): FirmwareSource {
    const { request, clock } = this.#line;
    const random = (): number => 0.5;
    const context = { operation: 'firmware', request, resume: defaultResume, clock, random, log: silentLog };
    const open: FirmwareSource['open'] = async (from, signal) => {
      const opening = async (): Promise<FirmwareDownload> =>
        FirmwareDownload.open({ ...context, deadlineMs: 2 ** 31 - 1 }, from, signal);
      return retry(opening, callRetry, { clock, random }, signal);
    };
    return { form: 'json-string', open };
  }

  #ports(journal: FileJournal, signal: AbortSignal): UpdatePorts {
    return portsWith({
      signal,
      journal,
      bootloader: this.#bootloader,
      targets: new Map<string, Target>([['gateway', this.#target]]),
      openFirmware: async (request, signal) => this.#open(this.#counted(request, journal), signal),
      machine: {
        bootId: async () => 'boot-1',
        reboot: async () => {
          throw new Arrived();
        },
      },
      clock: this.#line.clock,
      newAttemptId: () => `attempt-${(this.#attempts += 1)}`,
      settings: { ...portSettings, ...settings },
    });
  }

  #counted(request: FirmwareRequest, journal: FileJournal): FirmwareRequest {
    const onCheckpoint: FirmwareRequest['onCheckpoint'] = async (checkpoint) => {
      await request.onCheckpoint?.(checkpoint);
      this.#counts.checkpoints += 1;
      this.#counts.journalBytes += JSON.stringify(journal.state).length;
    };
    return { ...request, onCheckpoint };
  }

  /** Replaces everything that was not durable by garbage. */
  async #tear(durableBytes: number): Promise<void> {
    const path = join(this.#directory, 'slot-b');
    const { size } = await stat(path);
    await using slot = await open(path, 'r+');
    const garbage = Buffer.alloc(BLOCK_BYTES, 0xa5);
    await slot.write(garbage, 0, Math.min(BLOCK_BYTES, size - durableBytes), durableBytes);
  }
}

function prefixOf({ phase }: UpdateState): number {
  return phase.kind === 'staging' ? (phase.checkpoint?.image.sizeBytes ?? 0) : 0;
}

async function prepareFirmware(directory: string, { imageBytes, compression }: SlowLineOptions) {
  const key = makeKeyPair('ecdsa-p256', 'release.pem');
  const content = randomContent(imageBytes, 7);
  const chunks = async function* (): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < imageBytes; at += BLOCK_BYTES) yield content.read(at, Math.min(BLOCK_BYTES, imageBytes - at));
  };
  const files = [{ name: 'rootfs.ext4', content: { sizeBytes: imageBytes, chunks } }];
  const path = join(directory, 'firmware.mender');
  await writeArtifact(path, { name: '2', devices: [DEVICE_TYPE], key: key.privateKey, files, compression });
  const text = new FirmwareText(fileContent(path));
  const wantedDigest = await digestOf(chunks());
  const trust = { keys: [key.trusted], allowUnsigned: false };
  return { text, trust, wantedDigest, imageBytes, textBytes: text.sizeBytes };
}

type PreparedFirmware = Awaited<ReturnType<typeof prepareFirmware>>;

async function digestOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of chunks) hash.update(chunk);
  return `sha256:${hash.digest('hex')}`;
}
