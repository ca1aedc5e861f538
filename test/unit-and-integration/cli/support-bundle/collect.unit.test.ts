import { describe, expect, test } from 'vitest';

import { collect } from '../../../../src/cli/support-bundle/collect.ts';
import type { Section } from '../../../../src/cli/support-bundle/collect.ts';
import { Redactor } from '../../../../src/system/log/redactor.ts';
import { fakeContext, fakeSupport } from '../fake-context.ts';
import { fakeAgent } from '../fake-operations.ts';

const forever = new AbortController().signal;

function part(read: () => Promise<unknown>, more: Partial<Section> = {}): Section {
  return { name: 'unit', file: 'unit.txt', meaning: 'a unit', timeoutMs: 10_000, read, ...more };
}

async function gathered(parts: readonly Section[], secrets: readonly string[] = [], signal = forever) {
  const sources = { agent: fakeAgent(), support: fakeSupport, context: fakeContext() };
  const { files, missing, hidden } = await collect(parts, sources, new Redactor(secrets), signal);
  return {
    files: files.map(({ file, bytes, isCut }) => ({ file, isCut, text: Buffer.from(bytes).toString() })),
    missing,
    hidden,
  };
}

const fine = part(async () => 'fine\n', { file: 'fine.txt' });
const never = part(async () => new Promise(() => {}), { timeoutMs: 1 });

describe('a part of a report', () => {
  test('that never ends and ignores signals is stopped in time, and delays no other', async () => {
    const { files, missing } = await gathered([never, fine]);
    expect(files).toMatchObject([{ file: 'fine.txt', text: 'fine\n', isCut: false }]);
    expect(missing).toEqual([{ part: 'unit', code: 'part-unavailable', why: 'unit was not available within 0.001 s' }]);
  });

  test('that has a defect is missing, and reveals no secret', async () => {
    const broken = part(async () => {
      throw new TypeError('no s3cret here');
    });
    const { files, missing } = await gathered([broken, fine], ['s3cret']);
    expect(files).toHaveLength(1);
    expect(missing).toEqual([{ part: 'unit', code: 'internal-error', why: 'no ******** here' }]);
  });

  test('is truncated at its limit: a log at its beginning, anything else at its end', async () => {
    const lines = Array.from({ length: 400_000 }, (_, index) => `${index}`).join('\n');
    const { files } = await gathered([
      part(async () => lines, { file: 'log.txt', keep: 'end' }),
      part(async () => lines, { file: 'head.txt' }),
    ]);
    const [log, head] = files;
    expect([log?.isCut, head?.isCut]).toEqual([true, true]);
    expect(log?.text).toMatch(/^\d+\n[^]*\n399999$/);
    expect(head?.text).toMatch(/^0\n1\n/);
    expect(Math.max(...files.map(({ text }) => text.length))).toBeLessThanOrEqual(2 * 1024 * 1024);
  });

  test('steers no terminal, and hides nothing by it', async () => {
    const { files } = await gathered([part(async () => 'a\u001B[2Jb\tc\u202Ed\n')]);
    expect(files).toMatchObject([{ text: 'a\\x1b[2Jb\tc\\u{202e}d\n' }]);
  });

  test('ends with its client', async () => {
    const ending = new AbortController();
    const interrupting = part(async () => {
      ending.abort(new Error('enough'));
      return undefined;
    });
    await expect(gathered([interrupting, never], [], ending.signal)).rejects.toThrow('enough');
  });
});
