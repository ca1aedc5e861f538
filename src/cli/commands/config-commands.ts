import { ConfigError } from '../../config/errors.ts';
import type { StatusReport } from '../../control/reports.ts';
import { exitCodes } from '../../system/errors.ts';
import { printable, printableJson } from '../../system/log/printable.ts';
import { commandsOf } from '../arguments/command.ts';
import type { ParsedCommand } from '../arguments/command.ts';
import type { CheckLocation, CliContext } from '../context.ts';
import { renderParagraph } from '../screen/layout.ts';
import type { Page } from '../screen/page.ts';
import { wholePath } from './named-file.ts';
import { printResult } from './print.ts';
import { withReadOnlyAgent } from './with-agent.ts';

export const configCommands = commandsOf('Configuration', [
  {
    name: 'config check',
    options: ['root', 'offline'],
    summary: 'check the configuration',
    details: [
      'Reports every invalid line. The exit code is 78 if there is one.',
      'On a machine that builds images, --root DIR reads the configuration in DIR (unless --config names it) and checks the keys, ' +
        'programs, users and units that it refers to. It warns if the image does not enable the agent. Devices and files on other ' +
        'partitions can only be checked on the gateway. With --offline, only the file itself is checked.',
    ],
    run: checkConfig,
  },
  {
    name: 'config show',
    summary: 'show the configuration with its defaults',
    details: ['Secrets are hidden.'],
    run: showConfig,
  },
  {
    name: 'config schema',
    summary: 'the JSON Schema of the configuration',
    details: [],
    run: showSchema,
  },
  {
    name: 'web',
    group: 'Inspect',
    summary: 'show the address of the web UI',
    details: ['The exit code is 70 if the web UI is configured, but not served.'],
    run: describeWebUi,
  },
]);

/** Prints every problem of the configuration, not only the first one. */
async function checkConfig(typed: ParsedCommand, context: CliContext): Promise<number> {
  const around = placeOf(typed, context);
  try {
    const { path, warnings } = await context.config.check(around);
    const lines = [`${path} is valid.`, ...warnings.map((warning) => `Warning: ${warning}`)];
    return printResult({ valid: true, path, warnings }, paragraphs(lines), typed, context);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return printProblems(error, typed, context);
  }
}

function placeOf({ values, flags }: ParsedCommand, context: CliContext): CheckLocation {
  const named = values.get('root');
  const root = named === undefined ? undefined : wholePath(named, context);
  if (flags.has('offline')) return { kind: 'none', root };
  return root === undefined ? { kind: 'gateway' } : { kind: 'image', root };
}

/** Prints all problems. Returns the exit code. */
export function printProblems(
  { path, problems, omitted, code, advice, descriptions }: ConfigError,
  typed: ParsedCommand,
  context: CliContext,
): number {
  const lines = [...descriptions];
  if (advice !== undefined) lines.push(`What to do: ${advice} (${code})`);
  printResult({ valid: false, path, problems, omitted, code, advice }, paragraphs(lines), typed, context);
  return exitCodes.configuration;
}

async function showConfig(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { text, value } = await context.config.show();
  return printResult(value, () => `${text.trimEnd().split('\n').map(printable).join('\n')}\n`, typed, context);
}

async function showSchema(typed: ParsedCommand, context: CliContext): Promise<number> {
  const schema = await context.config.schema();
  return printResult(schema, () => `${printableJson(schema, 2)}\n`, typed, context);
}

function paragraphs(lines: readonly string[]): (page: Page) => string {
  return (page) => lines.map((line) => renderParagraph(line, page)).join('');
}

/** The settings of `[web]` in the configuration. */
interface WebTable {
  readonly listen?: string | undefined;
  readonly isTls: boolean;
  readonly operate: boolean;
  /** The host names that clients may use. */
  readonly hosts: readonly string[];
}

/** Prints the address of the web UI, and whether the daemon serves it. */
async function describeWebUi(typed: ParsedCommand, context: CliContext): Promise<number> {
  const table = tableOf((await context.config.show()).value);
  const { listen, operate } = table;
  if (listen === undefined) return printResult({ served: false }, paragraphs([off]), typed, context);
  const urls = listen.startsWith('/') ? [] : await urlsOf(listen, table);
  const [url] = urls;
  const status = await withReadOnlyAgent(context, (agent) => agent.status({}, context.signal));
  const problem = problemOf(status);
  const where = `${problem === undefined ? 'Web UI' : 'Configured address'}: ${url === undefined ? `HTTP on the Unix socket ${listen}` : urls.join(', ')}`;
  const may = operate
    ? 'You can view and operate this gateway there.'
    : 'You can view this gateway there, but not operate it.';
  const lines = problem === undefined ? [where, may] : [problem, where];
  const value = { served: problem === undefined, listen, url, operate, problem };
  const exitCode = printResult(value, paragraphs(lines), typed, context);
  return problem === undefined ? exitCode : exitCodes.failed;
}

/**
 * Returns the URLs for a browser. If the web UI listens on all addresses, these are the addresses or the host names of
 * this gateway.
 */
async function urlsOf(listen: string, { isTls, hosts }: WebTable): Promise<readonly string[]> {
  const scheme = isTls ? 'https' : 'http';
  const [, port] = /^(?:0\.0\.0\.0|\[[0:]+\]):(\d+)$/.exec(listen) ?? [];
  if (port === undefined) return [`${scheme}://${listen}/`];
  const { ownAddresses } = await import('../../system/device/own-addresses.ts');
  return (hosts.length > 0 ? hosts : ownAddresses()).map((host) => `${scheme}://${host}:${port}/`);
}

const off =
  'The web UI is off. To turn it on, set [web] listen = "127.0.0.1:8077" in the configuration and run systemctl reload thing-agent.';

function problemOf({ daemon, warnings }: StatusReport): string | undefined {
  if (!daemon) return 'The web UI is not served, since the daemon is not running: systemctl start thing-agent';
  return warnings.find((warning) => warning.startsWith('the web UI is not available'));
}

function tableOf(config: unknown): WebTable {
  const web = memberOf(config, 'web');
  const listen = memberOf(web, 'listen');
  const hosts = memberOf(web, 'hosts');
  return {
    listen: typeof listen === 'string' ? listen : undefined,
    isTls: memberOf(web, 'certificate_file') !== undefined,
    operate: memberOf(web, 'allow_operations') === true,
    hosts: Array.isArray(hosts) ? hosts.filter((host) => typeof host === 'string') : [],
  };
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, name)?.value;
}
