import type { TrustSettings } from '../../../../src/firmware/artifact/trust.ts';
import { parsePublicKey } from '../../../../src/system/files/public-key.ts';
import { sha256 } from '../../../fakes/machine/memory/memory-slots.ts';
import { buildArtifact } from '../../../unit-and-integration/firmware/artifact/build-artifact.ts';
import type { Edits, PayloadOptions } from '../../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import type { KeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import { listArtifact, listBytes } from '../../../unit-and-integration/firmware/trust/lists.ts';
import { buildDelta } from './deltas.ts';
import { APP, debOf } from './package-machine.ts';
import { DEVICE_TYPE, digestOf, sent } from './sending.ts';
import type { Sent } from './sending.ts';

/** How all versions come: as signed artifacts, the same for a gateway of two pairs of slots, or as raw images that the operator permits unsigned. */
export type Form = 'artifact' | 'pairs' | 'image';

/** One version at the service. The first word of its image decides about the health of a gateway that boots it. */
export interface CatalogEntry extends Sent {
  readonly id: string;
  /** Empty: it has none for a slot. */
  readonly image: string;
  /** Content of the second pair of slots, if there is one. */
  readonly boot: string;
  /** The meter's program after the installation. */
  readonly meter: string;
  /** The package in it. Default: the factory package stays. */
  readonly app?: string;
  /** The same as the slot holds it. */
  readonly bytes: Uint8Array;
  /** Content of a file on a USB stick: an artifact, or the image itself. */
  readonly decoded: Uint8Array;
  /** The digest for evidence and quarantine. Absent if it must never boot. */
  readonly digest: string | undefined;
  /** The fingerprint of the key. Absent if no list revokes the key. */
  readonly signedBy?: string | undefined;
  /** The version that this delta is based on. A gateway that reports a mismatch gets the full image. */
  readonly base?: string;
  readonly whole?: Sent & { readonly digest: string };
}

/** Whole, or as a delta. */
export function isDigestOf({ digest, whole }: CatalogEntry, given: string): boolean {
  return given === digest || given === whole?.digest;
}

/** Plain data, so that it can be given to a worker. */
export interface CatalogData {
  readonly artifacts: readonly CatalogEntry[];
  readonly pairs: readonly CatalogEntry[];
  readonly images: readonly CatalogEntry[];
  readonly trustedPems: readonly string[];
}

/** The versions in one form, and whom a gateway trusts that is to install them. */
export class Catalog {
  readonly list: readonly CatalogEntry[];
  readonly trust: TrustSettings;

  constructor({ trustedPems, ...lists }: CatalogData, form: Form) {
    this.list = { artifact: lists.artifacts, pairs: lists.pairs, image: lists.images }[form];
    const keys = trustedPems.map((pem, index) => ({ name: `key-${index}.pem`, ...parsePublicKey(pem) }));
    this.trust = { keys, allowUnsigned: form === 'image' };
  }

  entry(id: string): CatalogEntry {
    const found = this.list.find((entry) => entry.id === contentOf(id));
    if (found === undefined) throw new Error(`no version ${id}`);
    return found;
  }

  /** The version with this digest, unless evidence with it is about boards only. */
  forBoardsAlone(digest: string | undefined): CatalogEntry | undefined {
    return this.list.find(
      (entry) => entry.image === '' && entry.boot === '' && entry.digest !== undefined && entry.digest === digest,
    );
  }
}

