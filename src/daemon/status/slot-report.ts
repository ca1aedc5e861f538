import type { StatusReport } from '../../control/reports.ts';
import { ownVersion } from '../../update/journal/naming.ts';
import { hasSlotPayload } from '../../update/journal/state.ts';
import type { Installed, Phase, UpdateState } from '../../update/journal/state.ts';
import type { BootState, SlotName } from '../../update/ports.ts';

type SlotState = NonNullable<StatusReport['slotStates']>[string];
type Content = Pick<SlotState, 'version' | 'isPartial' | 'isFactory'>;

/** Returns the version in a slot, as far as the journal knows it. */
function contentOf(slot: SlotName, state: UpdateState): Content {
  const { phase, installed, earlier, slots, forgot } = state;
  if (phase.kind === 'staging' && phase.slot === slot) return { version: undefined, isPartial: true };
  if ('firmware' in phase && phase.slot === slot && hasSlotPayload(phase.firmware))
    return { version: phase.attempt.version.name };
  const known = [installed, ...earlier].find((one) => one?.slot === slot && hasSlotPayload(one));
  if (known !== undefined) return nameOf(known, state);
  const { records, seen } = slots[slot];
  const versions = new Set(Object.values(records).map(({ version }) => version));
  if (versions.size > 0) return { version: [...versions].join(', ') };
  const isFactory = seen !== undefined && forgot !== true;
  return { version: undefined, ...(isFactory && { isFactory }) };
}

function nameOf(installed: Installed, state: UpdateState): Content {
  const { name } = ownVersion(installed, state);
  return { version: name, ...(installed.factory && { isFactory: true }) };
}

/** Returns the running version, whether it is committed or not. */
export function runningReport(state: UpdateState, slot: SlotName | undefined): NonNullable<StatusReport['running']> {
  const { phase, installed } = state;
  const ofTrial = trialOf(phase, slot);
  const isOnTrial = ofTrial !== undefined;
  if (slot === undefined) {
    const { version, isFactory = false } = installed === undefined ? noContent : nameOf(installed, state);
    return { version: ofTrial ?? version, slot, isOnTrial, isFactory: isFactory && !isOnTrial };
  }
  const { version, isFactory = false } = contentOf(slot, state);
  return { version, slot, isOnTrial, isFactory };
}

const noContent: Content = { version: undefined };

/** Returns the name of the version on trial, or undefined if none is. */
function trialOf(phase: Phase, slot: SlotName | undefined): string | undefined {
  if (phase.kind !== 'trial' && phase.kind !== 'rolling-back') return undefined;
  const isRunning = slot === undefined || !hasSlotPayload(phase.firmware) || slot === phase.slot;
  return isRunning ? phase.attempt.version.name : undefined;
}

/** `armed`: a slot that boots once, which some bootloaders do not call bootable until it is committed. */
export function describeSlots(
  boot: BootState | undefined,
  { armed, booted }: { readonly armed: SlotName | undefined; readonly booted: SlotName | undefined },
  state: UpdateState,
): Pick<StatusReport, 'slots' | 'slotStates'> {
  if (boot === undefined) return { slots: undefined };
  const { primary, slots } = boot;
  const stateOfSlot = (slot: SlotName): SlotState => {
    const { bootable } = slots[slot];
    const bootsNext = slot === primary && (bootable || slot === armed);
    return { bootable, bootsNext, ...contentOf(slot, state) };
  };
  const describe = (slot: SlotName): string => {
    const { bootable, bootsNext } = stateOfSlot(slot);
    if (bootsNext && slot === armed) return 'next to boot, once, on trial';
    if (slot === booted && boot.onTrial[slot] && !bootsNext) return `without a commit, slot ${primary} boots next`;
    return bootsNext ? 'next to boot' : bootable ? 'bootable' : `not bootable (${slots[slot].detail})`;
  };
  return {
    slots: { A: describe('A'), B: describe('B') },
    slotStates: { A: stateOfSlot('A'), B: stateOfSlot('B') },
  };
}
