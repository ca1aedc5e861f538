import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { optionTable } from '../../../../src/cli/arguments/command.ts';
import type { Invocation } from '../../../../src/cli/arguments/command.ts';
import { helpText } from '../../../../src/cli/arguments/help.ts';
import { parseArguments } from '../../../../src/cli/arguments/parse-arguments.ts';
import { commandTable } from '../../../../src/cli/commands/command-table.ts';
import { anyCharacter } from '../../../any-character.ts';
import { howMuch } from '../../../full.ts';
import { type } from '../fake-context.ts';
import { fakeAgent } from '../fake-operations.ts';

function words(line: string): readonly string[] {
  return line === '' ? [] : line.split(' ');
}

function wantedBy(line: string): Invocation {
  return parseArguments(words(line)).wanted;
}

test.each<[string, Invocation]>([
  ['', { kind: 'help', command: undefined }],
  ['--help', { kind: 'help', command: undefined }],
  ['-h', { kind: 'help', command: undefined }],
  ['help', { kind: 'help', command: undefined }],
  ['help --update-now', { kind: 'help', command: commandTable.find(({ name }) => name === '--update-now') }],
  ['--version', { kind: 'version' }],
  ['status --version', { kind: 'version' }],
])('«agent %s» is understood', (line, wanted) => {
  expect(wantedBy(line)).toEqual(wanted);
});

const asUsual = { reboot: true, force: false };
const HEX = '/home/technician/a.hex';

test.each<[string, unknown]>([
  ['status', ['status', {}]],
  ['check', ['check', {}]],
  ['doctor', ['doctor', {}]],
  ['activate', ['activate', {}]],
  ['reboot', ['reboot', {}]],
  ['commit', ['commit', {}]],
  ['cancel', ['cancel', {}]],
  ['unblock v1', ['unblock', { version: 'v1' }]],
  ['--update-now', ['update', asUsual]],
  ['--force --update-now --no-reboot', ['update', { reboot: false, force: true }]],
  ['rollback --no-reboot', ['rollback', { reboot: false, force: false }]],
  ['install a.mender', ['install', { ...asUsual, path: '/home/technician/a.mender' }]],
  ['install /a.mender --allow-downgrade', ['install', { ...asUsual, path: '/a.mender', allowDowngrade: true }]],
  ['mcu list', ['boards', {}]],
  ['mcu probe meter', ['probeBoard', { board: 'meter' }]],
  ['mcu flash meter a.hex', ['flash', { board: 'meter', path: HEX }]],
  ['mcu flash meter a.hex --allow-downgrade', ['flash', { board: 'meter', path: HEX, allowDowngrade: true }]],
  ['mcu flash meter a.hex --no-keep', ['flash', { board: 'meter', path: HEX, keep: false }]],
  ['mcu flash meter a.hex --plan', ['planBoard', { board: 'meter', path: HEX }]],
  ['mcu restore meter', ['restore', { board: 'meter' }]],
  ['mcu reset meter', ['resetBoard', { board: 'meter' }]],
  ['queue status', ['queue', {}]],
  ['queue sync', ['syncQueue', {}]],
  ['property get level', ['property', { id: 'level' }]],
  ['property set level 21.5', ['setProperty', { id: 'level', value: 21.5 }]],
  ['property set level -21.5', ['setProperty', { id: 'level', value: -21.5 }]],
  ['property set level {"low":1}', ['setProperty', { id: 'level', value: { low: 1 } }]],
  ['property set level null', ['setProperty', { id: 'level', value: null }]],
  ['property set level high', ['setProperty', { id: 'level', value: 'high' }]],
  ['property set level 5 --text', ['setProperty', { id: 'level', value: '5' }]],
  ['property set level -- --json', ['setProperty', { id: 'level', value: '--json' }]],
  ['datapoint send temperature 3', ['sendDatapoint', { event: 'temperature', value: 3 }]],
  [
    'datapoint send temperature -0.5 --at 2026-03-01T14:05:09+01:00',
    ['sendDatapoint', { event: 'temperature', value: -0.5, at: '2026-03-01T13:05:09.000Z' }],
  ],
])('«agent %s» asks the agent for what it says', async (line, call) => {
  const daemon = fakeAgent();
  await type(words(line), { daemon });
  expect(daemon.calls).toEqual([call]);
});

