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

/** What is printed by all that the page says to type. */
async function typeAll(page: string): Promise<string> {
  const said: string[] = [];
  for (const example of examplesOf(await readPage(page))) said.push(await runExample(example, gateway));
  return said.join('\n');
}

test('what the page about operating says to type can be typed', async () => {
  const said = await typeAll('operations.md');
  expect(said).toContain('a person should look');
  expect(said).toMatch(/Hold\s+.*the line is being repaired/);
});

test('what the page about repairs says to type can be typed, and packs a report', async () => {
  expect(await typeAll('troubleshooting.md')).toContain('The artifact’s signature is not by a trusted key');
  expect((await stat(join(gateway.directory, 'gateway.tar.gz'))).size).toBeGreaterThan(1000);
});

test('what the page for integrators says to type makes releases and lists', async () => {
  const examples = examplesOf(await readPage('image-requirements.md'));
  expect(examples).toHaveLength(5);
  for (const example of examples) expect(await runExample(example, gateway)).toMatch(patternOf(example));
  const made = ['1.4.0.mender', '1.5.0.mender', '1.5.0.delta.mender', 'firmware.json', 'trust-2.json'];
  expect(await readdir(gateway.directory)).toEqual(expect.arrayContaining(made));
});
