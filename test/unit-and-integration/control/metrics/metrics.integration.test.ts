import { once } from 'node:events';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { agentProgram } from '../../../fakes/machine/built-agent.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import { blockOf, examplesOf, patternOf, readPage, runExample } from '../../../page-examples.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { feed, sensorAndBoard } from '../outside-readers.ts';

let gateway: FileGateway;

beforeEach(async () => {
  const versions = [{ id: '1', name: '1', firmware: bufferContent(Buffer.from('healthy 1')) }];
  const service = untilTestEnds(await startStandIn({ versions, targetVersionId: '1' }));
  const extraToml = `${sensorAndBoard}
[[sensors]]
event = "odd \\"name\\" \\\\ of ours"
every = "1s"
source = { kind = "file", path = "/nonexistent" }
`;
  const options = { image: Buffer.from('healthy 0'), slotBytes: 1024 * 1024, serviceUrl: service.url, extraToml };
  gateway = untilTestEnds(await FileGateway.create(options));
});

async function get(path: string): Promise<{ readonly reply: IncomingMessage; readonly text: string }> {
  const asked = request({ socketPath: join(gateway.directory, 'run/status.sock'), path, agent: false });
  asked.end();
  const [reply] = (await once(asked, 'response')) as [IncomingMessage];
  return { reply, text: (await reply.setEncoding('utf8').toArray()).join('') };
}

const strictParser = `
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()): print(family.name, family.type, family.unit, len(family.samples))
`;

test('a daemon’s metrics are OpenMetrics, to a strict reader', async () => {
  await gateway.startDaemon();
  const { reply, text } = await get('/metrics');
  expect(reply.headers['content-type']).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8');
  const [code, said] = await feed('/usr/bin/python3', ['-c', strictParser], text);
  expect([code, said]).toEqual([0, expect.stringContaining('thing_agent_queue_bytes gauge bytes 1\n')]);
  expect(said).toContain('thing_agent_state stateset  9\n');
  expect(text).toContain('thing_agent_board_partially_flashed{board="meter"} 0\n');
  expect(text).toContain(String.raw`{source="sensors[1] (odd \"name\" \\ of ours)"}`);
  expect(text).not.toContain('GW-0001');
  expect((await gateway.run('metrics')).stdout).toMatch(/^# TYPE thing_agent_build info\n[^]*\n# EOF\n$/);
});

test('its textfile is what promtool accepts, is replaced as a whole, and anybody may read it', async () => {
  const file = join(gateway.directory, 'thing-agent.prom');
  await gateway.startDaemon();
  for (let round = 0; round < 2; round += 1) {
    const { exitCode, stderr } = await gateway.run('metrics', '--textfile', file);
    expect([exitCode, stderr]).toEqual([0, '']);
  }
  expect((await stat(file)).mode & 0o777).toBe(0o644);
  expect(await readdir(gateway.directory)).not.toContain('thing-agent.prom.new');
  const text = await readFile(file, 'utf8');
  expect(await feed('promtool', ['check', 'metrics'], text)).toEqual([0, '']);
  expect(text).toContain('thing_agent_problem{thing_agent_problem="no-daemon"} 0\n');
});

test('the textfile reports a missing daemon, and a missing directory is an error', async () => {
  const file = join(gateway.directory, 'thing-agent.prom');
  expect(await gateway.run('metrics', '--textfile', file)).toMatchObject({ exitCode: 0 });
  const text = await readFile(file, 'utf8');
  expect(text).toContain('thing_agent_problem{thing_agent_problem="no-daemon"} 1\n');
  expect(await feed('promtool', ['check', 'metrics'], text)).toEqual([0, '']);
  const nowhere = await gateway.run('metrics', '--textfile', join(gateway.directory, 'no/thing-agent.prom'));
  expect(nowhere).toMatchObject({ exitCode: 74, stderr: expect.stringContaining('(output-unwritable)') as unknown });
  expect(await gateway.run('metrics', '--textfile', 'metrics.txt')).toMatchObject({ exitCode: 64 });
});

test('the page about monitoring: its commands run, its units are valid, its alerts are about metrics that there are', async () => {
  await gateway.run('--update-now');
  gateway.boot();
  await gateway.startDaemon();
  while (!(await get('/metrics')).text.includes('thing_agent_last_successful_check_timestamp_seconds '));
  const page = await readPage('monitoring.md');
  const [example = { commands: '', prints: '' }] = examplesOf(page);
  expect(await runExample(example, gateway)).toMatch(patternOf(example));
  const written = await readFile(join(gateway.directory, 'node-exporter/thing-agent.prom'), 'utf8');

  const alerts = blockOf(page, 'yaml');
  const rules = join(gateway.directory, 'alerts.yaml');
  await writeFile(rules, alerts);
  expect(await feed('promtool', ['check', 'rules', rules], '')).toEqual([
    0,
    expect.stringMatching(/SUCCESS: 8 rules found/) as unknown,
  ]);
  for (const name of alerts.match(/\bthing_agent_\w+/g) ?? []) expect(written).toContain(`# TYPE ${name} `);

  const units = ['thing-agent-metrics.service', 'thing-agent-metrics.timer'];
  for (const unit of units) {
    const text = blockOf(page, `ini /etc/systemd/system/${unit}`).replace('/usr/bin/agent', agentProgram());
    await writeFile(join(gateway.directory, unit), text);
  }
  const paths = units.map((unit) => join(gateway.directory, unit));
  expect(await feed('systemd-analyze', ['verify', '--man=no', ...paths], '')).toEqual([0, '']);
});
