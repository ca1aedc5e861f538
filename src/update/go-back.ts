import type { AgentError } from '../system/errors.ts';
import { UpdateError } from './errors.ts';
import { evidenceOfHistory } from './evidence.ts';
import { isoTime } from './order.ts';
import type { InstallOutcome, UpdatePorts } from './order.ts';
import type { McuTarget, SlotName } from './ports.ts';
import type { FirmwareRecord, Installed } from './state.ts';
import { startTrial } from './trial.ts';

export interface GoBackOptions {
  /** false: stop before the reboot. */
  readonly reboot: boolean;
  /** Boards that cannot go back stay as they are. */
  readonly force: boolean;
}

/**
 * Boots what was installed before in the other slot, on trial like any other; the boards follow when that is healthy.
 * Throws `nothing-to-go-back-to` before anything is changed.
 */
export async function goBack(
  slot: SlotName,
  options: GoBackOptions,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<InstallOutcome> {
  const { journal, newAttemptId, clock } = ports;
  const { installed, previous } = journal.state;
  if (previous?.slot !== slot) throw nothing(`slot ${slot} holds nothing that was installed`);
  const boards = await boardsThatGoBack(installed, previous, options.force, ports);
  const attempt = { id: newAttemptId(), version: previous.version, by: 'rollback', startedAt: isoTime(clock) } as const;
  await journal.append({ type: 'rollback-staged', attempt, slot, boards });
  return startTrial(evidenceOfHistory(previous, slot), options.reboot, ports, signal);
}

type Payload = FirmwareRecord['payloads'][number];

/**
 * The boards that either of both versions flashed. What was there before the newer payload is restored; where it is the
 * newer version that is gone back to, its payload is flashed again.
 */
async function boardsThatGoBack(
  installed: Installed | undefined,
  previous: Installed,
  force: boolean,
  { targets, log }: UpdatePorts,
): Promise<Payload[]> {
  const tasks: Payload[] = [];
  for (const target of targets.values()) {
    if (target.kind !== 'mcu') continue;
    const task = await boardTask(target, payloadFor(target, installed), payloadFor(target, previous));
    if (task === 'stays') continue;
    if (task !== 'cannot') tasks.push(task);
    else if (force) log.warn({ board: target.name }, 'the board stays as it is: what it held before is not kept');
    else throw nothing(`what the microcontroller ${target.name} held before is not kept any more`);
  }
  return tasks;
}

async function boardTask(
  target: McuTarget,
  now: Payload | undefined,
  before: Payload | undefined,
): Promise<Payload | 'stays' | 'cannot'> {
  if (now?.digest === before?.digest) return 'stays';
  if (before !== undefined && (await target.keeps(before.digest)).payload) return before;
  if (now === undefined) return 'stays';
  const kept = await target.keeps(now.digest);
  // The payload itself is needed, too, should the rollback fail.
  if (!kept.before || !kept.payload) return 'cannot';
  return { ...now, back: true, ...(now.order !== undefined && { order: -now.order }) };
}

function payloadFor({ name }: McuTarget, installed: Installed | undefined): Payload | undefined {
  return installed?.payloads.find(({ kind, target }) => kind === 'mcu' && target === name);
}

function nothing(message: string): AgentError {
  return new UpdateError('nothing-to-go-back-to', message);
}
