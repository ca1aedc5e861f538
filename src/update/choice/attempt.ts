import type { Attempt } from '../journal/state.ts';
import type { HeldBack } from '../outcome.ts';
import type { FirmwareHeader, SlotName } from '../ports.ts';
import { isoTime } from './order.ts';
import type { InstallOrder, UpdatePorts } from './order.ts';
import type { Hold } from './plan.ts';

/** Continues an interrupted attempt at the same version; for anything else, makes a new attempt. */
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

/** The hold that this attempt has to wait for; none if a person ordered or forced it. */
export function waitOf({ by, forced }: Attempt, hold: (() => Hold | undefined) | undefined): Hold | undefined {
  return by === 'service' && forced !== true ? hold?.() : undefined;
}

/** The outcome of a round that has to wait; undefined: it need not wait. */
export function heldBack(attempt: Attempt, hold: (() => Hold | undefined) | undefined): HeldBack | undefined {
  const why = waitOf(attempt, hold);
  return why && { kind: 'held-back', version: attempt.version.name, ...why };
}

/** What a person said about this order, in a form that survives a restart. */
function marksOf({ force, reboot, byPerson }: InstallOrder): Pick<Attempt, 'forced' | 'rebootByHand' | 'byPerson'> {
  return { ...(force && { forced: true }), rebootByHand: !reboot, ...(byPerson === true && { byPerson }) };
}

/** The name of a signed release, or of a file, under which it is shown, kept and reported. */
export function signedName({ by }: InstallOrder, { name, signedBy }: FirmwareHeader): string | undefined {
  return by === 'file' || signedBy !== undefined ? name : undefined;
}
