import { execFile } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { agentProgram } from './fakes/machine/built-agent.ts';
import type { FileGateway } from './fakes/machine/file-gateway.ts';

const pages = join(import.meta.dirname, '../docs');

/** Commands of a page, and what it says that they print. */
export interface Example {
  readonly commands: string;
  /** Undefined: nothing is said of that. */
  readonly prints: string | undefined;
}

/** A page for people at a gateway. */
export async function readPage(name: string): Promise<string> {
  return readFile(join(pages, name), 'utf8');
}

/** Each block of commands, with the block of what they print, if one follows. */
export function examplesOf(page: string): readonly Example[] {
  const blocks = /^```sh\n(?<commands>[^]*?)^```\n(?:\n```(?:json|text)\n(?<prints>[^]*?)^```\n)?/gm;
  return [...page.matchAll(blocks)].map(({ groups }) => ({
    commands: groups?.['commands'] ?? '',
    prints: groups?.['prints'],
  }));
}

/** What a block of this head holds, e.g. ```` ```yaml ````. */
export function blockOf(page: string, head: string): string {
  const [, after] = page.split(`\n\`\`\`${head}\n`);
  const [block, rest] = after?.split('\n```\n') ?? [];
  if (block === undefined || rest === undefined) throw new Error(`the page has no block ${head}`);
  return `${block}\n`;
}

/** Does what stands there, with the folders of this gateway; returns what is printed. */
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

/** What is printed: `…` is anything, and on a line of its own any lines. */
export function patternOf({ prints = '…\n' }: Example): RegExp {
  const literal = prints.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
  return new RegExp(`^${literal.replaceAll(/^…\n/gm, '(?:.*\n)*').replaceAll('…', '.*')}$`);
}
