import type { Attempt } from '../journal/state.ts';
import type { Deferred } from '../outcome.ts';
import type { FirmwareHeader, SlotName } from '../ports.ts';
import { isoTime } from './install-request.ts';
import type { InstallRequest, UpdatePorts } from './install-request.ts';
import type { Deferral } from './plan.ts';

/** Continues an interrupted attempt at the same version; for anything else, makes a new attempt. */
export function attemptFor(order: InstallRequest, slot: SlotName, ports: UpdatePorts): Attempt {
  const { phase } = ports.journal.state;
  if (phase.kind === 'staging' && phase.slot === slot && order.by === 'service') {
    const { attempt } = phase;
    const isSame = attempt.by === 'service' && attempt.version.id === order.version.id;
    if (isSame) return { ...attempt, ...persistedOptions(order) };
  }
  const { version, by } = order;
  return { id: ports.newAttemptId(), version, by, startedAt: isoTime(ports.clock), ...persistedOptions(order) };
}

/** The hold that this attempt has to wait for; none if a person ordered or forced it. */
export function waitOf({ by, forced }: Attempt, hold: (() => Deferral | undefined) | undefined): Deferral | undefined {
  return by === 'service' && forced !== true ? hold?.() : undefined;
}

/** The outcome of a round that has to wait; undefined: it need not wait. */
export function heldBack(attempt: Attempt, hold: (() => Deferral | undefined) | undefined): Deferred | undefined {
  const why = waitOf(attempt, hold);
  return why && { kind: 'deferred', version: attempt.version.name, ...why };
}

/** What a person said about this order, in a form that survives a restart. */
function persistedOptions({
  force,
  reboot,
  manual,
}: InstallRequest): Pick<Attempt, 'forced' | 'rebootByHand' | 'manual'> {
  return { ...(force && { forced: true }), rebootByHand: !reboot, ...(manual === true && { manual: manual }) };
}

/** The name of a signed release, or of a file, under which it is shown, kept and reported. */
export function signedName({ by }: InstallRequest, { name, signedBy }: FirmwareHeader): string | undefined {
  return by === 'file' || signedBy !== undefined ? name : undefined;
}
