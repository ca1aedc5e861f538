import { describe, expect, test } from 'vitest';

import {
  evidenceFromReading,
  evidenceOf,
  evidenceOfFile,
  evidenceOfKept,
  evidenceOfSlot,
} from '../../../src/update/evidence.ts';
import type { FirmwareRecord } from '../../../src/update/journal/state.ts';
import type { PayloadHeader } from '../../../src/update/ports.ts';
import type { StagedFirmware, StagedPayload } from '../../../src/update/ports/incoming.ts';

const header: PayloadHeader = { fileName: 'rootfs.img', target: 'rootfs-image' };
const written = { sizeBytes: 4, digest: 'sha256:written', unchangedBytes: 0 };

function staged(...payloads: readonly StagedPayload[]): StagedFirmware {
  const firmware = {
    kind: 'artifact',
    digest: 'sha256:all',
    name: 'v2',
    signedBy: 'release',
    payloads: [header],
  } as const;
  return { header: firmware, digest: 'sha256:all', provides: {}, payloads };
}

describe('evidence of a staged update', () => {
  test('names the firmware where each payload is what its manifest promises, or may be unsigned', () => {
    const promise = { kind: 'manifest', digest: 'sha256:written' } as const;
    expect(evidenceOf(staged({ header, written, promise }))).toMatchObject({ digest: 'sha256:all' });
    const permitted = { kind: 'unsigned-permitted' } as const;
    expect(evidenceOf(staged({ header, written, promise: permitted }))).toMatchObject({ digest: 'sha256:all' });
  });

  test('does not exist where something else was written than the manifest promises', () => {
    const promise = { kind: 'manifest', digest: 'sha256:promised' } as const;
    expect(() => evidenceOf(staged({ header, written, promise }))).toThrow(/sha256:written was written/);
  });

  test('does not exist of nothing', () => {
    expect(() => evidenceOf(staged())).toThrow(/no payload/);
  });
});

describe('evidence of a slot', () => {
  const verified = evidenceFromReading({ digest: 'sha256:all', provides: {}, payloads: [] }, new Map());
  const configured = ['boot', 'root'];

  test('covers each partition, whether it was written or read', () => {
    const read = [{ target: 'root', recorded: 'sha256:1', found: 'sha256:1' }];
    const contents = { slot: 'B', configured, staged: ['boot'], read } as const;
    expect(evidenceOfSlot(verified, contents)).toMatchObject({ digest: 'sha256:all', slot: 'B' });
  });

  test('does not exist where nothing vouches for one of its partitions', () => {
    const contents = { slot: 'B', configured, staged: ['boot'], read: [] } as const;
    const refusal: unknown = expect.objectContaining({ code: 'slot-incomplete', exit: 'refused' });
    expect(() => evidenceOfSlot(verified, contents)).toThrow(refusal);
  });

  test('does not exist where something else is read than was recorded', () => {
    const read = [{ target: 'root', recorded: 'sha256:1', found: 'sha256:2' }];
    const contents = { slot: 'B', configured, staged: ['boot'], read } as const;
    expect(() => evidenceOfSlot(verified, contents)).toThrow(/sha256:2 in slot B instead of sha256:1/);
  });
});

describe('evidence after a restart', () => {
  const payload = { target: 'gateway', kind: 'slots', sizeBytes: 4, digest: 'sha256:written' } as const;
  const record: FirmwareRecord = { digest: 'sha256:all', provides: {}, payloads: [payload] };

  test('is the data read now, if that matches the record', () => {
    const found = new Map([['gateway', 'sha256:written']]);
    expect(evidenceFromReading(record, found)).toMatchObject({ digest: 'sha256:all' });
  });

  test.each([[new Map([['gateway', 'sha256:rotten']])], [new Map<string, string>()]])(
    'does not exist where %o is read',
    (found) => {
      expect(() => evidenceFromReading(record, found)).toThrow(/instead of sha256:written/);
    },
  );
});

describe('evidence for a board', () => {
  test('names its stored file, if that matches the record', () => {
    const kept = { target: 'meter', recorded: 'sha256:1', found: 'sha256:1' };
    expect(evidenceOfKept(kept)).toMatchObject({ digest: 'sha256:1' });
    expect(() => evidenceOfKept({ ...kept, found: 'sha256:2' })).toThrow(/meter holds sha256:2 instead of sha256:1/);
  });

  test('names only an operator’s file that is signed for this board or permitted', () => {
    expect(evidenceOfFile('sha256:f', { isSigned: true, allowUnsigned: false })).toMatchObject({ digest: 'sha256:f' });
    expect(evidenceOfFile('sha256:f', { isSigned: false, allowUnsigned: true })).toMatchObject({ digest: 'sha256:f' });
    expect(() => evidenceOfFile('sha256:f', { isSigned: false, allowUnsigned: false })).toThrow(/is unsigned/);
  });
});
