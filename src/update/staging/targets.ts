import { UpdateError } from '../errors.ts';
import type { FirmwareRecord } from '../journal/state.ts';
import type { UpdateSettings } from '../policy/install-request.ts';
import type { FirmwareHeader, PayloadHeader, SlotName, Target } from '../ports.ts';
import type { StagedFirmware } from '../ports/incoming.ts';

export type TargetChoice = Pick<UpdateSettings, 'defaultTarget' | 'bootingTarget'>;

/** The configured target of each payload. Refuses the firmware if one is missing. */
export function resolveTargets<T extends Pick<Target, 'name'>>(
  header: FirmwareHeader,
  targets: ReadonlyMap<string, T>,
  settings: TargetChoice,
): ReadonlyMap<PayloadHeader, T> {
  const resolved = new Map<PayloadHeader, T>();
  const taken = new Set<string>();
  for (const payload of header.payloads) {
    const target = findTarget(payload, targets, settings);
    if (taken.has(target.name)) throw refuse('duplicate-target', payload, `a second payload for target ${target.name}`);
    taken.add(target.name);
    resolved.set(payload, target);
  }
  if (resolved.size === 0) throw refuse('no-payload', undefined, 'the firmware has no payload');
  return resolved;
}

/** Returns the targets for an operator: the slot, and each board and package by its name. */
export function placesOf(targets: Iterable<Target>, slot: SlotName): string {
  const places = [...targets].map((target) => (target.kind === 'slots' ? `slot ${slot}` : target.name));
  return [...new Set(places)].join(', ');
}

function findTarget<T>(payload: PayloadHeader, targets: ReadonlyMap<string, T>, settings: TargetChoice): T {
  const name = nameOfTarget(payload, settings);
  if (name === undefined) throw refuse('target-unknown', payload, 'the configuration does not say where it goes');
  const target = targets.get(name);
  if (target === undefined) throw refuse('target-unknown', payload, `the configuration has no target ${name}`);
  return target;
}

function nameOfTarget({ target }: PayloadHeader, settings: TargetChoice): string | undefined {
  if (target === 'rootfs-image') return settings.bootingTarget;
  return target === 'default' ? settings.defaultTarget : target.name;
}

function refuse(
  code: 'duplicate-target' | 'no-payload' | 'target-unknown',
  payload: PayloadHeader | undefined,
  why: string,
): UpdateError {
  const what = payload === undefined ? 'firmware' : `payload ${payload.fileName}`;
  return new UpdateError(code, `${what}: ${why}`);
}

export function recordOf(firmware: StagedFirmware, targets: ReadonlyMap<PayloadHeader, Target>): FirmwareRecord {
  const payloads = firmware.payloads.map(({ header, written }) => ({
    target: targets.get(header)?.name ?? header.fileName,
    kind: targets.get(header)?.kind ?? 'slots',
    order: header.order,
    sizeBytes: written.sizeBytes,
    digest: written.digest,
    securityCounter: written.securityCounter,
    imageVersion: written.imageVersion,
  }));
  const { digest, provides, header } = firmware;
  const { name, signedBy, securityVersion } = header;
  return { digest, name, signedBy, securityVersion, provides: { ...provides }, payloads };
}

/** Returns the numbers of written and reused bytes, for an operator. */
export function savedWrites(firmware: StagedFirmware): string {
  const total = firmware.payloads.reduce((sum, { written }) => sum + written.sizeBytes, 0);
  const unchanged = firmware.payloads.reduce((sum, { written }) => sum + written.unchangedBytes, 0);
  return unchanged === 0
    ? mebibytes(total)
    : `${mebibytes(total)}, ${mebibytes(unchanged)} of it unchanged in the slot`;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
