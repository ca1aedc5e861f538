import type { Config } from '../config/config.ts';
import type { BoardReport, BoardWriting } from '../control/api/board-report.ts';
import type { OnEvent, OperationOutcome } from '../control/events.ts';
import type { InputOf } from '../control/operations.ts';
import { VerificationError } from '../firmware/errors.ts';
import { payloadDigest } from '../mcu/flash/board-store.ts';
import type { BoardStore } from '../mcu/flash/board-store.ts';
import { claimsOf } from '../mcu/images/read-image.ts';
import { flashImage, recoverBoard, intactBackup, restoreImage } from '../mcu/mcu-target.ts';
import type { BoardJob, McuTargetDeps } from '../mcu/mcu-target.ts';
import { AgentError } from '../system/errors.ts';
import type { Log } from '../system/log/log.ts';
import { evidenceOfFile, evidenceOfKept } from '../update/evidence.ts';
import type { FileGrounds } from '../update/evidence.ts';
import type { Journal } from '../update/journal/journal.ts';
import { refuseOldBoards } from '../update/policy/release-rules.ts';
import { boardNamed } from './board-files.ts';
import { DaemonError } from './errors.ts';
import { recordingRejections } from './security/record-events.ts';
import type { SecurityRecorder } from './security/security-log.ts';

export interface KeptBoardsDeps {
  readonly config: Pick<Config, 'targets' | 'trust'>;
  readonly journal: Pick<Journal, 'state'>;
  readonly boards: ReadonlyMap<string, McuTargetDeps>;
  readonly security: SecurityRecorder;
  readonly log: Log;
}

/** The record of a board: its last flashed program, and whether writing was interrupted. */
export type StoredBoardState = Omit<BoardReport, 'name' | 'port' | 'protocol' | 'connected'>;

/** An operator's file for a board. */
interface BoardFile {
  readonly name: string;
  readonly read: () => Promise<Uint8Array>;
}

/** The boards with their folders. What only asks a board (`probe`, `plan`, `reset`) needs none of it. */
export class LocalBoards {
  readonly #deps: KeptBoardsDeps;

  constructor(deps: KeptBoardsDeps) {
    this.#deps = deps;
  }

  /** Returns the record of each board, by its name. */
  async kept(): Promise<ReadonlyMap<string, StoredBoardState>> {
    const found = new Map<string, StoredBoardState>();
    for (const [name, { store }] of this.#deps.boards) {
      const flashed = await store.flashed();
      const facts = { chip: flashed?.chip, imageDigest: flashed?.imageDigest, imageName: flashed?.name };
      const runs = { known: flashed?.known, boots: flashed?.boots };
      const last = { flashedAt: flashed?.at, attempts: flashed?.attempts, roundTripMs: flashed?.roundTripMs };
      found.set(name, { ...facts, ...runs, ...last, writing: await writingOn(store) });
    }
    return found;
  }

  /**
   * Flashes an operator's file, outside of any update. Only images for MCUboot have a signature of their own; any other
   * file needs the operator's permission.
   */
  async flash(
    { board, allowDowngrade, keep }: Omit<InputOf<'flash'>, 'path' | 'file'>,
    file: BoardFile,
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    const parts = boardNamed(board, this.#deps.boards);
    return recordingRejections(this.#deps.security, async () => {
      const grounds = this.#groundsFor(board);
      const bytes = await file.read();
      const image = await parts.readImage(bytes, file.name);
      const payloads = [{ target: board, kind: 'mcu', ...claimsOf(bytes) }] as const;
      refuseOldBoards({ payloads }, this.#deps.journal.state, this.#deps.config.trust, { allowDowngrade });
      const payload = { digest: payloadDigest(bytes), onProgress: progressTo(onEvent) };
      onEvent({ kind: 'phase', phase: 'flashing', detail: board });
      const evidence = evidenceOfFile(payload.digest, grounds);
      const { unitsWritten, known } = await flashImage(
        { board: parts.board, store: parts.store, image, payload, evidence, name: file.name, keep },
        signal,
      );
      return { kind: 'flashed', version: file.name, board, known, ...(unitsWritten === 0 && { unchanged: true }) };
    });
  }

  /** Puts back what the board held before it was last flashed. */
  async restore(name: string, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
    const { board, store } = boardNamed(name, this.#deps.boards);
    const kept = await store.kept();
    if (kept?.image === undefined) {
      throw new DaemonError('no-backup', `${name}: there is no backup of its previous image`);
    }
    onEvent({ kind: 'phase', phase: 'flashing', detail: name });
    const job = { board, store, onProgress: progressTo(onEvent), vouch: evidenceOfKept };
    const { known } = await restoreImage(job, kept.image, signal);
    return { kind: 'flashed', version: 'what it held before', board: name, known };
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

  /** Throws where nothing would vouch for a file of this board. */
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

async function writingOn(store: BoardStore): Promise<BoardWriting | undefined> {
  const mark = await store.writing();
  if (mark === undefined) return undefined;
  const { name, at } = mark === 'unreadable' ? { name: 'an image', at: undefined } : mark;
  return { name, since: at, restorable: (await intactBackup(store))?.image !== undefined };
}

function progressTo(onEvent: OnEvent): BoardJob['onProgress'] {
  return (progress) => onEvent({ kind: 'board', ...progress });
}
