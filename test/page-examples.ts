import { execFile } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { agentProgram } from './fakes/machine/built-agent.ts';
import type { FileGateway } from './fakes/machine/file-gateway.ts';

const pages = join(import.meta.dirname, '../docs');

/** Commands of a page, and their documented output. */
export interface Example {
  readonly commands: string;
  /** The documented output, if any. */
  readonly prints: string | undefined;
}

/** A page for people at a gateway. */
export async function readPage(name: string): Promise<string> {
  return readFile(join(pages, name), 'utf8');
}

/** Returns each block of commands, with its following block of output, if any. */
export function examplesOf(page: string): readonly Example[] {
  const blocks = /^```sh\n(?<commands>[^]*?)^```\n(?:\n```(?:json|text)\n(?<prints>[^]*?)^```\n)?/gm;
  return [...page.matchAll(blocks)].map(({ groups }) => ({
    commands: groups?.['commands'] ?? '',
    prints: groups?.['prints'],
  }));
}

/** Returns the block with this head, for example ```` ```yaml ````. */
export function blockOf(page: string, head: string): string {
  const [, after] = page.split(`\n\`\`\`${head}\n`);
  const [block, rest] = after?.split('\n```\n') ?? [];
  if (block === undefined || rest === undefined) throw new Error(`the page has no block ${head}`);
  return `${block}\n`;
}

/** Runs the commands with the directories of this gateway; returns their output. */
export async function runExample({ commands }: Example, gateway: FileGateway): Promise<string> {
  const { directory, configFile } = gateway;
  const folders: Readonly<Record<string, string>> = {
    '/run/thing-agent': join(directory, 'run'),
    '/var/lib/prometheus/node-exporter': join(directory, 'node-exporter'),
    '/tmp': directory,
    '/media/usb': directory,
  };
  await mkdir(join(directory, 'node-exporter'), { recursive: true });
  const places = new RegExp(Object.keys(folders).join('|'), 'g');
  const script = `agent() { "$AGENT" "$@"; }\n${commands.replaceAll(places, (place) => folders[place] ?? '')}`;
  const env = { ...process.env, AGENT: agentProgram(), THING_AGENT_CONFIG: configFile, no_proxy: '*' };
  const { stdout } = await promisify(execFile)('bash', ['-ec', script], { env });
  return stdout;
}

/** Returns a pattern for the output: `…` is any text, and on a line of its own any lines. */
export function patternOf({ prints = '…\n' }: Example): RegExp {
  const literal = prints.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
  return new RegExp(`^${literal.replaceAll(/^…\n/gm, '(?:.*\n)*').replaceAll('…', '.*')}$`);
}
