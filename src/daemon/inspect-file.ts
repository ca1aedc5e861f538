import type { TargetSettings } from '../config/config.ts';
import type { FileReport } from '../control/file-report.ts';
import { describeFirmware } from '../firmware/describe-firmware.ts';
import type { FirmwareDescription, PayloadCheck } from '../firmware/describe-firmware.ts';
import { VerificationError } from '../firmware/errors.ts';
import { sourceOf } from '../firmware/file-source.ts';
import { firmwareOpener } from '../firmware/open-firmware.ts';
import type { Keyring } from '../firmware/trust/keyring.ts';
import type { TrustList } from '../firmware/trust/trust-list.ts';
import { maxPayloadBytes, refuseTooLarge } from '../mcu/flash/payload-file.ts';
import { boardImageReader } from '../mcu/images/board-image.ts';
import { requirePort } from '../serial/port-holders.ts';
import { realSystem } from '../slots/device-identity.ts';
import { checkSlot } from '../slots/slot-checks.ts';
import { AgentError, valueOrError } from '../system/errors.ts';
import { requireBases } from '../update/delta/base.ts';
import { UpdateError } from '../update/errors.ts';
import { activeEntries, quarantinedError } from '../update/policy/backoff.ts';
import { mayTry } from '../update/policy/may-try.ts';
import { refuseOldBoards, refuseRelease } from '../update/policy/release-rules.ts';
import { headerOf } from '../update/policy/trust-lists.ts';
import type { FirmwareHeader, FirmwareSource, PayloadHeader } from '../update/ports.ts';
import { otherSlot } from '../update/slot.ts';
import { resolveTargets } from '../update/staging/targets.ts';
import type { NamedFile } from './boards.ts';
import { describeChanges } from './security/applied-list.ts';
import { bootingTarget, otherSlots } from './wiring/settings.ts';
import { isUsable } from './wiring/trust.ts';
import type { Wiring } from './wiring/wiring.ts';

type Obstacle = FileReport['obstacles'][number];

/** Describes a file. Without a gateway (`wiring` undefined), only from its own content. */
export async function inspectFile(
  { path, file }: NamedFile,
  wiring: Wiring | undefined,
  signal: AbortSignal,
  allowDowngrade?: boolean,
): Promise<FileReport> {
  const source = sourceOf(file);
  if (wiring === undefined) {
    const found = await describeFirmware(source, [], signal);
    return {
      ...describe(path, found, [], new Map()),
      obstacles: damageOf(found),
      unjudged: 'no configuration',
    };
  }
  const trust = await attempt(async () => wiring.trust.keyring(signal));
  const keyring = trust.value;
  // first, since a file that is sent can be read again only up to its header
  const refused = keyring === undefined ? [] : await refusals(source, keyring, wiring, signal);
  const found = await describeFirmware(source, keyring?.keys ?? [], signal, async (header) =>
    boardChecks(header, wiring, allowDowngrade),
  );
  const list = await attempt(async () => evaluateTrustList(found, keyring, wiring));
  const targets = await attempt(() => targetsFor(found.header, wiring));
  const installed = wiring.journal.state.installed?.digest;
  const obstacles = [
    ...damageOf(found),
    ...trust.obstacles,
    ...(found.damage === undefined ? refused : []),
    ...(await attempt(() => refuseOtherDevices(found, wiring))).obstacles,
    ...(await attempt(() => refuseByPolicy(found, wiring, allowDowngrade))).obstacles,
    ...holdsOf(found, wiring),
    ...list.obstacles,
    ...targets.obstacles,
    ...(await placeObstacles(found, targets.value ?? new Map(), wiring, signal)),
    ...found.rejections.map(obstacleOf),
  ];
  return {
    ...describe(path, found, keyring?.keys ?? [], targets.value ?? new Map()),
    trustList: list.value,
    isInstalled: installed !== undefined && installed === found.digest,
    obstacles: obstacles.filter(({ code }, index) => obstacles.findIndex((other) => other.code === code) === index),
  };
}

