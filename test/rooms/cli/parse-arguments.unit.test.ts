import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { commandTable, optionTable } from '../../../src/cli/commands/command-table.ts';
import type { Command } from '../../../src/cli/commands/command.ts';
import { helpText } from '../../../src/cli/commands/help.ts';
import { parseArguments } from '../../../src/cli/commands/parse-arguments.ts';

function typed(line: string): Command {
  return parseArguments(line === '' ? [] : line.split(' ')).command;
}

const asUsual = { reboot: true, force: false };

test.each<[string, Command]>([
  ['', { kind: 'help', entry: undefined }],
  ['--help', { kind: 'help', entry: undefined }],
  ['-h', { kind: 'help', entry: undefined }],
  ['nonsense --help', { kind: 'help', entry: undefined }],
  ['--version', { kind: 'version' }],
  ['status --version', { kind: 'version' }],
  ['run', { kind: 'run' }],
  ['status', { kind: 'report', report: 'status' }],
  ['check', { kind: 'report', report: 'check' }],
  ['doctor', { kind: 'report', report: 'doctor' }],
  ['config check', { kind: 'config', what: 'check' }],
  ['config show', { kind: 'config', what: 'show' }],
  ['config schema', { kind: 'config', what: 'schema' }],
  ['activate', { kind: 'request', request: { name: 'activate' } }],
  ['reboot', { kind: 'request', request: { name: 'reboot' } }],
  ['commit', { kind: 'operation', operation: { name: 'commit' } }],
  ['--update-now', { kind: 'operation', operation: { name: 'update-now', options: asUsual } }],
  [
    '--force --update-now --no-reboot',
    { kind: 'operation', operation: { name: 'update-now', options: { reboot: false, force: true } } },
  ],
  [
    'rollback --no-reboot',
    { kind: 'operation', operation: { name: 'rollback', options: { reboot: false, force: false } } },
  ],
  ['install a.mender', { kind: 'operation', operation: { name: 'install', path: 'a.mender', options: asUsual } }],
  ['property get level', { kind: 'request', request: { name: 'property-get', id: 'level' } }],
  ['property set level 21.5', { kind: 'request', request: { name: 'property-set', id: 'level', value: 21.5 } }],
  ['property set level -21.5', { kind: 'request', request: { name: 'property-set', id: 'level', value: -21.5 } }],
  [
    'property set level {"low":1}',
    { kind: 'request', request: { name: 'property-set', id: 'level', value: { low: 1 } } },
  ],
  ['property set level null', { kind: 'request', request: { name: 'property-set', id: 'level', value: null } }],
  ['property set level high', { kind: 'request', request: { name: 'property-set', id: 'level', value: 'high' } }],
  ['property set level 5 --text', { kind: 'request', request: { name: 'property-set', id: 'level', value: '5' } }],
  [
    'property set level -- --json',
    { kind: 'request', request: { name: 'property-set', id: 'level', value: '--json' } },
  ],
  [
    'datapoint send temperature 3',
    { kind: 'request', request: { name: 'datapoint-send', event: 'temperature', value: 3, at: undefined } },
  ],
  [
    'datapoint send temperature -0.5 --at 2026-03-01T14:05:09+01:00',
    {
      kind: 'request',
      request: { name: 'datapoint-send', event: 'temperature', value: -0.5, at: '2026-03-01T13:05:09.000Z' },
    },
  ],
])('«agent %s» is understood', (line, command) => {
  expect(typed(line)).toEqual(command);
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
  expect(parseArguments(['--json', '--nonsense'])).toMatchObject({ json: true, command: { kind: 'usage-error' } });
});

