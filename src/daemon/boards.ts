import { basename } from 'node:path';

import type { Config } from '../config/config.ts';
import type { BoardPlan, BoardProbe, BoardReport, BoardWriting } from '../control/api/board-report.ts';
import type { OnEvent, OperationOutcome } from '../control/events.ts';
import type { InputOf } from '../control/operations.ts';
import { FirmwareError, VerificationError } from '../firmware/errors.ts';
import { payloadDigest } from '../mcu/flash/board-store.ts';
import type { BoardStore } from '../mcu/flash/board-store.ts';
import { planFlash, probe, resetBoard } from '../mcu/flash/flash.ts';
import { claimsOf } from '../mcu/images/read-image.ts';
import { flashImage, intactBackup, needsOperator, recoverBoard, restoreImage } from '../mcu/mcu-target.ts';
import type { BoardJob, McuTargetDeps } from '../mcu/mcu-target.ts';
import { isPortPresent } from '../serial/port-holders.ts';
import { AgentError, valueOrError } from '../system/errors.ts';
import { readWhole } from '../system/files/opened-file.ts';
import type { FileContent } from '../system/files/opened-file.ts';
import type { Log } from '../system/log/log.ts';
import { SerialQueue } from '../system/serial-queue.ts';
import { evidenceOfFile, evidenceOfKept } from '../update/evidence.ts';
import type { FileGrounds } from '../update/evidence.ts';
import type { Journal } from '../update/journal/journal.ts';
import { refuseOldBoards } from '../update/policy/release-rules.ts';
import { DaemonError } from './errors.ts';
import { recordingRejections } from './security/record-events.ts';
import type { SecurityRecorder } from './security/security-log.ts';

/** A HEX file is more than twice as large as the bytes in it. */
const MAX_IMAGE_FILE_BYTES = 64 * 1024 * 1024;

/** A file, and its path on the sender's side. */
export interface NamedFile {
  readonly path: string;
  readonly file: FileContent;
}

export interface LocalBoardsDeps {
  readonly config: Pick<Config, 'targets' | 'trust'>;
  readonly journal: Pick<Journal, 'state'>;
  readonly boards: ReadonlyMap<string, McuTargetDeps>;
  readonly security: SecurityRecorder;
  readonly log: Log;
}

/** Only one image is in memory at a time, for any number of requested plans. */
const plans = new SerialQueue(1);

type StoredBoardState = Omit<BoardReport, 'name' | 'port' | 'protocol' | 'connected'>;

/** The boards with their directories. Querying a board (`probe`, `plan`, `restart`) needs none of these. */
export class LocalBoards {
  readonly #deps: LocalBoardsDeps;

  constructor(deps: LocalBoardsDeps) {
    this.#deps = deps;
  }