function describe(
  file: string,
  { header, digest, sizes }: FirmwareDescription,
  keys: Keyring['keys'],
  targets: ReadonlyMap<PayloadHeader, TargetSettings>,
): Omit<FileReport, 'obstacles'> {
  if (header === undefined) return { file, digest, payloads: [] };
  const { kind, name, deviceTypes, securityVersion, signedBy, unknownSigner } = header;
  const key = keys.find(({ fingerprint }) => fingerprint === signedBy);
  const payloads = header.payloads.map((payload) => ({
    fileName: payload.fileName,
    target: targets.get(payload)?.name,
    sizeBytes: sizes.get(payload.fileName),
    digest: payload.digest,
    base: payload.delta?.base.digest,
  }));
  return {
    file,
    kind,
    digest,
    name,
    deviceTypes: deviceTypes === undefined ? undefined : [...deviceTypes],
    securityVersion,
    signature: signedBy !== undefined ? 'trusted' : unknownSigner === true ? 'unknown-key' : 'none',
    signedBy: signedBy === undefined ? undefined : { fingerprint: signedBy, name: key?.name },
    payloads,
  };
}

/** Returns the reasons why installing the file would be rejected, as far as its header shows. */
async function refusals(
  source: FirmwareSource,
  keyring: Keyring,
  { config, journal }: Wiring,
  signal: AbortSignal,
): Promise<readonly Obstacle[]> {
  const { allowUnsigned } = config.trust;
  const { deviceType } = config.device;
  const trust = { ...keyring, allowUnsigned, takeList: async (): Promise<void> => {} };
  const openFirmware = firmwareOpener({ encoding: config.update.encoding, trust, deviceType });
  const { obstacles } = await attempt(async () => headerOf(source, { journal, openFirmware, signal }));
  return obstacles;
}

/** Refuses a file for other device types, also if it is refused earlier for another reason. */
function refuseOtherDevices({ header }: FirmwareDescription, { config }: Wiring): void {
  const { deviceType } = config.device;
  const { deviceTypes } = header ?? {};
  if (deviceTypes === undefined || deviceTypes.includes(deviceType)) return;
  const why = `it is for ${deviceTypes.join(' or ')}, this gateway is ${deviceType}`;
  throw new VerificationError('device-type-mismatch', why);
}

function refuseByPolicy(
  { header, digest }: FirmwareDescription,
  { config, journal, world }: Wiring,
  allowDowngrade: boolean | undefined,
): void {
  if (header === undefined || digest === undefined) return;
  const { phase } = journal.state;
  const quarantined = activeEntries(journal.state, world.clock.nowMs(), config.update.quarantineMs);
  const entry = quarantined.find((known) => known.digest === digest);
  if (entry !== undefined) throw quarantinedError(entry);
  if (phase.kind !== 'idle' && phase.kind !== 'staging') {
    throw new UpdateError('update-in-progress', `an update is in progress (${phase.kind})`);
  }
  refuseRelease(header, journal.state, config.trust, { allowDowngrade });
}

/** The operator's hold. A trust list does not wait for it. */
function holdsOf({ header }: FirmwareDescription, { journal, world }: Wiring): readonly Obstacle[] {
  const { standstill } = journal.state;
  const hold = header?.kind === 'trust-list' ? undefined : mayTry({ standstill, nowMs: world.clock.nowMs() });
  return hold === undefined ? [] : [{ code: hold.code, message: hold.reason }];
}

function targetsFor(
  header: FirmwareHeader | undefined,
  { config }: Wiring,
): ReadonlyMap<PayloadHeader, TargetSettings> {
  if (header === undefined || header.kind === 'trust-list') return new Map();
  const { defaultTarget } = config.update;
  const targets = new Map(config.targets.map((target) => [target.name, target]));
  return resolveTargets(header, targets, { defaultTarget, bootingTarget: bootingTarget(config) });
}

