import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { beforeEach, expect, test } from 'vitest';

import { folderUntilTestEnds } from '../until-test-ends.ts';

const program = join(import.meta.dirname, 'demo.ts');

let folder: string;

beforeEach(() => {
  folder = folderUntilTestEnds();
});

/** In a group of its own, as a shell starts it. */
function demo(...args: readonly string[]) {
  const options = { detached: true, env: { ...process.env, TMPDIR: folder } };
  return spawn(process.execPath, [program, ...args], options);
}

type Demo = ReturnType<typeof demo>;

/** Reads no further, which closes the pipe, or lets it be. */
async function told(child: Demo, words: string, destroyOnReturn: boolean): Promise<void> {
  let text = '';
  for await (const chunk of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn })) {
    text += String(chunk);
    if (text.includes(words)) return;
  }
  throw new Error(`the demo has ended before it said ${words}: ${text}`);
}

async function ended(child: Demo): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return child.exitCode;
}

function livesOn({ pid = 0 }: Demo): boolean {
  try {
    return process.kill(-pid, 0);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false;
    throw error;
  }
}

/** Directories that all runs share are not left over. */
async function leftFolders(): Promise<readonly string[]> {
  return (await readdir(folder)).filter((name) => /^(gateway|avr)-/.test(name));
}

test('the demo leaves no process and nothing in the temporary folder after Ctrl-C', { timeout: 120_000 }, async () => {
  const child = demo();
  await told(child, 'agent started', false);
  child.stdout.resume();
  process.kill(-(child.pid ?? 0), 'SIGINT');
  expect(await ended(child)).toBe(130);
  expect(await leftFolders()).toEqual([]);
  expect(livesOn(child)).toBe(false);
});

test('nor where its reader has seen enough', { timeout: 120_000 }, async () => {
  const child = demo();
  await told(child, 'agent started', true);
  expect(await ended(child)).toBe(130);
  expect(await leftFolders()).toEqual([]);
  expect(livesOn(child)).toBe(false);
});

test('prints its options, and rejects others', async () => {
  const child = demo('--frob');
  let text = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  expect(await ended(child)).toBe(64);
  expect(text).toContain('usage: npm run demo -- [--keep]');
});