test('--config and --json stand anywhere', () => {
  expect(parseArguments(['--json', 'status', '--config', 'a.toml'])).toMatchObject({
    json: true,
    configFile: 'a.toml',
  });
  expect(parseArguments(['--config=a.toml', 'status', '--json'])).toMatchObject({ json: true, configFile: 'a.toml' });
  expect(parseArguments(['status'])).toMatchObject({ json: false, configFile: undefined });
});

test('a broken command line with --json is still answered in JSON', () => {
  expect(parseArguments(['--json', '--nonsense'])).toMatchObject({ json: true, wanted: { kind: 'usage-error' } });
});

test.each([
  ['stauts', 'unknown command "stauts"', 'did you mean status?'],
  ['update', 'unknown command "update"', 'did you mean --update-now?'],
  ['update-now', 'unknown command "update-now"', 'did you mean --update-now?'],
  ['chekc', 'unknown command "chekc"', 'did you mean check?'],
  ['zzzzzz', 'unknown command "zzzzzz"', 'all commands: agent --help'],
  ['report bundle.tar.gz', 'unknown command "report"', 'did you mean support-bundle?'],
  ['boards', 'unknown command "boards"', 'did you mean mcu list?'],
  ['forget 1.4.0', 'unknown command "forget"', 'did you mean unblock?'],
  ['page', 'unknown command "page"', 'did you mean web?'],
  ['spool', 'unknown command "spool"', 'did you mean queue status?'],
  ['rebot', 'unknown command "rebot"', 'all commands: agent --help'],
  ['rolback', 'unknown command "rolback"', 'all commands: agent --help'],
  ['comit', 'unknown command "comit"', 'all commands: agent --help'],
  ['stauts --help', 'unknown command "stauts"', 'did you mean status?'],
  ['help stauts', 'unknown command "stauts"', 'did you mean status?'],
  ['mcu lst --help', 'unknown command "mcu lst": expected', 'did you mean mcu list?'],
  ['mcu lst', 'unknown command "mcu lst"', 'did you mean mcu list? all commands: agent --help'],
  ['propertry get a', 'unknown command "propertry"', 'did you mean property get?'],
  ['config', 'missing subcommand for "config": expected check, show or schema', 'agent --help'],
  ['config chek', 'unknown command "config chek"', 'did you mean config check?'],
  ['--updatenow', 'unknown option --updatenow', 'did you mean --update-now?'],
  ['status --jsn', 'unknown option --jsn', 'did you mean --json?'],
  ['-x', 'unknown option -x', 'agent --help'],
  ['status --force', '--force is an option of --update-now, install, rollback', 'usage: agent status'],
  ['--no-reboot', '--no-reboot is an option of --update-now, install, rollback', 'agent --help'],
  ['check --at 2026-03-01T14:05:09Z', '--at is an option of datapoint send', 'usage: agent check'],
  // seen: three screens of help, and nothing about what is missing
  ['--single status', 'unknown option --single', 'agent --help'],
  ['--config a.toml', '--config needs a command, such as status', 'agent --help'],
  ['install', 'install: missing operand FILE', 'usage: agent install FILE'],
  ['property set level', 'property set: missing operand VALUE', 'usage: agent property set ID VALUE'],
  ['install a b', 'install: unexpected operand "b"', 'usage: agent install FILE'],
  ['--update-now status', '--update-now: unexpected operand "status"', 'usage: agent --update-now'],
  ['status --config', '--config needs a value', 'agent --help'],
  ['--config --json status', '--config needs a value', 'agent --help'],
  ['--config= status', '--config needs a value', 'agent --help'],
  ['status --json=yes', '--json does not take a value', 'agent --help'],
  ['datapoint send t 1 --at yesterday', '--at yesterday is not a time with a time zone', 'usage: agent datapoint send'],
  ['datapoint send t 1 --at 2026-03-01T14:05:09', 'is not a time with a time zone', 'usage: agent datapoint send'],
  ['datapoint send t 1 --at 2026-02-30T14:05:09Z', 'is not a time with a time zone', 'usage: agent datapoint send'],
])('«agent %s» is refused: %s', async (line, message, advice) => {
  const { exitCode, out, err } = await type(words(line), { daemon: fakeAgent(), columns: 200 });
  const told = `${out}${err}`.replaceAll(/\s+/g, ' ');
  expect(exitCode).toBe(64);
  expect(told).toContain(message);
  expect(told).toContain(advice);
});