/** Checks the images for boards as the installation does. A target that is missing is another obstacle. */
async function boardChecks(
  header: FirmwareHeader,
  wiring: Wiring,
  allowDowngrade: boolean | undefined,
): Promise<ReadonlyMap<PayloadHeader, PayloadCheck>> {
  const { journal, config } = wiring;
  const { value: targets = [] } = await attempt(() => targetsFor(header, wiring));
  const checks = new Map<PayloadHeader, PayloadCheck>();
  for (const [payload, settings] of targets) {
    if (settings.kind !== 'mcu') continue;
    const { name: target, kind } = settings;
    const check = async (file: Uint8Array, sizeBytes: number): Promise<void> => {
      refuseTooLarge(sizeBytes);
      await boardImageReader(settings)(file, payload.fileName);
      const { claimsOf } = await import('../mcu/images/read-image.ts');
      const images = { name: header.name, payloads: [{ target, kind, ...claimsOf(file) }] };
      refuseOldBoards(images, journal.state, config.trust, { allowDowngrade });
    };
    checks.set(payload, { maxBytes: maxPayloadBytes, check });
  }
  return checks;
}

/** Boards that are not plugged in; slots that could not be written, are too small, or do not hold the base of a delta. */
async function placeObstacles(
  { sizes }: FirmwareDescription,
  targets: ReadonlyMap<PayloadHeader, TargetSettings>,
  { config, bootloader, journal, targets: places }: Wiring,
  signal: AbortSignal,
): Promise<readonly Obstacle[]> {
  const found: Obstacle[] = [];
  for (const [payload, settings] of targets) {
    const target = places.get(settings.name);
    if (settings.kind === 'mcu')
      found.push(...(await attempt(() => requirePort(settings.name, settings.port))).obstacles);
    if (settings.kind !== 'slots' || target === undefined || bootloader === undefined) continue;
    const { obstacles } = await attempt(async () => {
      const booted = await bootloader.bootedSlot(signal);
      const slot = otherSlot(booted);
      const sizeBytes = payload.delta?.result.sizeBytes ?? sizes.get(payload.fileName);
      const others = otherSlots(config, settings);
      await checkSlot({ slot, slots: settings.slots, booted, others, sizeBytes }, realSystem);
      await requireBases(new Map([[payload, target]]), slot, { journal, signal });
    });
    found.push(...obstacles);
  }
  return found;
}

function damageOf({ damage }: FirmwareDescription): readonly Obstacle[] {
  return damage === undefined ? [] : [obstacleOf(damage)];
}

function obstacleOf({ code, message, advice }: AgentError): Obstacle {
  return { code, message, advice };
}

/** Turns an error of the work into an obstacle. */
async function attempt<T>(
  work: () => T | Promise<T>,
): Promise<{ readonly value: T | undefined; readonly obstacles: readonly Obstacle[] }> {
  const value = await valueOrError((async () => work())());
  return value instanceof AgentError ? { value: undefined, obstacles: [obstacleOf(value)] } : { value, obstacles: [] };
}

/**
 * Returns the changes that a trust list would make here, or undefined for another file. Throws the error with which the
 * list would be rejected.
 */
async function evaluateTrustList(
  { list: bytes, header }: FirmwareDescription,
  keyring: Keyring | undefined,
  { trust }: Wiring,
): Promise<FileReport['trustList']> {
  if (bytes === undefined) return undefined;
  const { list, before } = await trust.evaluateList(bytes, { artifact: header?.digest, signedBy: header?.signedBy });
  const changes = describeChanges({ list, before, known: keyring?.keys ?? [] });
  return { number: list.number, changes: [...changes, ...(keyring === undefined ? [] : leftWithout(keyring, list))] };
}

/**
 * Warns of a signed list that takes away everything that the gateway trusts: it would be the last list that the gateway
 * takes.
 */
function leftWithout(keyring: Keyring, list: TrustList): readonly string[] {
  const revoked = new Set([...(keyring.revoked?.keys ?? []), ...list.revoked.keys]);
  const former = new Set(keyring.list?.keys.map(({ fingerprint }) => fingerprint));
  const configured = keyring.keys.filter(({ fingerprint }) => !former.has(fingerprint));
  const left = [...configured, ...list.keys].filter((key) => !revoked.has(key.fingerprint) && isUsable(key, keyring));
  return left.length > 0 ? [] : ['leaves no trusted key: no release can be installed after it'];
}
