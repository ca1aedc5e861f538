import fc from 'fast-check';

import { firmwareOpener } from '../../../../../src/firmware/open-firmware.ts';
import { buildArtifact } from '../../../../unit-and-integration/firmware/artifact/build-artifact.ts';
import type { ArtifactOptions, Edits } from '../../../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../../../unit-and-integration/firmware/artifact/keys.ts';
import { RecordingGateway } from '../../../../unit-and-integration/firmware/artifact/recording-gateway.ts';
import type { TarMemberBytes } from '../../../../unit-and-integration/firmware/artifact/tar-blocks.ts';
import { MemorySource } from '../../../../unit-and-integration/firmware/sources.ts';
import { stageInto } from '../../../../unit-and-integration/firmware/stage-into.ts';
import { encode, jsonString } from '../../../../unit-and-integration/firmware/text/wire-text.ts';
import { changedJson, edited, editedText, edits, hostile, jsonChanges } from '../../mutation.ts';
import type { Edit, JsonChange } from '../../mutation.ts';
import { openTarget, outcomeOf } from '../../target.ts';
import type { FuzzTarget } from '../../target.ts';

const { privateKey: key, trusted } = makeKeyPair('ecdsa-p256', 'release.pem');
const contents = new Map([
  ['rootfs.ext4', Buffer.alloc(20_000, 'the root file system ')],
  ['meter.hex', Buffer.alloc(900, 'the meter')],
]);
const options: ArtifactOptions = {
  name: 'release-2',
  devices: ['gw'],
  files: Array.from(contents, ([name, content]) => ({ name, content })),
  targets: { 'rootfs.ext4': 'gateway', 'meter.hex': 'meter' },
  provides: { 'rootfs-image.version': '2' },
  key,
};
const open = firmwareOpener({
  encoding: 'auto',
  trust: { keys: [trusted], allowUnsigned: false },
  deviceType: 'gw',
});

const compressions = ['none', 'gzip', 'zstd', 'xz'] as const;
const cut = fc.integer({ min: 1, max: 5000 });

interface Corrupted {
  readonly bytes: Buffer;
  readonly chunkBytes: number;
  readonly form: 'json-string' | 'decoded';
}

/** Unsigned bytes: only signed bytes are delivered, and none before they are verified. */
export const artifactBytes: FuzzTarget = {
  name: 'artifact',
  open: async () => {
    const valid = await Promise.all(compressions.map((compression) => buildArtifact({ ...options, compression })));
    const cases = fc.record({
      bytes: hostile(fc.constantFrom(...valid)),
      chunkBytes: cut,
      form: fc.constantFrom('json-string' as const, 'decoded' as const),
    });
    return openTarget(cases, requireOnlyWhatWasSigned);
  },
};

async function requireOnlyWhatWasSigned(input: Corrupted): Promise<void> {
  const gateway = new RecordingGateway();
  const outcome = await stageBytes(gateway, input);
  if (gateway.unclosed !== 0) throw new Error('a payload was left open');
  if ('error' in outcome) {
    const isBefore = ['signature-invalid', 'artifact-unsigned', 'checksum-mismatch'].includes(outcome.error.code);
    if (isBefore && gateway.events.length > 0) throw new Error(`${outcome.error.code} after ${gateway.events.join()}`);
    return;
  }
  for (const [name, content] of contents) {
    if (gateway.contents.get(name)?.equals(content) !== true) throw new Error(`took another ${name}`);
  }
  if (gateway.contents.size !== contents.size) throw new Error('took more files than were signed');
}

/** Artifacts of an attacker with the key: each may be accepted or rejected, and nothing crashes. */
export const signedArtifact: FuzzTarget = {
  name: 'signed-artifact',
  open: async () => {
    const cases = fc.record({
      places: fc.uniqueArray(fc.constantFrom(...placesToEdit), { minLength: 1, maxLength: 2 }),
      edits,
      changes: jsonChanges,
      compression: fc.constantFrom('none' as const, 'gzip' as const, 'zstd' as const),
      chunkBytes: cut,
    });
    return openTarget(cases, async ({ places, edits, changes, compression, chunkBytes }) => {
      const edit: Partial<Edits> = {
        ...(places.includes('version') && { version: (text) => editedText(text, edits) }),
        ...(places.includes('manifest') && { manifest: (text) => editedText(text, edits) }),
        ...(places.includes('signature') && { signature: (text) => editedText(text, edits) }),
        ...(places.includes('header-info') && { headerInfo: (info) => changedJson(info, changes) }),
        ...(places.includes('header-tar') && { headerTar: (tar) => edited(tar, edits) }),
        ...(places.includes('type-info') && { header: (members) => members.map((one) => retyped(one, changes)) }),
        ...(places.includes('members') && { members: (members) => members.map((one) => spoiled(one, edits)) }),
      };
      const bytes = await buildArtifact({ ...options, compression, edit });
      const gateway = new RecordingGateway();
      await stageBytes(gateway, { bytes, chunkBytes, form: 'decoded' });
      if (gateway.unclosed !== 0) throw new Error('a payload was left open');
    });
  },
};

const placesToEdit = ['version', 'manifest', 'signature', 'header-info', 'header-tar', 'type-info', 'members'] as const;

/** The JSON members of the header: header-info, type-info, meta-data. */
function retyped(member: TarMemberBytes, changes: readonly JsonChange[]): TarMemberBytes {
  const text = Buffer.from(member.content).toString('utf8');
  if (!text.startsWith('{')) return member;
  return { ...member, content: Buffer.from(JSON.stringify(changedJson(JSON.parse(text), changes))) };
}

function spoiled(member: TarMemberBytes, changes: readonly Edit[]): TarMemberBytes {
  return { ...member, content: edited(member.content, changes) };
}

function stageBytes(gateway: RecordingGateway, { bytes, chunkBytes, form }: Corrupted) {
  const text = form === 'decoded' ? bytes : jsonString(encode(bytes, 'base64'));
  const source = new MemorySource(text, { form, chunkSizes: [chunkBytes] });
  const request = { ...gateway.places, source, onProgress: () => {} };
  return outcomeOf(async () => stageInto(open, request, new AbortController().signal));
}
