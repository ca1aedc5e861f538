import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { holdersOf } from '../../../src/serial/port-holders.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';

let root = '';

beforeEach(() => {
  root = folderUntilTestEnds();
});

test('the program that holds a port is named', async () => {
  const path = join(root, 'port');
  await writeFile(path, '');
  const holder = spawn('sh', ['-c', 'exec 3<"$0"; echo ready; read -r _', path], { stdio: ['pipe', 'pipe', 'ignore'] });
  await once(holder.stdout, 'data');
  try {
    expect(await holdersOf(path)).toEqual([`sh (${holder.pid})`]);
  } finally {
    const ended = once(holder, 'close');
    holder.kill();
    await ended;
  }
});

// Regression: of two sources on one port, the error named another program, or none.
test('this process is named as the agent', async () => {
  const path = join(root, 'port');
  await writeFile(path, '');
  await using _held = await open(path);
  expect(await holdersOf(path)).toEqual([`this agent (${process.pid})`]);
});
