import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { artifact, image, releaseKey } from '../../../../fakes/machine/demo-firmware.ts';
import { FileGateway } from '../../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../../../until-test-ends.ts';

let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  const firmware = bufferContent(await artifact('1', image('healthy 1')));
  service = untilTestEnds(await startStandIn({ versions: [{ id: '1', firmware }] }));
  const options = {
    serviceUrl: service.url,
    image: image('healthy 0'),
    slotBytes: 2_000_000,
    trustedKey: releaseKey.publicPem,
  };
  gateway = untilTestEnds(await FileGateway.create(options));
  const hook = (name: string): string => `${name} = { command = ["${join(gateway.directory, 'hook')}", "${name}"] }`;
  const extraToml = `[hooks]\n${hook('before_install')}\n${hook('before_reboot')}\n${hook('after_commit')}\n`;
  await gateway.configure({ ...options, extraToml });
});

/** The hooks' action from now on. */
async function hooksDo(script: string): Promise<void> {
  await writeFile(join(gateway.directory, 'hook'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

test('an application that is busy puts the reboot off, and the daemon asks it again', async () => {
  await hooksDo('test "$1" = before_install || { echo "the press is running" >&2; exit 75; }');
  await gateway.startDaemon();
  await expect
    .poll(async () => gateway.json('status'), { interval: 100 })
    .toMatchObject({ state: 'staged', hookDeferral: { reason: 'before_reboot defers: the press is running' } });
  const page = (await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ');
  expect(page).toContain('Consent before_reboot defers: the press is running; next call');
  expect(gateway.boot()).toBe('A');
  await hooksDo('cat > "$0.$1"');
  expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
  expect(gateway.rebootRequested).toBe(true);
  expect(gateway.boot()).toBe('B');
  await gateway.run('--update-now');
  const told: unknown = JSON.parse(await readFile(join(gateway.directory, 'hook.after_commit'), 'utf8'));
  expect(told).toMatchObject({ format: 1, hook: 'after_commit', version: { id: '1', name: '1' }, slot: 'B' });
});

test('an application that rejects an update is reported to the technician and to the service', async () => {
  await hooksDo('cat > "$0.$1"; echo "the data is too old" >&2; exit 1');
  const words = 'before_install rejects (exit code 1): the data is too old';
  expect(await gateway.json('--update-now')).toMatchObject({ error: { code: 'hook-rejected', message: words } });
  expect(await gateway.json('status')).toMatchObject({
    lastOutcome: { code: 'hook-rejected', reason: words },
    quarantine: [],
  });
  expect(service.callsOf('firmware')).toHaveLength(0);
  const [report] = service.callsOf('setProperty').map(({ body }) => JSON.parse(body) as unknown);
  expect(report).toMatchObject({ version: '1', outcome: 'refused', code: 'hook-rejected', reason: words });
  expect(await gateway.json('--update-now', '--force')).toMatchObject({ outcome: { kind: 'rebooting' } });
});
