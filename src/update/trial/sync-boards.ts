import { restoresTo } from '../journal/places.ts';
import type { FirmwareRecord, Installed, PhaseOf } from '../journal/state.ts';
import { isoTime } from '../policy/install-request.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import type { McuTarget } from '../ports.ts';

type Payload = FirmwareRecord['payloads'][number];

/**
 * Guarantee `one-version`: notes durably that a committed version was left, with the tasks of its boards. What follows is
 * the end of a rollback without a slot. Undefined: no version was left.
 */
export async function beginBoardSync(ports: UpdatePorts): Promise<PhaseOf<'rolling-back'> | undefined> {
  const { journal, newAttemptId, clock } = ports;
  const { fellFrom, installed, phase } = journal.state;
  if (fellFrom === undefined || (phase.kind !== 'idle' && phase.kind !== 'staging')) return undefined;
  const at = isoTime(clock);
  const { tasks, stay } = await tasksOf(fellFrom, installed, ports);
  const attempt = { id: newAttemptId(), version: fellFrom.version, by: 'service', startedAt: at } as const;
  return (await journal.append({ type: 'slot-abandoned', attempt, boards: tasks, stay, at })).phase;
}

/** The tasks that bring each board to what the running version had; boards that cannot follow stay. */
async function tasksOf(
  left: Installed,
  runs: Installed | undefined,
  { targets }: UpdatePorts,
): Promise<{ readonly tasks: Payload[]; readonly stay: string[] }> {
  const tasks: Payload[] = [];
  const stay: string[] = [];
  for (const target of targets.values()) {
    if (target.kind !== 'mcu') continue;
    const task = await taskOf(target, left, runs);
    if (task === 'cannot') stay.push(target.name);
    else if (task !== 'stays') tasks.push(task);
  }
  return { tasks, stay };
}

async function taskOf(
  target: McuTarget,
  left: Installed,
  runs: Installed | undefined,
): Promise<Payload | 'stays' | 'cannot'> {
  const [had, wanted] = [payloadFor(target, left), payloadFor(target, runs)];
  if (had?.digest === wanted?.digest) return 'stays';
  if (wanted !== undefined && (await target.keeps(wanted.digest)).payload) return { ...wanted, back: true };
  if (had === undefined) return 'stays';
  if (!restoresTo(had, wanted) || !(await target.keeps(had.digest)).before) return 'cannot';
  return had;
}

function payloadFor({ name }: McuTarget, installed: Installed | undefined): Payload | undefined {
  return installed?.payloads.find(({ kind, target }) => kind === 'mcu' && target === name);
}
