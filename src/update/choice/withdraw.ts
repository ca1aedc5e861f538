import type { UpdatePorts } from './order.ts';
import { isoTime } from './order.ts';
import type { HoldCode, Plan } from './plan.ts';

/** Waiting ends these by itself, and the staging goes on. */
const passing: ReadonlySet<HoldCode> = new Set([
  'cooling-down',
  'outside-window',
  'clock-not-set',
  'taking-turns',
  'held-by-hand',
]);

type Ports = Pick<UpdatePorts, 'journal' | 'clock'>;

/** A paused staging with which the plan does not go on has ended: every attempt that was begun gets its end. */
export async function endUnwantedStaging(plan: Plan, ports: Ports): Promise<void> {
  if (ports.journal.state.phase.kind !== 'staging') return;
  switch (plan.kind) {
    case 'install':
      return;
    case 'held-back':
      if (!passing.has(plan.code)) await withdraw(plan.code, plan.reason, ports);
      return;
    case 'up-to-date':
    case 'nothing-offered':
    case 'reconcile':
      await withdraw('withdrawn', 'the service does not name it any more', ports);
  }
}

/** Ends the paused staging in the journal. Its slot stays unbootable. */
export async function withdraw(code: string, reason: string, { journal, clock }: Ports): Promise<void> {
  await journal.append({ type: 'withdrawn', at: isoTime(clock), code, reason });
}
