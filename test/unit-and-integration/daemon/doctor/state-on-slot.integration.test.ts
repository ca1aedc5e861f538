import { execFile } from 'node:child_process';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { expect, test } from 'vitest';

import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';

const run = promisify(execFile);
const SLOT_BYTES = 409_600;

test('config check, doctor and staging reject a state directory on a slot', async () => {
  await using stack = new AsyncDisposableStack();
  const image = Buffer.alloc(200_000, 'healthy\n');
  const versions = ['v1', 'v2'].map((id) => ({ id, firmware: bufferContent(image) }));
  const service = stack.use(await startStandIn({ versions, currentVersionId: 'v1', targetVersionId: 'v2' }));
  const options = { serviceUrl: service.url, image, slotBytes: SLOT_BYTES };
  const gateway = stack.use(await FileGateway.create(options));
  const inGateway = (name: string): string => join(gateway.directory, name);
  const slot = gateway.slots.A;
  const copy = inGateway('slot-on-loop.img');
  await copyFile(slot, copy);
  await run('truncate', ['-s', '8M', copy]);
  await run('mkfs.ext4', ['-q', '-F', copy]);
  const { stdout } = await run('losetup', ['--find', '--show', copy]);
  const device = stdout.trim();
  stack.defer(async () => void (await run('losetup', ['-d', device])));
  await mkdir(inGateway('state'));
  await run('mount', [device, inGateway('state')]);
  stack.defer(async () => void (await run('umount', ['-q', inGateway('state')])));
  const config = await readFile(gateway.configFile, 'utf8');
  await writeFile(gateway.configFile, config.replace(slot, device));
  const told = expect.stringMatching(/is on the slot/) as unknown;
  expect(await gateway.run('config', 'check')).toMatchObject({ exitCode: 78, stderr: told });
  expect(await gateway.run('doctor')).toMatchObject({ stdout: told });
  const answer = await gateway.run('--update-now');
  expect(answer).toMatchObject({ exitCode: 78, stderr: told });
  expect(await readFile(gateway.slots.B)).toEqual(Buffer.alloc(SLOT_BYTES));
});
