import type { HistoryEntry } from '../../../control/presentation/rows/history-rows.ts';
import { describeAttempt, stepRows } from '../../../control/presentation/rows/history-rows.ts';
import { exitCodes } from '../../../system/errors.ts';
import { printableJson } from '../../../system/log/printable.ts';
import { ArgumentError } from '../../arguments/command.ts';
import type { ParsedCommand } from '../../arguments/command.ts';
import type { CliContext } from '../../context.ts';
import { CliError } from '../../errors.ts';
import { renderParagraph, renderRows } from '../../screen/layout.ts';
import { pageFor } from '../../screen/page.ts';
import { renderSecurityLog, renderStory } from '../../screen/pages/render-rows.ts';
import { printResult } from '../print.ts';
import { withReadOnlyAgent } from '../with-agent.ts';
import { repeat } from './repeat.ts';

/** `agent log [ATTEMPT]`. Without an id, it is about the last attempt. */
export async function showLog(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [attempt] = typed.operands;
  if (typed.flags.has('security')) {
    if (attempt !== undefined) throw new ArgumentError('ATTEMPT and --security do not fit together');
    return showSecurityLog(typed, context);
  }
  return typed.flags.has('follow') ? followAttempt(attempt, typed, context) : showAttempt(attempt, typed, context);
}

async function showAttempt(word: string | undefined, typed: ParsedCommand, context: CliContext): Promise<number> {
  const found = await readAttempt(word, context);
  if (found === undefined) return printResult({}, (page) => renderParagraph(noAttempts, page), typed, context);
  return printResult(found, (page) => renderStory(found, page), typed, context);
}

const noAttempts = 'No update attempts yet.';

/** Returns the named attempt, or the last one; undefined if there are none. Throws if there is no such attempt. */
async function readAttempt(word: string | undefined, context: CliContext): Promise<HistoryEntry | undefined> {
  const { attempts } = await withReadOnlyAgent(context, (agent) => agent.history({}, context.signal));
  if (word === undefined || word === 'last') return attempts.at(-1);
  const found = findUniqueAttempt(attempts, word);
  if (found !== undefined) return found;
  throw new CliError('usage', `unknown attempt ${word}`, { advice: 'to list the attempts: agent history' });
}

/** Prints the steps of an attempt as they happen. A named attempt has an end; otherwise later attempts follow. */
async function followAttempt(word: string | undefined, { json }: ParsedCommand, context: CliContext): Promise<number> {
  const print = json ? printNewsAsJson : printNews;
  let shown: HistoryEntry | undefined;
  return repeat(context, async () => {
    const told = await readAttempt(word, context);
    if (told === undefined) return 'open';
    print(told, newsOf(told, shown), context);
    shown = told;
    return word !== undefined && told.outcome !== undefined ? 'complete' : 'open';
  });
}

interface News {
  /** True if nothing of this attempt was shown yet. */
  readonly isNew: boolean;
  readonly steps: HistoryEntry['steps'];
  readonly hasEnded: boolean;
}

/** Returns the part of an attempt that was not shown yet. */
function newsOf({ attempt, steps, outcome }: HistoryEntry, shown: HistoryEntry | undefined): News {
  const before = attempt === shown?.attempt ? shown : undefined;
  return {
    isNew: before === undefined,
    steps: steps.slice(before?.steps.length ?? 0),
    hasEnded: outcome !== undefined && before?.outcome === undefined,
  };
}

function printNews(told: HistoryEntry, { isNew, steps, hasEnded }: News, context: CliContext): void {
  const page = pageFor(context.out, context);
  const rows = [
    ...(isNew ? [{ label: 'Attempt', paragraphs: [`${told.attempt}, ${told.version}`] }] : []),
    ...stepRows(told, page, steps),
    ...(hasEnded ? [{ label: 'Result', paragraphs: describeAttempt(told, page) }] : []),
  ];
  for (const row of rows) context.out.write(renderRows([row], page));
}

function printNewsAsJson(told: HistoryEntry, { steps, hasEnded }: News, { out }: CliContext): void {
  for (const step of steps) out.write(`${printableJson({ attempt: told.attempt, ...step })}\n`);
  if (hasEnded) out.write(`${printableJson({ ...told, steps: undefined })}\n`);
}

async function showSecurityLog(typed: ParsedCommand, context: CliContext): Promise<number> {
  let last = 0;
  const read = async (isFirst: boolean): Promise<void> => {
    const report = await withReadOnlyAgent(context, (agent) => agent.securityLog({}, context.signal));
    const events = report.events.filter(({ number }) => number > last);
    last = events.at(-1)?.number ?? last;
    if (!isFirst && events.length === 0) return;
    const news = isFirst ? report : { events, discarded: 0 };
    printResult(news, (page) => renderSecurityLog(news, page), typed, context);
  };
  await read(true);
  if (!typed.flags.has('follow')) return exitCodes.done;
  return repeat(context, async () => read(false).then(() => 'open'));
}

/** The maximum number of listed attempts if an id is ambiguous. */
const MAX_CANDIDATES = 5;

/** Returns the attempt with this id, or the only attempt whose id starts with it. */
function findUniqueAttempt(attempts: readonly HistoryEntry[], word: string): HistoryEntry | undefined {
  const exact = attempts.findLast(({ attempt }) => attempt === word);
  const begins = attempts.filter(({ attempt }) => attempt.startsWith(word));
  const ids = [...new Set(begins.map(({ attempt }) => attempt))];
  if (exact !== undefined || ids.length < 2) return exact ?? begins.at(-1);
  const named = begins.slice(-MAX_CANDIDATES).map(({ attempt, version }) => `${attempt.slice(0, 13)} (${version})`);
  const rest = begins.length > MAX_CANDIDATES ? ` and ${begins.length - MAX_CANDIDATES} earlier attempts` : '';
  throw new CliError('usage', `${ids.length} attempts start with ${word}: ${named.join(', ')}${rest}`, {
    advice: 'give more characters of the id, or last',
  });
}
