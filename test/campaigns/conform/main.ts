import { countOption, numberOption, runTool, WrongUse } from '../../tool.ts';
import { conform, render } from './conform.ts';
import type { Result } from './conform.ts';

const help = `Tests a provisioning service in the REST form, rule by rule, as a gateway uses it.

usage: npm run conform -- --url URL --serial SERIAL [options]

  --url URL         base address of the service
  --serial SERIAL   serial number of a test thing. The run activates it twice, so that its present API key becomes
                    invalid, confirms its current version, and writes a property and datapoints
  --api-key KEY     API key of an earlier activation: the run checks that it becomes invalid
  --version ID      version whose firmware is read (default: the target version)
  --property ID     property to write and read (default: conform)
  --event ID        event that takes datapoints (default: conform)
  --connections N   also make N calls at the same time, for example 200 (default: 0)
  --timeout SECONDS longest wait for a response, and between two pieces of a firmware (default: 60)
  --json            print the results as JSON
  --help            show this

A rule passes, gets a warning (the agent works with the service, but less well, or the rule could not be tested), or
fails. Warnings and failures come with request and response. API keys are not shown.
Authorities of your own: NODE_EXTRA_CA_CERTS=FILE.

exit codes: 0 no rule failed, 1 a rule failed, 64 wrong use
`;

const options = {
  url: { type: 'string' },
  serial: { type: 'string' },
  'api-key': { type: 'string' },
  version: { type: 'string' },
  property: { type: 'string', default: 'conform' },
  event: { type: 'string', default: 'conform' },
  connections: { type: 'string', default: '0' },
  timeout: { type: 'string', default: '60' },
  json: { type: 'boolean', default: false },
} as const;

await runTool(help, options, async (values) => {
  const { url, serial, 'api-key': apiKey, version, property, event, timeout, json } = values;
  if (url === undefined || !/^https?:$/.test(URL.parse(url)?.protocol ?? '')) {
    throw new WrongUse('--url must be the base address of the service, for example https://service.example.com');
  }
  if (serial === undefined || serial === '') throw new WrongUse('--serial must be the serial number of a test thing');
  const results: Result[] = [];
  const timeoutMs = numberOption('timeout', timeout, 0.1) * 1000;
  const connections = countOption('connections', values.connections, 0);
  const ids = { versionId: version, propertyId: property, eventId: event };
  for await (const result of conform({ url, serialNumber: serial, apiKey, ...ids, timeoutMs, connections })) {
    results.push(result);
    if (!json) console.log(render(result));
  }
  const count = (verdict: string): number => results.filter((result) => result.verdict === verdict).length;
  const counts = { passed: count('pass'), warnings: count('warning'), failures: count('failure') };
  if (json) console.log(JSON.stringify({ url, serialNumber: serial, ...counts, results }, undefined, 2));
  else console.log(`\n${counts.passed} passed, ${counts.warnings} warnings, ${counts.failures} failures`);
  return counts.failures === 0 ? 0 : 1;
});