test('a value nested without end is refused', async () => {
  const deep = '['.repeat(5_000) + ']'.repeat(5_000);
  const { exitCode, err } = await type(['property', 'set', 'level', deep], { daemon: fakeAgent() });
  expect(exitCode).toBe(64);
  expect(err).toContain('property set: VALUE is nested too deeply');
});

test('an empty operand is refused', () => {
  expect(parseArguments(['install', '']).wanted).toMatchObject({ message: 'install: FILE is empty' });
});

const knownWords = commandTable.flatMap(({ name, operands }) => [...name.split(' '), ...operands]);
const knownOptions = Object.keys(optionTable).map((name) => `--${name}`);
const word = fc.oneof(
  fc.constantFrom(...knownWords, ...knownOptions, '--', '-', '-h', '', '--at=', '--config=x', '-5', '--no-json', '---'),
  fc.string(),
  fc.string({ unit: anyCharacter }),
);

test('any input is a command, or is rejected with a reason', () => {
  fc.assert(
    fc.property(fc.array(word, { maxLength: 6 }), (args) => {
      const { wanted } = parseArguments(args);
      const said = wanted.kind === 'usage-error' ? [wanted.message, wanted.advice] : [];
      expect(said).not.toContain('');
    }),
    { numRuns: howMuch(3_000, 3_000, 600) },
  );
});

test('passes any text of an option on unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string(), async (value) => {
      const daemon = fakeAgent();
      await type(['property', 'set', 'level', '--text', '--', value], { daemon });
      expect(daemon.calls).toEqual([['setProperty', { id: 'level', value }]]);
    }),
  );
});

describe('help', () => {
  test('of a group shows only that group, for each way of asking', () => {
    for (const asked of [
      ['mcu', '--help'],
      ['help', 'mcu'],
    ]) {
      const { wanted } = parseArguments(asked);
      const names = wanted.kind === 'help' ? wanted.group?.map(({ name }) => name) : undefined;
      expect(names?.length).toBeGreaterThan(3);
      expect(names?.every((name) => name.startsWith('mcu '))).toBe(true);
      const text = wanted.kind === 'help' ? helpText(wanted.command, wanted.group) : '';
      expect(text).toContain('mcu flash NAME FILE');
      expect(text).not.toContain('--update-now');
    }
  });

  // Regression: `agent help help` and `agent help update` (a heading of --help) were unknown commands.
  test('of help shows everything, and of a heading its commands', () => {
    expect(parseArguments(['help', 'help']).wanted).toEqual({ kind: 'help', command: undefined });
    const { wanted } = parseArguments(['help', 'update']);
    const text = wanted.kind === 'help' ? helpText(wanted.command, wanted.group) : '';
    expect(text).toMatch(
      /^usage: agent COMMAND\n[^]*Update\n +--update-now[^]*rollback[^]*agent help COMMAND describes one/,
    );
    expect(text).not.toContain('status');
  });

  test('of a command is had by agent help, too', () => {
    for (const { name } of commandTable) {
      const { wanted } = parseArguments(['help', ...name.replace('--', '').split(' ')]);
      expect(wanted).toMatchObject({ kind: 'help', command: { name } });
    }
  });

  test('names every command and fits into 80 columns', () => {
    const text = helpText(undefined);
    for (const { name } of commandTable) expect(text).toContain(name);
    for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  test.each(commandTable.map((command) => [command.name, command] as const))(
    'of %s shows how it is written',
    (name, command) => {
      expect(parseArguments([...name.split(' '), '--help']).wanted).toEqual({ kind: 'help', command });
      const text = helpText(command);
      expect(text).toContain(`usage: agent ${name}`);
      for (const option of [...command.options, 'json', 'config']) expect(text).toContain(`--${option}`);
      for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    },
  );
});