/** The service may give the same content any id: `bad#2` is what `bad` is. */
export function contentOf(id: string): string {
  return id.replace(/#.*/, '');
}

/** The names of the targets. */
export const TARGET = 'gateway';
export const BOOT_TARGET = 'boot';
export const BOARD = 'meter';

const METER = { old: 'old meter', new: 'new meter program', bad: 'bad meter program' } as const;

/** The package that every gateway has at first. */
export const FACTORY_APP = 'good app 1: of the factory';

const withPackage = {
  app2: 'good app 2: longer than the first one',
  'app-bad': 'bad app: its health command complains',
  'app-dead': 'dead app: no agent comes up in it',
  'app-refused': 'refused app: dpkg cannot configure it',
} as const;

/** Content of the boot partition, for a gateway with two pairs. */
const boots = { v1: 'boot 1, of the factory', v2: 'boot 2, a longer one than 1', boot3: 'boot 3' } as const;

/** None is the beginning of another. */
const images = {
  v1: 'good v1: what came from the factory',
  v2: 'good v2: a longer image than the first one, with more in it',
  v3: 'good v3: shorter again',
  bad: 'bad: it boots, and its health command complains',
  dead: 'dead: it never starts the agent',
  hang: 'hang: its health command never ends',
  stuck: 'stuck: the whole machine stops while it is judged',
  blind: 'blind: it does not mount the state directory',
  volatile: 'volatile: it has the state directory in memory',
  frozen: 'frozen: it mounts the state directory read-only',
  stuffed: 'stuffed: its state directory has no room',
  flap: 'flap: now it is healthy, now it is not',
} as const;

/** Releases that we did not sign, or whose content differs from the signed one, must never boot. */
const withBoard = {
  both: { image: 'good both: an image and a program for the meter', meter: METER.new },
  'both-bad': { image: 'bad both: the meter is never flashed', meter: METER.new },
  board: { image: '', meter: METER.new },
  'board-bad': { image: '', meter: METER.bad },
} as const;

/** The base of each delta, the signed result, and the result of another delta under that signature. */
const deltas = {
  d2: { base: 'v1', image: 'good d2: rebuilt from what came from the factory' },
  d3: { base: 'd2', image: 'good d3: rebuilt from the one before it, and more' },
  'd-lie': { base: 'v1', image: 'good d-lie: what was signed', made: 'bad d-lie: what another delta makes of it' },
} as const;

const forgeries = {
  evil: 'evil: signed by a stranger',
  lie: 'lie: the signed manifest promises something else',
} as const;

export async function buildCatalog(): Promise<CatalogData> {
  const [own, second, stranger] = [makeKeyPair('rsa'), makeKeyPair('ecdsa-p256'), makeKeyPair('ed25519')];
  const trust = { keys: [own.trusted, second.trusted], allowUnsigned: false };
  const keyOf = (id: string): KeyPair => {
    if (id === 'evil') return stranger;
    return id === 'v3' ? second : own;
  };
  const artifacts: CatalogEntry[] = [];
  for (const [id, image] of Object.entries({ ...images, ...forgeries })) {
    const bytes = Buffer.from(image, 'latin1');
    const decoded = await buildArtifact({
      name: id,
      devices: [DEVICE_TYPE],
      key: keyOf(id).privateKey,
      files: [{ name: 'rootfs.img', content: bytes }],
      edit: id === 'lie' ? lying : {},
    });
    const digest = id in images ? await digestOf(decoded, trust) : undefined;
    const { fingerprint: signedBy } = keyOf(id).trusted;
    const text = sent(decoded, [image]);
    artifacts.push({ id, image, boot: '', meter: METER.old, bytes, decoded, ...text, digest, signedBy });
  }
  for (const [id, contents] of Object.entries(withBoard)) {
    const decoded = await buildArtifact({
      name: id,
      devices: [DEVICE_TYPE],
      key: own.privateKey,
      ...files(contents),
    });
    const bytes = Buffer.from(contents.image, 'latin1');
    const text = sent(decoded, [contents.image, contents.meter]);
    const digest = await digestOf(decoded, trust);
    artifacts.push({ id, ...contents, boot: '', bytes, decoded, ...text, digest });
  }
  artifacts.push(...(await buildPackages(own, trust)));
  artifacts.push(...(await buildDeltas(own, trust)), ...(await buildLists(artifacts, own, second)));
  return {
    artifacts,
    pairs: await buildPairs(own, trust),
    images: Object.entries(images).map(([id, image]) => rawEntry(id, image)),
    trustedPems: [own.publicPem, second.publicPem],
  };
}

async function buildPackages(own: KeyPair, trust: TrustSettings): Promise<readonly CatalogEntry[]> {
  const entries: CatalogEntry[] = [];
  for (const [id, app] of Object.entries(withPackage)) {
    const files = [{ name: 'app.deb', content: Buffer.from(debOf(app), 'latin1') }];
    const how = { name: id, devices: [DEVICE_TYPE], key: own.privateKey, files, targets: { 'app.deb': APP } };
    const decoded = await buildArtifact(how);
    const nothing = { image: '', boot: '', bytes: Buffer.alloc(0), meter: METER.old };
    const text = sent(decoded, [debOf(app)]);
    entries.push({ id, ...nothing, app, decoded, ...text, digest: await digestOf(decoded, trust) });
  }
  return entries;
}

async function buildDeltas(own: KeyPair, trust: TrustSettings): Promise<readonly CatalogEntry[]> {
  const known: Readonly<Record<string, { readonly image: string }>> = { v1: { image: images.v1 }, ...deltas };
  const entries: CatalogEntry[] = [];
  for (const [id, { base, image, ...rest }] of Object.entries(deltas)) {
    const bytes = Buffer.from(image, 'latin1');
    const options = { name: id, devices: [DEVICE_TYPE], key: own.privateKey };
    const made = 'made' in rest ? rest.made : image;
    const { decoded, file } = await buildDelta(options, {
      base: known[base]?.image ?? '',
      image,
      made,
      target: TARGET,
    });
    const all = await buildArtifact({ ...options, files: [{ name: 'rootfs.img', content: bytes }] });
    const whole = { ...sent(all, [image]), digest: await digestOf(all, trust) };
    const digest = await digestOf(decoded, trust);
    const parts = { boot: '', meter: METER.old, bytes, decoded, base, whole, digest };
    entries.push({ id, image, ...parts, ...sent(decoded, [file.toString('latin1')]) });
  }
  return entries;
}

/** One revokes a release, the other the key of most of them. */
async function buildLists(
  releases: readonly CatalogEntry[],
  own: KeyPair,
  second: KeyPair,
): Promise<readonly CatalogEntry[]> {
  const digest = releases.find(({ id }) => id === 'v2')?.digest ?? '';
  const revoking = {
    'trust-1': { keys: [], releases: [digest] },
    'trust-2': { keys: [own.trusted.fingerprint], releases: [] },
  };
  const entries: CatalogEntry[] = [];
  for (const [id, revoked] of Object.entries(revoking)) {
    const decoded = await listArtifact(listBytes({ revoked }), second.privateKey, { name: id, devices: [DEVICE_TYPE] });
    const nothing = { image: '', boot: '', bytes: Buffer.alloc(0), digest: undefined };
    entries.push({ id, ...nothing, meter: METER.old, decoded, ...sent(decoded, []) });
  }
  return entries;
}

/**
 * Releases for a boot partition and a root: complete ones, a forged root with a genuine boot partition, and the latter
 * alone.
 */
async function buildPairs(own: KeyPair, trust: TrustSettings): Promise<CatalogEntry[]> {
  const build = async (id: string, image: string, boot: string, edit: Partial<Edits> = {}): Promise<Buffer> => {
    const root = { name: 'rootfs.img', content: Buffer.from(image, 'latin1') };
    const all = [root, { name: 'boot.img', content: Buffer.from(boot, 'latin1') }];
    const held = all.filter(({ content }) => content.length > 0);
    const targets = Object.fromEntries(held.map(({ name }) => [name, name === 'boot.img' ? BOOT_TARGET : TARGET]));
    return buildArtifact({ name: id, devices: [DEVICE_TYPE], key: own.privateKey, files: held, targets, edit });
  };
  const entry = async (
    id: string,
    { image, boot }: Pick<CatalogEntry, 'image' | 'boot'>,
    decoded: Buffer,
  ): Promise<CatalogEntry> => {
    const bytes = Buffer.from(image, 'latin1');
    const digest = id === 'lie' ? undefined : await digestOf(decoded, trust);
    return { id, image, boot, meter: METER.old, bytes, decoded, ...sent(decoded, [image, boot]), digest };
  };
  const v1 = await build('v1', images.v1, boots.v1);
  const v2 = await build('v2', images.v2, boots.v2);
  const lie = await build('lie', forgeries.lie, boots.v2, lying);
  const boot3 = await build('boot3', '', boots.boot3);
  return [
    await entry('v1', { image: images.v1, boot: boots.v1 }, v1),
    await entry('v2', { image: images.v2, boot: boots.v2 }, v2),
    await entry('lie', { image: forgeries.lie, boot: boots.v2 }, lie),
    // Combined with any root that runs when it is installed.
    await entry('boot3', { image: images.v2, boot: boots.boot3 }, boot3),
    await entry('boot3', { image: images.v1, boot: boots.boot3 }, boot3),
  ];
}

function files({ image, meter }: { readonly image: string; readonly meter: string }): PayloadOptions {
  const board = { name: 'meter.bin', content: Buffer.from(meter, 'latin1') };
  if (image === '') return { files: [board], targets: { 'meter.bin': BOARD } };
  const rootfs = { name: 'rootfs.img', content: Buffer.from(image, 'latin1') };
  return { files: [rootfs, board], targets: { 'rootfs.img': TARGET, 'meter.bin': BOARD } };
}

function rawEntry(id: string, image: string): CatalogEntry {
  const bytes = Buffer.from(image, 'latin1');
  return {
    id,
    image,
    boot: '',
    meter: METER.old,
    bytes,
    decoded: bytes,
    ...sent(bytes, [image]),
    digest: sha256(bytes),
  };
}

/** Signed, and then the last letter of the payload is another one. */
const lying: Partial<Edits> = {
  data: (files) =>
    files.map(({ name, content }) => {
      const changed = content instanceof Uint8Array ? Buffer.from(content) : Buffer.alloc(0);
      changed.write('!', changed.length - 1);
      return { name, content: changed };
    }),
};
