import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, expect, test } from 'vitest';

import type { StatusReport } from '../../../../src/control/reports.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import { examplesOf, patternOf, readPage, runExample } from '../../../page-examples.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { feed, sensorAndBoard } from '../outside-readers.ts';

let gateway: FileGateway;

beforeEach(async () => {
  const versions = ['0', '1'].map((id) => ({ id, name: id, firmware: bufferContent(Buffer.from(`healthy ${id}`)) }));
  const service = untilTestEnds(await startStandIn({ versions, targetVersionId: '0' }));
  const options = {
    image: Buffer.from('healthy 0'),
    slotBytes: 1024 * 1024,
    serviceUrl: service.url,
    extraToml: sensorAndBoard,
  };
  gateway = untilTestEnds(await FileGateway.create(options));
  await gateway.run('--update-now');
  gateway.boot();
  await gateway.startDaemon();
  while (((await gateway.json('status')) as StatusReport).state !== 'ok');
  service.world.targetVersionId = '1';
});

test('the examples of the page work as described', async () => {
  const examples = examplesOf(await readPage('api.md'));
  expect(examples.length).toBeGreaterThan(5);
  await writeFile(join(gateway.directory, '1.4.0.mender'), 'no artifact');
  for (const example of examples) expect(await runExample(example, gateway)).toMatch(patternOf(example));
  const ofMeasurements = examplesOf(await readPage('measurements.md'));
  expect(ofMeasurements).toHaveLength(1);
  for (const example of ofMeasurements) expect(await runExample(example, gateway)).toContain('"safeAt"');
  expect(JSON.parse(await readFile(join(gateway.directory, 'thing-agent.openapi.json'), 'utf8'))).toMatchObject({
    openapi: '3.1.0',
  });
});

const checker = `
import json, sys
from jsonschema import Draft202012Validator
told = json.load(sys.stdin)
document = told['document']
for name, schema in document['components']['schemas'].items(): Draft202012Validator.check_schema(schema)
def close(schema):
    if isinstance(schema, dict):
        if 'properties' in schema: schema.setdefault('additionalProperties', False)
        for inner in schema.values(): close(inner)
    if isinstance(schema, list):
        for inner in schema: close(inner)
close(document['components']['schemas'])
for name, value in told['replies']:
    Draft202012Validator(document['components']['schemas'][name]).validate(value)
print('valid')
`;

/** Runs python3-jsonschema, which accepts only described members in a reply. */
async function check(told: object): Promise<string> {
  const [, said] = await feed('/usr/bin/python3', ['-c', checker], JSON.stringify(told));
  return said;
}

test('the schemas are JSON Schema, and a daemon’s replies match them', async () => {
  const document = (await gateway.json('api')) as object;
  const ask = async (path: string, ...more: readonly string[]): Promise<readonly unknown[]> => {
    const socket = join(gateway.directory, 'run/control.sock');
    const { stdout } = await promisify(execFile)('curl', [
      '-sSN',
      '--unix-socket',
      socket,
      ...more,
      `http://agent${path}`,
    ]);
    return stdout
      .trim()
      .split('\n')
      .map((line): unknown => JSON.parse(line));
  };
  const lines = await ask('/v1/update', '-d', '{"reboot":false}');
  const answered = ['Status', 'Check', 'Doctor', 'History', 'SecurityLog', 'Queue', 'Boards'];
  const paths = ['status', 'check', 'doctor', 'history', 'security', 'queue', 'boards'];
  const orders: readonly (readonly [string, string, string])[] = [
    ['SendDatapoint', '/v1/events/level/datapoints', '{"value":3}'],
    ['SendDatapoints', '/v1/datapoints', '{"points":[]}'],
    ['SyncQueue', '/v1/queue/sync', '{}'],
    ['Hold', '/v1/hold', '{"durationMs":60000,"reason":"a repair"}'],
    ['Resume', '/v1/resume', '{}'],
    ['Activate', '/v1/activate', '{}'],
  ];
  const replies: (readonly [string, unknown])[] = lines.map((line) => ['StreamLine', line]);
  for (const [index, path] of paths.entries()) {
    replies.push([`${answered[index]}Reply`, (await ask(`/v1/${path}`))[0]]);
  }
  for (const [name, path, body] of orders) replies.push([`${name}Reply`, (await ask(path, '-d', body))[0]]);
  replies.push(['ErrorReply', (await ask('/v1/nonsense'))[0]]);
  await writeFile(join(gateway.directory, 'file.img'), 'healthy 2');
  const inspected = await ask('/v1/inspect?path=/file.img', '-X', 'POST', '-T', join(gateway.directory, 'file.img'));
  replies.push(['InspectReply', inspected[0]]);
  expect(await check({ document, replies })).toBe('valid\n');
  const status = replies.find(([name]) => name === 'StatusReply')?.[1] as object;
  const wrong = async (more: object): Promise<string> =>
    check({ document, replies: [['StatusReply', { ...status, ...more }]] });
  expect(await wrong({ boards: 3 })).toContain("3 is not of type 'array'");
  expect(await wrong({ unsaid: 3 })).toContain("('unsaid' was unexpected)");
});
