import { parseTime } from '../../control/presentation/time.ts';
import { nestedWithin, parseExactly } from '../../system/json-value.ts';
import { printable, printableJson } from '../../system/log/printable.ts';
import { ArgumentError, throughDaemon } from '../arguments/command.ts';
import type { Command, ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { renderSpool } from '../screen/pages/render-rows.ts';
import { singleParagraph, printResult } from './print.ts';
import { withAgent } from './with-agent.ts';

/** Commands for what goes to the service through the daemon's spool: the identity, property values and datapoints. */
export const valueCommands: readonly Command[] = [
  {
    name: 'activate',
    operands: [],
    options: [],
    group: 'Service and measurements',
    summary: 'introduce this gateway to the service',
    details: ['A new key replaces the old one.', throughDaemon],
    run: activate,
  },
  {
    name: 'property get',
    operands: ['ID'],
    options: [],
    group: 'Service and measurements',
    summary: 'read a property',
    details: ['A text is shown as it is, everything else as JSON.'],
    run: getProperty,
  },
  {
    name: 'property set',
    operands: ['ID', 'VALUE'],
    options: ['text'],
    group: 'Service and measurements',
    summary: 'write a property',
    details: ['VALUE is JSON, e.g. 21.5, true or {"low":1}; what is not JSON is a text.'],
    run: setProperty,
  },
  {
    name: 'datapoint send',
    operands: ['EVENT', 'VALUE'],
    options: ['at', 'text'],
    group: 'Service and measurements',
    summary: 'post one datapoint to an event',
    details: ['TIME has its zone, e.g. 2026-03-01T14:05:09Z.', 'VALUE is JSON, e.g. 21.5; what is not JSON is a text.'],
    run: sendDatapoint,
  },
  {
    name: 'queue status',
    operands: [],
    options: [],
    group: 'Service and measurements',
    summary: 'what was measured and waits for the service',
    details: ['The daemon has to run.'],
    run: spoolStatus,
  },
  {
    name: 'queue sync',
    operands: [],
    options: [],
    group: 'Service and measurements',
    summary: 'write what waits in memory to the disk',
    details: ['Before the power is cut, for instance. The daemon has to run.'],
    run: flushSpool,
  },
];

async function activate(typed: ParsedCommand, context: CliContext): Promise<number> {
  const identity = await withAgent(context, (agent) => agent.activate({}, context.signal));
  const { serialNumber, thingId } = identity;
  return printResult(identity, singleParagraph(`Activated: ${serialNumber} is thing ${thingId}.`), typed, context);
}

async function getProperty(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [id = ''] = typed.operands;
  const { value } = await withAgent(context, (agent) => agent.property({ id }, context.signal));
  const text = typeof value === 'string' ? printable(value) : printableJson(value);
  return printResult({ id, value }, () => `${text}\n`, typed, context);
}

async function setProperty(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [id = '', text = ''] = typed.operands;
  const value = parseValue(text, typed.flags);
  const { safeAt } = await withAgent(context, (agent) => agent.setProperty({ id, value }, context.signal));
  const said = safeAt === 'disk' ? `Kept on disk; ${id} goes to the service as soon as that takes it.` : `Set: ${id}.`;
  return printResult({ id, value, safeAt }, singleParagraph(said), typed, context);
}

async function sendDatapoint(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [event = '', text = ''] = typed.operands;
  const point = { event, value: parseValue(text, typed.flags), at: typedTime(typed) };
  const { safeAt } = await withAgent(context, (agent) => agent.sendDatapoint(point, context.signal));
  const said =
    safeAt === 'disk' ? `Kept on disk; it goes to ${event} as soon as the service takes it.` : `Sent to ${event}.`;
  return printResult({ ...point, safeAt }, singleParagraph(said), typed, context);
}

async function spoolStatus(typed: ParsedCommand, context: CliContext): Promise<number> {
  const queue = await withAgent(context, (agent) => agent.queue({}, context.signal));
  return printResult(queue, (page) => renderSpool(queue, page), typed, context);
}

async function flushSpool(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { onDisk } = await withAgent(context, (agent) => agent.syncQueue({}, context.signal));
  const said = onDisk ? 'Everything is on disk.' : 'The disk cannot be written; see: agent queue status.';
  return printResult({ onDisk }, singleParagraph(said), typed, context);
}

/** The value of `--at` (ISO 8601), in UTC. */
function typedTime({ values }: ParsedCommand): string | undefined {
  const text = values.get('at');
  const at = text === undefined ? undefined : parseTime(text);
  if (text !== undefined && at === undefined) {
    throw new ArgumentError(`--at ${text} is not a time with its zone, such as 2026-03-01T14:05:09Z`);
  }
  return at;
}

/** The typed text as JSON; a text that is no JSON is taken as a string. */
function parseValue(text: string, flags: ParsedCommand['flags']): unknown {
  if (flags.has('text')) return text;
  try {
    const value = parseExactly(text);
    if (!nestedWithin(value)) throw new ArgumentError('VALUE is nested too deep');
    return value;
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}
