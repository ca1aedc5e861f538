import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { optionTable } from '../../../../src/cli/arguments/command.ts';
import { commandTable } from '../../../../src/cli/commands/command-table.ts';
import { configJsonSchema } from '../../../../src/config/schema/json-schema.ts';
import { socketNames } from '../../../../src/control/access.ts';
import { agentPage } from '../../../../systemd/pages/agent-page.ts';
import { bashCompletion, zshCompletion } from '../../../../systemd/pages/completion.ts';
import { configPage } from '../../../../systemd/pages/config-page.ts';
import { line } from '../../../../systemd/pages/roff.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { newDirectory, run } from '../installed-root.ts';

const head = { version: '1.2.3', builtAt: 1_700_000_000 };
const pages = { 'agent.8': agentPage(head), 'thing-agent.toml.5': configPage(head) };
let directory: string;

beforeAll(async () => {
  directory = await newDirectory();
  for (const [name, text] of Object.entries(pages)) await writeFile(join(directory, name), text);
  await writeFile(join(directory, 'agent.bash'), bashCompletion());
  await writeFile(join(directory, '_agent'), zshCompletion());
  await writeFile(join(directory, 'agent'), fakeAgent, { mode: 0o755 });
  await mkdir(join(directory, 'here'));
  await writeFile(join(directory, 'here/new release.mender'), '');
});
afterAll(async () => {
  await rm(directory, { recursive: true });
});

