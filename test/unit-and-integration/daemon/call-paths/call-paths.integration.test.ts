import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { artifact, image, releaseKey } from '../../../fakes/machine/demo-firmware.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { versionsOf } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';

interface CallPath {
  readonly sink: string;
  readonly stack: readonly string[];
}

/** `at async Staging.run (file:///…/src/update/staging/staging.ts:97:14)` → `Staging.run update/staging/staging.ts` */
function frameOf(line: string): string | undefined {
  const [, name, path] = /at (?:async )?(?:(.+?) \()?file:\/\/.*\/src\/(.+?):\d+:\d+/.exec(line) ?? [];
  return path === undefined ? undefined : `${name ?? '(anonymous)'} ${path}`;
}

function framesOf(path: CallPath | undefined): readonly string[] {
  return path?.stack.map(frameOf).filter((frame) => frame !== undefined) ?? [];
}

test('the daemon reaches a slot and the service by short call paths', async () => {
  const versions = versionsOf({ '1.0.0': await artifact('1.0.0', image('healthy 1')) });
  await using service = await startStandIn({ versions, currentVersionId: '1.0.0' });
  await using gateway = await FileGateway.create({
    serviceUrl: service.url,
    image: image('healthy 0'),
    slotBytes: 2_000_000,
    trustedKey: releaseKey.publicPem,
    program: join(import.meta.dirname, '../../../../agent'), // from its sources, which name the functions
  });
  const file = join(gateway.directory, 'call-paths');
  const hook = `--import=${join(import.meta.dirname, 'call-path-hook.ts')}`;
  await gateway.startDaemon(() => {}, { NODE_OPTIONS: hook, CALL_PATHS: file });
  await gateway.rebootRequest(AbortSignal.timeout(60_000));
  const paths = (await readFile(file, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as CallPath);
  const write = framesOf(paths.find(({ sink }) => sink === 'write'));
  const check = framesOf(
    paths.findLast(({ sink, stack }) => sink === 'send' && stack.some((line) => line.includes('findCandidate'))),
  );
  // with the sink, which is not a caller
  expect({ write, isShort: write.length + 1 <= 19 }).toMatchObject({ isShort: true });
  expect({ check, isShort: check.length + 1 <= 18 }).toMatchObject({ isShort: true });
  expect([write.at(-1), check.at(-1)]).toEqual(['run main.ts', 'run main.ts']);
});
