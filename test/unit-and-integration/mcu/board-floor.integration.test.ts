import { generateKeyPairSync } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { initialState } from '../../../src/update/journal/state.ts';
import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import { mcubootFile, tlv, tlvArea } from './images/build.ts';

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });

function imageWith(counter: number): Buffer {
  const value = Buffer.alloc(4);
  value.writeUInt32LE(counter);
  return mcubootFile(Buffer.from('application'), privateKey, tlvArea(0x6908, [tlv(0x50, value)]));
}

/** The port is not there: who gets as far has been let through. */
test('a file below the committed security counter or version is flashed only with root’s --force', async () => {
  await using gateway = await FileGateway.create({
    serviceUrl: 'http://127.0.0.1:9',
    image: Buffer.from('healthy 0\n'),
    slotBytes: 10_000,
  });
  const place = (name: string): string => join(gateway.directory, name);
  const toml = '[targets.meter]\nkind = "mcu"\nport = "/dev/ttyNONE"\nprotocol = "smp"\n';
  await gateway.configure({
    serviceUrl: 'http://127.0.0.1:9',
    image: Buffer.alloc(0),
    slotBytes: 0,
    extraToml: `${toml}mcuboot_key_file = "${place('key.pem')}"\n`,
  });
  await writeFile(place('key.pem'), publicKey.export({ type: 'spki', format: 'pem' }));
  await mkdir(place('state'));
  await writeFile(
    place('state/journal.json'),
    JSON.stringify({ ...initialState, boardFloors: { meter: { securityVersion: 4, name: '1.2.4' } } }),
  );
  await writeFile(place('old.bin'), imageWith(3));
  await writeFile(place('same.bin'), imageWith(4));
  const flash = async (...words: readonly string[]): Promise<string> => {
    const { stderr } = await gateway.run('mcu', 'flash', 'meter', ...words);
    return stderr.replaceAll(/\s+/g, ' ');
  };
  expect(await flash(place('old.bin'))).toMatch(/security counter 3 for meter, and 4 was installed.*\(downgrade\)/);
  for (const words of [[place('same.bin')], [place('old.bin'), '--allow-downgrade']])
    expect(await flash(...words)).toContain('port-missing');
  const { stdout } = await gateway.run('log', '--security');
  expect(stdout).toContain('downgrade-rejected');
  expect(stdout).toMatch(/force-used[^]*--allow-downgrade/);
});