describe('manual pages', () => {
  test.each(Object.keys(pages))('%s is taken by groff and by man without a warning', async (name) => {
    const file = join(directory, name);
    expect(await run('groff', '-ww', '-man', '-Tutf8', '-z', file)).toEqual({ exitCode: 0, output: '' });
    const man = ['-c', 'man --warnings=w --local-file --pager=cat "$1" 2>&1 >/dev/null', 'sh', file] as const;
    expect(await run('sh', ...man)).toEqual({ exitCode: 0, output: '' });
  });

  // Regression: for `agent setup`, "--from FILE: previous trust list.", and nothing about 130.
  test('agent(8) explains an option for each command, and the exit code of an interruption', () => {
    const page = pages['agent.8'].replaceAll('\\', '');
    expect(page).toContain('--from FILE: a complete or partial configuration; setup does not ask for its settings.');
    expect(page.slice(page.search(/\.SH "?Exit/i))).toMatch(/\b130\b[^]*agent status --exit-code/i);
  });

  test('agent(8) has each command with its operands, and each option', async () => {
    const page = pages['agent.8'];
    const entries = new Set(page.split('\n').filter((text) => text.startsWith('.B ')));
    const commands = commandTable.map(({ name, operands }) => line(['agent', name, ...operands].join(' ')).trim());
    expect(commands.filter((command) => !entries.has(`.B "${command}"`))).toEqual([]);
    const options = Object.keys(optionTable).map((name) => line(`--${name}`).trim());
    expect(options.filter((option) => !page.includes(option))).toEqual([]);
  });

  // Regression: a directory operators/ that never existed, and control.sock instead of status.sock.
  test('agent(8) names the sockets that there are, and for whom each is', () => {
    const page = pages['agent.8'].replaceAll('\\', '');
    const { members, operators, root } = socketNames;
    expect(page).toContain(
      `${members} for members of thing-agent, ${operators} for members of thing-operators, ${root} for root`,
    );
    expect(page).not.toContain('operators/');
  });

  test('thing-agent.toml(5) has each key of the schema with its description', async () => {
    const page = pages['thing-agent.toml.5'];
    const { keys, descriptions } = keysOf(configJsonSchema());
    expect(keys.size).toBeGreaterThan(150);
    const headings = page.split('\n').filter((text) => text.startsWith('.SS '));
    const isThere = (key: string): boolean =>
      page.includes(`.B "${key}"\n`) || headings.some((heading) => heading.includes(`[${key}`));
    expect([...keys].filter((key) => !isThere(key))).toEqual([]);
    expect([...descriptions].filter((text) => !page.includes(line(`${text}.`)))).toEqual([]);
  });

  test('show any text unchanged', async () => {
    const text = `.TH 'it's "quoted" \\n a-b --c ~ ^ \` ’`;
    await writeFile(join(directory, 'text.8'), `.TH A 8\n.SH B\n${line(text)}`);
    const shown = await tool([
      'sh',
      '-c',
      'export LC_ALL=C.UTF-8 GROFF_NO_SGR=1; groff -ww -man -Tutf8 "$1" | col -bx',
      'sh',
      join(directory, 'text.8'),
    ]);
    expect(shown).toContain(text);
  });
});

/** Keys of a table and of its nested tables. */
function keysOf(schema: unknown): { readonly keys: ReadonlySet<string>; readonly descriptions: ReadonlySet<string> } {
  const keys = new Set<string>();
  const descriptions = new Set<string>();
  const look = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    const { properties = {}, ...rest } = node as { readonly properties?: Record<string, { description?: string }> };
    for (const [key, value] of Object.entries(properties)) {
      keys.add(key);
      if (value.description !== undefined) descriptions.add(value.description);
      look(value);
    }
    for (const [name, child] of Object.entries(rest)) if (name !== 'default') look(child);
  };
  look(schema);
  return { keys, descriptions };
}

/** Prints what the commands print that completion calls. */
const fakeAgent = `#!/bin/sh
case "$*" in
  'history --json') echo '{"attempts":[{"attempt":"7f00aa11","version":"1"},{"attempt":"0b1c2d3e","version":"2"}]}' ;;
  'status --json') echo '{"running":{"version":"2"},"quarantine":[{"version":"3.0.0","reason":"x"}],"checks":{"version":"9"}}' ;;
  'mcu list --json') echo '{"boards":[{"name":"meter","imageName":"meter.hex"}]}' ;;
  'sensors --json') echo '{"sensors":[{"name":"sensors[0]","outputs":[{"id":"temperature"},{"id":"level"}]}]}' ;;
esac
`;

/** Returns the completions for the last word. */
type Complete = (...words: readonly string[]) => Promise<readonly string[]>;

const inBash: Complete = async (...words) => {
  const script = `PATH=$1:$PATH; . "$1/agent.bash"; cd "$1/here"; shift; COMP_WORDS=(agent "$@") COMP_CWORD=$# COMPREPLY=(); _agent; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return list(await tool(['bash', '-c', script, 'bash', directory, ...words]));
};

/** Completes in zsh with the input of zsh's own functions. */
const inZsh: Complete = async (...words) => {
  const script = `compadd() { print -l -- \${(P)2} }; _files() { print -l -- * }; folder=$1; PATH=$1:$PATH; cd $1/here; shift; words=(agent "$@") CURRENT=$(($# + 1)); f() { . $folder/_agent }; f`;
  const found = list(await tool(['zsh', '-f', '-c', script, 'zsh', directory, ...words]));
  return found.filter((word) => word.startsWith(words.at(-1) ?? ''));
};

function list(text: string): readonly string[] {
  return text.split('\n').filter((word) => word !== '');
}

describe.each([
  ['bash', inBash],
  ['zsh', inZsh],
])('completion in %s', (_, complete) => {
  test('knows the first words of all commands', async () => {
    const firsts = commandTable.map(({ name }) => name.split(' ')[0] ?? '').filter((word) => !word.startsWith('-'));
    expect([...(await complete(''))].sort()).toEqual([...new Set(firsts)].sort());
  });

  test('knows the second ones, also after options and their values', async () => {
    expect(await complete('config', '')).toEqual(['check', 'show', 'schema']);
    expect(await complete('--json', '--config', 'mcu', 'queue', 's')).toEqual(['status', 'sync']);
  });

  test('offers files only where a file is meant', async () => {
    expect(await complete('install', '')).toEqual(['new release.mender']);
    expect(await complete('--config', 'new')).toEqual(['new release.mender']);
    expect(await complete('mcu', 'flash', 'meter', '')).toEqual(['new release.mender']);
    expect(await complete('install', 'a', '')).toEqual([]);
    expect(await complete('datapoint', 'send', 'level', '3', '--at', '')).toEqual([]);
  });

  test('offers codes, and the attempts, versions, boards and sensors of this gateway', async () => {
    expect(await complete('explain', 'digest-')).toEqual(['digest-mismatch']);
    expect(await complete('log', '')).toEqual(['0b1c2d3e', '7f00aa11']);
    expect(await complete('unblock', '')).toEqual(['3.0.0']);
    expect(await complete('mcu', 'flash', 'm')).toEqual(['meter']);
    expect(await complete('mcu', 'restore', '')).toEqual(['meter']);
    expect(await complete('sensors', '')).toEqual(['scan', 'level', 'temperature']);
  });

  test('offers the options of the command, and the global options', async () => {
    expect(await complete('rollback', '--')).toEqual([
      '--no-reboot',
      '--force',
      '--yes',
      '--config',
      '--json',
      '--help',
    ]);
    expect(await complete('--u')).toEqual(['--update-now']);
  });
});
