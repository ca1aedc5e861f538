import { afterEach, beforeEach, expect, test } from 'vitest';

import { examplesOf, readPage, runExample } from '../../../page-examples.ts';
import { FileGateway } from '../../../stand-ins/machine/file-gateway.ts';

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

test('what a technician types stands on the page', async () => {
  const said: string[] = [];
  for (const example of examplesOf(await readPage('operate.md'))) said.push(await runExample(example, gateway));
  const all = said.join('\n');
  expect(all).toContain('a person should look');
  expect(all).toMatch(/Hold\s+.*the line is being repaired/);
});
