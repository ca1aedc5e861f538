import { AgentError } from '../../system/errors.ts';
import type { PhaseOf, UpdateState } from '../journal/state.ts';
import type { FirmwareHeader, FirmwareSource, ProvisioningService, Version } from '../ports.ts';
import type { IncomingFirmware } from '../ports/incoming.ts';
import type { InstallRequest, UpdatePorts } from './install-request.ts';

type Ports = Pick<UpdatePorts, 'journal' | 'openFirmware'>;

/** The header of a firmware. Throws as opening it does, if it is refused or cannot be read. */
export async function headerOf(source: FirmwareSource, ports: Ports, signal: AbortSignal): Promise<FirmwareHeader> {
  await using firmware = await open(source, ports, signal);
  return firmware.header;
}

/** Takes a list of keys and revocations, which is then in effect. Of any other firmware only the header is read. */
export async function applyIfTrustList(source: FirmwareSource, ports: Ports, signal: AbortSignal): Promise<boolean> {
  await using firmware = await open(source, ports, signal);
  if (firmware.header.kind !== 'trust-list') return false;
  for await (const { payload } of firmware.payloads) throw new Error(`a list with the payload ${payload.fileName}`);
  return true;
}

async function open(
  source: FirmwareSource,
  { journal, openFirmware }: Ports,
  signal: AbortSignal,
): Promise<IncomingFirmware> {
  const installedProvides = journal.state.installed?.provides ?? {};
  return openFirmware({ source, installedProvides, onProgress: () => {} }, signal);
}

/**
 * The header of a firmware; undefined if it is refused, which is told when it is installed. Throws what another try may
 * cure.
 */
export async function acceptableHeaderOf(
  source: FirmwareSource,
  ports: Ports,
  signal: AbortSignal,
): Promise<FirmwareHeader | undefined> {
  try {
    return await headerOf(source, ports, signal);
  } catch (error) {
    if (!(error instanceof AgentError) || error.remedy === 'retry') throw error;
    return undefined;
  }
}

const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 86_400_000;

export interface DetectionOptions {
  /** A person waits for the answer. */
  readonly manual: boolean;
  /** False: a failure has no consequences, so that it delays no other look. */
  readonly counts: boolean;
}

interface ScoutDeps {
  readonly ports: Ports & Pick<UpdatePorts, 'clock' | 'log'>;
  readonly service: Pick<ProvisioningService, 'firmware'>;
}

/** Finds out whether a version that has to wait is a list of keys and revocations. */
export class TrustListDetector {
  readonly #deps: ScoutDeps;
  /** The version whose header was read, and is not that of a list. */
  #firmwareId: string | undefined;
  /** The version that was refused, or was a list that could not be taken. */
  #asked: { readonly keys: readonly string[]; readonly times: number; readonly atMs: number } | undefined;

  constructor(deps: ScoutDeps) {
    this.#deps = deps;
  }

  /**
   * Whether the version is a list. The header of a firmware is read once; after a failure it is read again after
   * growing pauses, or at once if a person waits.
   */
  async isList({ id, name }: Version, { manual, counts }: DetectionOptions, signal: AbortSignal): Promise<boolean> {
    const { ports, service } = this.#deps;
    if (id === this.#firmwareId || isPartlyStaged(id, ports.journal.state)) return false;
    if (this.#isPausing(id, manual)) return false;
    try {
      const header = await acceptableHeaderOf(service.firmware(id), ports, signal);
      const key = header?.digest ?? id;
      return !this.#isPausing(key, manual) && this.#learn(header, [id, key], counts);
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      const what = `whether ${name}, which has to wait, is a list of keys and revocations`;
      ports.log.warn({ code: error.code }, `${what}, cannot be seen now: ${error.message}`);
      return false;
    }
  }

  #learn(header: FirmwareHeader | undefined, keys: readonly [string, string], counts: boolean): boolean {
    const isList = header?.kind === 'trust-list';
    if (header !== undefined && !isList) [this.#firmwareId] = keys;
    else if (counts) this.#note(keys);
    return isList;
  }

  /** The digest counts as well as the id, since the service may offer the same list under any id. */
  #isPausing(key: string, manual: boolean): boolean {
    if (manual || this.#asked?.keys.includes(key) !== true) return false;
    const { times, atMs } = this.#asked;
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** (times - 1), LONGEST_PAUSE_MS);
    return this.#deps.ports.clock.monotonicMs() - atMs < pauseMs;
  }

  #note(keys: readonly string[]): void {
    const isAgain = keys.some((key) => this.#asked?.keys.includes(key) === true);
    const times = isAgain ? (this.#asked?.times ?? 0) + 1 : 1;
    this.#asked = { keys, times, atMs: this.#deps.ports.clock.monotonicMs() };
  }
}

/** Whether a version is partly staged. It is then no list, since a list leaves no checkpoint. */
function isPartlyStaged(id: string, { phase }: UpdateState): boolean {
  return phase.kind === 'staging' && phase.attempt.version.id === id && phase.checkpoint !== undefined;
}

/** `list`: a list of keys and revocations, which goes into no slot. */
export type Beside = 'same' | 'another' | 'list';

/**
 * What a file is compared with the firmware that waits for its boot. An image has no digest before its end, and is
 * compared by its name.
 */
export async function compareToWaiting(
  { attempt, firmware }: PhaseOf<'staged' | 'trial'>,
  file: Pick<InstallRequest, 'source' | 'version'>,
  ports: Ports & Pick<UpdatePorts, 'onRefused'>,
  signal: AbortSignal,
): Promise<Beside> {
  if (attempt.by === 'file' && attempt.version.name === file.version.name) return 'same';
  const { digest, kind } = await reportingRejection(async () => headerOf(file.source, ports, signal), ports);
  if (kind === 'trust-list') return 'list';
  return digest === undefined || digest !== firmware.digest ? 'another' : 'same';
}

/** Reports a refusal, where no attempt has begun, so that nothing else would report it. */
export async function reportingRejection<T>(
  work: () => Promise<T>,
  { onRefused }: Pick<UpdatePorts, 'onRefused'>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AgentError) await onRefused?.(error);
    throw error;
  }
}
