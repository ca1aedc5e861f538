import type { Attempt } from '../journal/state.ts';
import type { HeldBack } from '../outcome.ts';
import type { FirmwareHeader, SlotName } from '../ports.ts';
import { isoTime } from './order.ts';
import type { InstallOrder, UpdatePorts } from './order.ts';
import type { Hold } from './plan.ts';

/** An interrupted attempt at the same version goes on; anything else is a new one. */
export function attemptFor(order: InstallOrder, slot: SlotName, ports: UpdatePorts): Attempt {
  const { phase } = ports.journal.state;
  if (phase.kind === 'staging' && phase.slot === slot && order.by === 'service') {
    const { attempt } = phase;
    const isSame = attempt.by === 'service' && attempt.version.id === order.version.id;
    if (isSame) return { ...attempt, ...marksOf(order) };
  }
  const { version, by } = order;
  return { id: ports.newAttemptId(), version, by, startedAt: isoTime(ports.clock), ...marksOf(order) };
}

/** What a person ordered, or forced, waits for no window. */
export function waitOf({ by, forced }: Attempt, hold: (() => Hold | undefined) | undefined): Hold | undefined {
  return by === 'service' && forced !== true ? hold?.() : undefined;
}

/** The end of a round in which it waits; undefined: it need not. */
export function heldBack(attempt: Attempt, hold: (() => Hold | undefined) | undefined): HeldBack | undefined {
  const why = waitOf(attempt, hold);
  return why && { kind: 'held-back', version: attempt.version.name, ...why };
}

/** What a person said of this order outlives a restart. */
function marksOf({ force, reboot, byPerson }: InstallOrder): Pick<Attempt, 'forced' | 'rebootByHand' | 'byPerson'> {
  return { ...(force && { forced: true }), rebootByHand: !reboot, ...(byPerson === true && { byPerson }) };
}

/** A release is shown, kept and reported under the name that it was signed with. */
export function signedName({ by }: InstallOrder, { name, signedBy }: FirmwareHeader): string | undefined {
  return by === 'file' || signedBy !== undefined ? name : undefined;
}