test.each([
  ['stauts', 'there is no command stauts', 'did you mean status?'],
  ['update', 'there is no command update', 'did you mean --update-now?'],
  ['update-now', 'there is no command update-now', 'did you mean --update-now?'],
  ['chekc', 'there is no command chekc', 'did you mean check?'],
  ['zzzzzz', 'there is no command zzzzzz', 'all commands: agent --help'],
  ['mcu lst', 'there is no command mcu lst', 'did you mean mcu list? all commands: agent --help'],
  ['propertry get a', 'there is no command propertry', 'did you mean property get?'],
  ['config', 'config is one word short: config check, config show, config schema', 'agent --help'],
  ['config chek', 'there is no command config chek', 'did you mean config check?'],
  ['--updatenow', 'there is no option --updatenow', 'did you mean --update-now?'],
  ['status --jsn', 'there is no option --jsn', 'did you mean --json?'],
  ['-x', 'there is no option -x', 'agent --help'],
  ['status --force', '--force goes with --update-now, install, rollback', 'usage: agent status'],
  ['--no-reboot', '--no-reboot goes with --update-now, install, rollback', 'agent --help'],
  ['check --at 2026-03-01T14:05:09Z', '--at goes with datapoint send', 'usage: agent check'],
  ['install', 'install: FILE is missing', 'usage: agent install FILE'],
  ['property set level', 'property set: VALUE is missing', 'usage: agent property set ID VALUE'],
  ['install a b', 'install: b is one word too many', 'usage: agent install FILE'],
  ['--update-now status', '--update-now: status is one word too many', 'usage: agent --update-now'],
  ['status --config', '--config takes a value', 'agent --help'],
  ['--config --json status', '--config takes a value', 'agent --help'],
  ['--config= status', '--config takes a value', 'agent --help'],
  ['status --json=yes', '--json takes no value', 'agent --help'],
  ['datapoint send t 1 --at yesterday', '--at yesterday is not a time with its zone', 'usage: agent datapoint send'],
  ['datapoint send t 1 --at 2026-03-01T14:05:09', 'is not a time with its zone', 'usage: agent datapoint send'],
  ['datapoint send t 1 --at 2026-02-30T14:05:09Z', 'is not a time with its zone', 'usage: agent datapoint send'],
])('«agent %s» is refused: %s', (line, message, advice) => {
  const command = typed(line);
  const said = command.kind === 'usage-error' ? command : { message: undefined, advice: undefined };
  expect(said.message).toContain(message);
  expect(said.advice).toContain(advice);
});

test('a value nested without end is refused', () => {
  const deep = '['.repeat(5_000) + ']'.repeat(5_000);
  expect(parseArguments(['property', 'set', 'level', deep]).command).toMatchObject({
    kind: 'usage-error',
    message: 'property set: VALUE is nested too deep',
  });
});

test('an empty operand is refused', () => {
  expect(parseArguments(['install', '']).command).toMatchObject({ message: 'install: FILE is empty' });
});

const knownWords = commandTable.flatMap(({ name, operands }) => [...name.split(' '), ...operands]);
const knownOptions = Object.keys(optionTable).map((name) => `--${name}`);
const word = fc.oneof(
  fc.constantFrom(...knownWords, ...knownOptions, '--', '-', '-h', '', '--at=', '--config=x', '-5', '--no-json', '---'),
  fc.string(),
  fc.string({ unit: 'binary' }),
);

test('whatever is typed is a command or a refusal that says why', () => {
  fc.assert(
    fc.property(fc.array(word, { maxLength: 6 }), (args) => {
      const { command } = parseArguments(args);
      const said = command.kind === 'usage-error' ? [command.message, command.advice] : [];
      expect(said).not.toContain('');
    }),
    { numRuns: 3_000 },
  );
});

test('what a person sets is what arrives, whatever the text', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const { command } = parseArguments(['property', 'set', 'level', '--text', '--', text]);
      expect(command).toEqual({ kind: 'request', request: { name: 'property-set', id: 'level', value: text } });
    }),
  );
});

describe('help', () => {
  test('names every command and fits into 80 columns', () => {
    const text = helpText(undefined);
    for (const { name } of commandTable) expect(text).toContain(name);
    for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  test.each(commandTable.map((entry) => [entry.name, entry] as const))(
    'of %s shows how it is written',
    (name, entry) => {
      const { command } = parseArguments([...name.split(' '), '--help']);
      expect(command).toEqual({ kind: 'help', entry });
      const text = helpText(entry);
      expect(text).toContain(`usage: agent ${name}`);
      for (const option of [...entry.options, 'json', 'config']) expect(text).toContain(`--${option}`);
      for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    },
  );
});
