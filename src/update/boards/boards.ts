import { AgentError, valueOrError } from '../../system/errors.ts';
import { deviceAt } from '../../system/files/same-device.ts';
import { UpdateError } from '../errors.ts';
import { evidenceOfKept } from '../evidence.ts';
import type { FirmwareRecord, Installed, PhaseOf } from '../journal/state.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import type { BoardPayload, InPlaceTarget, Verified } from '../ports.ts';

/** A payload for a board, or a package, with its target. */
type BoardTask = Omit<Payload, 'target'> & { readonly target: InPlaceTarget };

/** A board whose restore was interrupted this many times is left as it is, since it no longer responds. */
const MAX_RESTORES = 10;

/** True if this update has boards to flash, or packages to install. */
export function hasBoards({ payloads }: FirmwareRecord): boolean {
  return payloads.some((payload) => payload.kind !== 'slots');
}

/**
 * Guarantee `one-version`: brings the boards of the update on trial to their new images, in the artifact's order; those
 * without an order in parallel, unless they share a port. Boards flashed before an interruption are recognized. Throws
 * the error of the first board that fails. Packages come first, one after the other, and are checked again before each
 * health check, since an installed one may have been restored.
 */
export async function flashBoards(phase: PhaseOf<'trial'>, ports: UpdatePorts): Promise<void> {
  const { journal } = ports;
  const isOpen = ({ target, kind }: Payload): boolean => kind === 'package' || phase.boards[target] !== 'flashed';
  const payloads = boardPayloads(phase.firmware).filter(isOpen);
  const tasks = payloads.map((payload) => boardTask(payload, ports));
  if (tasks.length === 0) return;
  ports.onProgress({ kind: 'phase', phase: 'flashing', detail: tasks.map(({ target }) => target.name).join(', ') });
  const evidence = new Map<string, Verified>();
  for (const task of tasks) if (task.back !== true) evidence.set(task.target.name, await readKept(task, ports.signal));
  const flashOne = async (task: BoardTask): Promise<void> => {
    const { name } = task.target;
    const verified = evidence.get(name);
    const isNew = phase.boards[name] !== 'flashed';
    if (isNew) await journal.append({ type: 'board-write-started', target: name });
    if (verified === undefined) await task.target.restore(payloadOf(task, ports), evidenceOfKept, ports.signal);
    else await task.target.flash(payloadOf(task, ports), verified, ports.signal);
    if (isNew) await journal.append({ type: 'board-flashed', target: name });
  };
  const inTurn = async (group: readonly BoardTask[]): Promise<void> => {
    for (const task of group) await flashOne(task);
  };
  await inTurn(tasks.filter((task) => task.order !== undefined).sort((a, b) => (a.order ?? 0) - (b.order ?? 0)));
  const groups = await byPort(tasks.filter((task) => task.order === undefined));
  await allSettled(groups.map(inTurn));
}

/** Returns the boards on each port: images of one SMP server, or boards that reset commands select, may share one. */
async function byPort(tasks: readonly BoardTask[]): Promise<readonly (readonly BoardTask[])[]> {
  const portOf = async ({ target }: BoardTask): Promise<string> =>
    target.kind === 'mcu' ? ((await deviceAt(target.port)) ?? target.port) : target.name;
  const ports = await Promise.all(tasks.map(portOf));
  return [...Map.groupBy(tasks, (task) => ports[tasks.indexOf(task)]).values()];
}

/**
 * Restores the previous content of the touched boards, the last one first: what the installed version has for them, or
 * else what they held. Throws while one of them may be tried again. Returns the problem of a board that is left as it is,
 * if any.
 */
export async function restoreBoards(
  phase: PhaseOf<'rolling-back'>,
  ports: UpdatePorts,
): Promise<AgentError | undefined> {
  const { journal, log } = ports;
  const touched = boardPayloads(phase.firmware).filter(({ target }) => phase.boards[target] !== undefined);
  if (touched.length === 0) return undefined;
  const { phase: counted } = await journal.append({ type: 'restoring' });
  const isLastTry = counted.restores >= MAX_RESTORES;
  let failure: AgentError | undefined;
  for (const payload of touched.toReversed()) {
    try {
      await undo({ ...boardTask(payload, ports), back: payload.back ?? isOf(journal.state.installed, payload) }, ports);
      await journal.append({ type: 'board-restored', target: payload.target });
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      log.error({ board: payload.target, code: error.code }, `${payload.target} is not as it was: ${error.message}`);
      if (failure === undefined || isFinal(failure)) failure = error;
    }
  }
  if (failure !== undefined && !isLastTry && !isFinal(failure)) throw failure;
  return failure;
}

/** True if the version has this very payload. The backup under its digest is older than that version. */
function isOf(version: Installed | undefined, { target, digest }: Payload): boolean {
  return version?.payloads.some((own) => own.target === target && own.digest === digest) === true;
}

/** True if a board has lost its previous image: no further try can bring that back. */
function isFinal({ code }: AgentError): boolean {
  return code === 'board-not-restorable';
}

/** Returns the code for a rollback that could not restore everything that this update had replaced. */
export function restoreFailureCode(firmware: FirmwareRecord): 'board-not-restored' | 'package-not-restored' {
  return boardPayloads(firmware).some(({ kind }) => kind === 'mcu') ? 'board-not-restored' : 'package-not-restored';
}

async function undo(task: BoardTask, ports: UpdatePorts): Promise<void> {
  const { target, digest, back } = task;
  if (back !== true) return target.restore(payloadOf(task, ports), evidenceOfKept, ports.signal);
  const flash = async (): Promise<void> =>
    target.flash(payloadOf(task, ports), await readKept(task, ports.signal), ports.signal);
  const failure = await valueOrError(flash());
  if (!(failure instanceof AgentError)) return;
  const isUnchanged = target.kind === 'mcu' && (await target.holds(digest)); // and may be absent
  if (!isUnchanged) throw failure;
}

type Payload = FirmwareRecord['payloads'][number];

function boardPayloads({ payloads }: FirmwareRecord): readonly Payload[] {
  return payloads.filter(({ kind }) => kind !== 'slots');
}

/** Returns the task of a payload. Throws if the configuration has lost its board. */
function boardTask(payload: Payload, { targets }: UpdatePorts): BoardTask {
  const target = targets.get(payload.target);
  if (target !== undefined && target.kind !== 'slots') {
    const first = target.kind === 'package' ? Number.MIN_SAFE_INTEGER : undefined;
    return { ...payload, target, order: payload.order ?? first };
  }
  throw new UpdateError(
    'target-unknown',
    `the configuration no longer has the target ${payload.target}, which this update flashes`,
    { exit: 'configuration', advice: `add [targets.${payload.target}] again` },
  );
}

function payloadOf({ digest }: BoardTask, { onProgress }: UpdatePorts): BoardPayload {
  return { digest, onProgress: (progress) => onProgress({ kind: 'board', ...progress }) };
}

async function readKept({ target, sizeBytes, digest }: BoardTask, signal: AbortSignal): Promise<Verified> {
  const found = await target.digestOf(sizeBytes, signal, digest);
  return evidenceOfKept({ target: target.name, recorded: digest, found });
}

/** Waits for all works, then throws the first failure: a board that is being flashed must not be left alone. */
async function allSettled(works: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(works);
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}
