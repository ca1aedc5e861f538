import { resolve } from 'node:path';

import { ConfigError, describeProblem } from '../../config/errors.ts';
import { printable, printableJson } from '../../control/words/printable.ts';
import { exitCodes } from '../../system/errors.ts';
import { Misuse } from '../arguments/command.ts';
import type { Command, Typed } from '../arguments/command.ts';
import type { CheckPlace, CliContext } from '../context.ts';
import { renderParagraph } from '../screen/layout.ts';
import type { Page } from '../screen/page.ts';
import { tell } from './tell.ts';

export const configCommands: readonly Command[] = [
  {
    name: 'config check',
    operands: [],
    options: ['root', 'offline'],
    group: 'Configuration',
    summary: 'what is wrong with the configuration',
    details: [
      'Names every line that is wrong. Ends with 78 if there is one.',
      'On a machine that builds images: --root DIR looks in DIR for the configuration, unless --config names it, and for the keys, ' +
        'programs and users that it names; devices, and what lies on other partitions, are left to the gateway.',
    ],
    run: checkConfig,
  },
  {
    name: 'config show',
    operands: [],
    options: [],
    group: 'Configuration',
    summary: 'the configuration with its defaults',
    details: ['Secrets are hidden.'],
    run: showConfig,
  },
  {
    name: 'config schema',
    operands: [],
    options: [],
    group: 'Configuration',
    summary: 'the JSON Schema of the configuration',
    details: [],
    run: showSchema,
  },
];

/** Every problem, not only the first. */
async function checkConfig(typed: Typed, context: CliContext): Promise<number> {
  const around = placeOf(typed, context);
  try {
    const { path, warnings } = await context.config.check(around);
    const lines = [`${path} is valid.`, ...warnings.map((warning) => `Warning: ${warning}`)];
    return tell({ valid: true, path, warnings }, paragraphs(lines), typed, context);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return tellProblems(error, typed, context);
  }
}

function placeOf({ values, flags }: Typed, { directory }: CliContext): CheckPlace {
  const root = values.get('root');
  if (root === undefined) return { kind: flags.has('offline') ? 'none' : 'gateway' };
  if (flags.has('offline'))
    throw new Misuse('--root looks for what the configuration names, --offline does not: say one');
  return { kind: 'image', root: resolve(directory, root) };
}

/** All of them, not only the first. Returns the exit code. */
export function tellProblems(
  { path, problems, omitted, code, advice }: ConfigError,
  typed: Typed,
  context: CliContext,
): number {
  const lines = problems.map((problem) => describeProblem(path, problem));
  if (omitted > 0) lines.push(`and ${omitted} more`);
  if (advice !== undefined) lines.push(`What to do: ${advice} (${code})`);
  tell({ valid: false, path, problems, omitted, code, advice }, paragraphs(lines), typed, context);
  return exitCodes.configuration;
}

async function showConfig(typed: Typed, context: CliContext): Promise<number> {
  const { text, value } = await context.config.show();
  return tell(value, () => `${text.trimEnd().split('\n').map(printable).join('\n')}\n`, typed, context);
}

async function showSchema(typed: Typed, context: CliContext): Promise<number> {
  const schema = await context.config.schema();
  return tell(schema, () => `${printableJson(schema, 2)}\n`, typed, context);
}

function paragraphs(lines: readonly string[]): (page: Page) => string {
  return (page) => lines.map((line) => renderParagraph(line, page)).join('');
}
