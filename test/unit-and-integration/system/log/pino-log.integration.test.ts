import { spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { createLog, type LogSettings } from '../../../../src/system/log/pino-log.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

let directory: string;
let descriptor: number;

beforeEach(() => {
  directory = folderUntilTestEnds();
  descriptor = openSync(join(directory, 'log'), 'a');
});

afterEach(() => {
  closeSync(descriptor);
});

function written(): string {
  return readFileSync(join(directory, 'log'), 'utf8');
}

function makeLog(options: Partial<LogSettings> = {}, environment: Readonly<Record<string, string>> = {}) {
  return createLog({ level: 'info', format: 'auto', descriptor, ...options }, environment);
}

describe('the log', () => {
  test('writes a line before the call returns', () => {
    makeLog().info({ slot: 'B' }, 'staged');
    expect(written()).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z info {2}staged slot=B\n$/);
  });

  test('gives the journal a priority instead of time and level', () => {
    const { dev, ino } = fstatSync(descriptor);
    makeLog({}, { JOURNAL_STREAM: `${dev}:${ino}` }).error({}, 'rolled back');
    expect(written()).toBe('<3>rolled back\n');
  });

  test('is not fooled by the journal of another process', () => {
    makeLog({}, { JOURNAL_STREAM: '8:123' }).error({}, 'rolled back');
    expect(written()).toMatch(/Z error rolled back\n$/);
  });

  test('is JSON, one object a line, where that is set', () => {
    makeLog({ format: 'json' }).warn({ bytes: 5, why: 'a\nb', nothing: undefined }, 'slow');
    expect(JSON.parse(written())).toEqual({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      bytes: 5,
      why: 'a\nb',
      msg: 'slow',
    });
  });

  test('is JSON without steering or invisible characters', () => {
    makeLog({ format: 'json' }).warn({ why: 'a\u{202E}b' }, 'slow\u{200B}');
    expect(written()).not.toMatch(/[\p{Cf}]/u);
    expect(JSON.parse(written())).toMatchObject({ why: 'a\u{202E}b', msg: 'slow\u{200B}' });
  });

  test('leaves out what is below its level', () => {
    const log = makeLog({ level: 'warn' });
    for (const level of ['debug', 'info', 'warn', 'error'] as const) log[level]({}, `at ${level}`);
    expect(written().match(/at \w+/g)).toEqual(['at warn', 'at error']);
  });

  test.each(['text', 'json'] as const)('hides secrets by their names and in addresses, as %s', (format) => {
    const log = makeLog({ format });
    log.info({ apiKey: 'S3CRET', 'X-ApiKey': 'S3CRET', password: 'S3CRET', url: 'https://u:S3CRET@h/?k=S3CRET' }, 'x');
    log.info({}, 'GET https://u:S3CRET@h/?k=S3CRET failed');
    expect(written()).not.toContain('S3CRET');
    expect(written().match(/\*{8}/g)).toHaveLength(7);
  });
});

test('a full disk under the log does not end the program that logs', async () => {
  const full = openSync('/dev/full', 'a');
  const log = createLog({ level: 'info', format: 'auto', descriptor: full }, {});
  for (let line = 0; line < 3; line += 1) {
    expect(() => log.info({ line }, 'no room')).not.toThrow();
    await new Promise((resolve) => setImmediate(resolve));
  }
  closeSync(full);
});

test('a reader that goes away does not end the program that logs', async () => {
  const script = `
    import { createLog } from ${JSON.stringify(join(import.meta.dirname, '../../../../src/system/log/pino-log.ts'))};
    const log = createLog({ level: 'info', format: 'auto' }, process.env);
    process.stdin.once('data', () => {
      for (let line = 0; line < 100; line += 1) log.info({ line }, 'is anybody there?');
      setImmediate(() => { console.log('still here'); process.exit(0); });
    });
    console.log('ready');`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: 'pipe' });
  child.stdout.once('data', () => {
    child.stderr.destroy();
    child.stdin.write('go\n');
  });
  expect(await text(child.stdout)).toBe('ready\nstill here\n');
});
