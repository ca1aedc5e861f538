import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { examplesOf, patternOf, readPage, runExample } from '../../../page-examples.ts';

let gateway: FileGateway;

beforeEach(async () => {
  gateway = await FileGateway.create({
    image: Buffer.from('healthy 0'),
    slotBytes: 1024 * 1024,
    serviceUrl: 'http://127.0.0.1:9',
  });
});
afterEach(async () => {
  await gateway[Symbol.asyncDispose]();
});

/** Returns the output of all commands on the page. */
async function typeAll(page: string): Promise<string> {
  const said: string[] = [];
  for (const example of examplesOf(await readPage(page))) said.push(await runExample(example, gateway));
  return said.join('\n');
}

test('each command of the operations page runs', async () => {
  const said = await typeAll('operations.md');
  expect(said).toContain('needs attention');
  expect(said).toMatch(/Hold\s+.*the line is being repaired/);
});

test('each command of the troubleshooting page runs, and makes a support bundle', async () => {
  expect(await typeAll('troubleshooting.md')).toContain('The artifact’s signature is not by a trusted key');
  expect((await stat(join(gateway.directory, 'gateway.tar.gz'))).size).toBeGreaterThan(1000);
});

test.each([
  ['signing-and-keys.md', 3, ['1.4.0.mender', 'firmware.json', 'trust-2.json']],
  ['boards.md', 1, ['1.5.0.mender']],
  ['package-targets.md', 1, ['1.6.0.mender']],
  ['deltas.md', 1, ['1.5.0.delta.mender']],
])('makes the files of %s with its %i examples', async (page, count, files) => {
  const examples = examplesOf(await readPage(page));
  expect(examples).toHaveLength(count);
  for (const example of examples) expect(await runExample(example, gateway)).toMatch(patternOf(example));
  expect(await readdir(gateway.directory)).toEqual(expect.arrayContaining(files));
});
