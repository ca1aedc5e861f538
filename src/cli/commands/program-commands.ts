import { exitCodes, mapError } from '../../system/errors.ts';
import { printableJson } from '../../system/log/printable.ts';
import { ArgumentError, commandsOf } from '../arguments/command.ts';
import type { ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { translateOutputError } from '../errors.ts';
import { wholePath } from './named-file.ts';
import { printResult } from './print.ts';
import { withReadOnlyAgent } from './with-agent.ts';

/** Commands whose output other programs read. */
export const programCommands = commandsOf('Inspect', [
  {
    name: 'metrics',
    options: ['textfile'],
    summary: 'print metrics for monitoring',
    details: [
      'Prints OpenMetrics 1.0.0, which the daemon also serves at /metrics of its sockets. Works without a daemon, but not with an invalid configuration.',
      'With --textfile, writes the Prometheus text format. FILE must end with .prom; it is replaced atomically and is readable by all users.',
    ],
    run: metrics,
  },
  {
    name: 'api',
    group: 'Configuration',
    summary: 'print the API of the sockets as OpenAPI',
    details: [
      'Prints OpenAPI 3.1 with JSON Schemas of all requests, replies and events; x-sockets names the sockets that serve an operation.',
    ],
    run: api,
  },
]);

async function api(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { openApi } = await import('../../control/api/openapi.ts');
  const document = openApi(context.version);
  return printResult(document, () => `${printableJson(document, 2)}\n`, typed, context);
}

async function metrics(typed: ParsedCommand, context: CliContext): Promise<number> {
  const file = typed.values.get('textfile');
  if (file !== undefined && !file.endsWith('.prom')) {
    throw new ArgumentError(`--textfile ${file}: node_exporter reads only files that end with .prom`);
  }
  const { agentMetrics } = await import('../../control/metrics/agent-metrics.ts');
  const { openMetrics, prometheusText } = await import('../../control/metrics/render-metrics.ts');
  const families = await withReadOnlyAgent(context, (agent) => agentMetrics(agent, context.signal));
  if (file === undefined) return printResult(families, () => openMetrics(families), typed, context);
  const { publishFile } = await import('../../system/files/published-file.ts');
  const path = wholePath(file, context);
  await mapError(publishFile(path, prometheusText(families)), (error) => translateOutputError(path, error));
  return exitCodes.done;
}