  /** Returns the configured boards, as far as they are known without communication. */
  async list(recordOf = storedState): Promise<readonly BoardReport[]> {
    const reports: BoardReport[] = [];
    for (const settings of this.#deps.config.targets) {
      if (settings.kind !== 'mcu') continue;
      const { name, port, protocol } = settings;
      const connected = await isPortPresent(port);
      reports.push({ name, port, protocol, connected, ...(await recordOf(this.#named(name).store)) });
    }
    return reports;
  }

  /** The same for a view that always responds: without readable records, only the configuration. */
  async show(): Promise<readonly BoardReport[]> {
    const found = await valueOrError(this.list());
    return found instanceof AgentError ? this.list(async () => stateOf(undefined)) : found;
  }

  async probe(name: string, signal: AbortSignal): Promise<BoardProbe> {
    const { chip, can, boots, roundTripMs } = await probe(this.#named(name).board, signal);
    return { name, chip: chip.name, capabilities: can, boots, roundTripMs };
  }

  /** Returns how much flashing this file would change; changes nothing. */
  async plan(name: string, named: NamedFile, signal: AbortSignal): Promise<BoardPlan> {
    const { board, readImage: read } = this.#named(name);
    const plan = async (): ReturnType<typeof planFlash> =>
      planFlash(await read(await readImage(named, signal), named.path), board, signal);
    const { chip, unitsTotal, unitsDifferent } = await plans.run(plan, signal);
    return { name, chip: chip.name, unitsTotal, unitsDifferent };
  }

  async restart(name: string, signal: AbortSignal): Promise<void> {
    await resetBoard(this.#named(name).board, signal);
  }

  /**
   * Flashes an operator's file, outside of any update. Only images for MCUboot have a signature of their own; any other
   * file needs the operator's permission.
   */
  async flash(
    { board, allowDowngrade, keep, ...named }: InputOf<'flash'>,
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    const parts = this.#named(board);
    const fileName = basename(named.path);
    return recordingRejections(this.#deps.security, async () => {
      const grounds = this.#groundsFor(board);
      const bytes = await readImage(named, signal);
      const image = await parts.readImage(bytes, fileName);
      const payloads = [{ target: board, kind: 'mcu', ...claimsOf(bytes) }] as const;
      refuseOldBoards({ payloads }, this.#deps.journal.state, this.#deps.config.trust, { allowDowngrade });
      const payload = { digest: payloadDigest(bytes), onProgress: progressTo(onEvent) };
      onEvent({ kind: 'phase', phase: 'flashing', detail: board });
      const evidence = evidenceOfFile(payload.digest, grounds);
      const keepAs = `manual ${payload.digest}`; // the update of a release with this file restores another backup
      const { unitsWritten, known } = await flashImage(
        { board: parts.board, store: parts.store, image, payload, evidence, name: fileName, keepAs, keep },
        signal,
      );
      return { kind: 'flashed', version: fileName, board, known, ...(unitsWritten === 0 && { unchanged: true }) };
    });
  }

  /** Restores the image that the board had before it was last flashed. */
  async restore(name: string, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    const { board, store } = this.#named(name);
    const kept = await store.kept();
    if (kept?.image === undefined) {
      throw new DaemonError('no-backup', `${name}: its previous image has no backup`);
    }
    onEvent({ kind: 'phase', phase: 'flashing', detail: name });
    const job = { board, store, onProgress: progressTo(onEvent), vouch: evidenceOfKept };
    // not as the end of a trial: done twice, it restores the same image
    const { known, unitsWritten } = await restoreImage(job, { ...kept, over: undefined }, signal);
    const unchanged = unitsWritten === 0 && { unchanged: true };
    return { kind: 'flashed', version: 'what it held before', board: name, known, ...unchanged };
  }

  /**
   * Guarantee `half-board`: completes or undoes the interrupted writing of each board. Boards that a running update has
   * touched are left to the update. An unreachable board is tried again in the next cycle.
   */
  async recover(onEvent: OnEvent, signal: AbortSignal): Promise<void> {
    const { journal, boards, log } = this.#deps;
    const { phase } = journal.state;
    if (phase.kind === 'lost') return;
    const touched: readonly string[] = 'boards' in phase ? Object.keys(phase.boards) : [];
    for (const [name, { board, store }] of boards) {
      if (touched.includes(name) || (await store.writing()) === undefined) continue;
      onEvent({ kind: 'phase', phase: 'flashing', detail: `${name}, whose last write was interrupted` });
      try {
        const runs = await recoverBoard(
          { board, store, onProgress: progressTo(onEvent), vouch: evidenceOfKept },
          signal,
        );
        log.info({ board: name }, `the board is whole again and runs ${runs ?? 'its program'}`);
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        log.error({ board: name, code: error.code, advice: error.advice }, `half written: ${error.message}`);
      }
    }
  }

  /** True if the writing of a board was interrupted and the agent is to finish it. Unreadable records count as none. */
  async isHalfWritten(): Promise<boolean> {
    const boards = [...this.#deps.boards.values()];
    const marks = await Promise.all(boards.map(async ({ store }) => valueOrError(writingOn(store))));
    return marks.some((mark) => mark !== undefined && !(mark instanceof AgentError) && mark.needsOperator !== true);
  }

  /** Throws `board-not-configured`. */
  #named(name: string): McuTargetDeps {
    const { boards } = this.#deps;
    const found = boards.get(name);
    if (found !== undefined) return found;
    const others = boards.size === 0 ? 'none is configured' : `there are: ${[...boards.keys()].join(', ')}`;
    throw new DaemonError('board-not-configured', `unknown board ${name} (${others})`);
  }

  /** Throws unless something would vouch for a file of this board. */
  #groundsFor(name: string): FileGrounds {
    const { targets, trust } = this.#deps.config;
    const settings = targets.find((target) => target.name === name);
    const isSigned = settings?.kind === 'mcu' && settings.mcubootKeyFile !== undefined;
    const { allowUnsigned } = trust;
    if (isSigned || allowUnsigned) return { isSigned, allowUnsigned };
    throw new VerificationError(
      'image-unsigned',
      `${name}: a file without a signature is not flashed`,
      'install a signed artifact (agent install FILE), or set [trust] allow_unsigned = true',
    );
  }
}

/** Returns the record of a board: its last flashed program, and whether writing was interrupted. */
async function storedState(store: BoardStore): Promise<StoredBoardState> {
  return { ...stateOf(await store.flashed()), writing: await writingOn(store) };
}

function stateOf(flashed: Awaited<ReturnType<BoardStore['flashed']>>): StoredBoardState {
  const facts = { chip: flashed?.chip, imageDigest: flashed?.imageDigest, imageName: flashed?.name };
  const runs = { known: flashed?.known, boots: flashed?.boots };
  return { ...facts, ...runs, flashedAt: flashed?.at, attempts: flashed?.attempts, roundTripMs: flashed?.roundTripMs };
}

async function writingOn(store: BoardStore): Promise<BoardWriting | undefined> {
  const mark = await store.writing();
  if (mark === undefined) return undefined;
  const { name, at } = mark === 'unreadable' ? { name: 'an image', at: undefined } : mark;
  const backup = await intactBackup(store);
  return { name, since: at, restorable: backup?.image !== undefined, needsOperator: needsOperator(mark, backup) };
}

function progressTo(onEvent: OnEvent): BoardJob['onProgress'] {
  return (progress) => onEvent({ kind: 'board', ...progress });
}

/** Returns the bytes of an image for a board. */
async function readImage({ path, file }: NamedFile, signal: AbortSignal): Promise<Buffer> {
  const bytes = await readWhole(file, MAX_IMAGE_FILE_BYTES, signal);
  if (bytes !== undefined) return bytes;
  const why = `it is longer than ${MAX_IMAGE_FILE_BYTES} bytes`;
  throw new FirmwareError('file-unreadable', `${path} cannot be read: ${why}`);
}
