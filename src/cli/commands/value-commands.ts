import { parseTime } from '../../control/presentation/time.ts';
import { nestedWithin, parseExactly } from '../../system/json-value.ts';
import { printable, printableJson } from '../../system/log/printable.ts';
import { ArgumentError, commandsOf, throughDaemon } from '../arguments/command.ts';
import type { ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { renderQueue } from '../screen/pages/render-rows.ts';
import { singleParagraph, printResult } from './print.ts';
import { withAgent } from './with-agent.ts';

/** Commands for data that goes to the service: the identity, property values and datapoints. */
export const valueCommands = commandsOf('Service and measurements', [
  {
    name: 'activate',
    summary: 'activate this gateway at the service',
    details: ['A new API key replaces the previous one.', throughDaemon],
    run: activate,
  },
  {
    name: 'property get',
    operands: ['ID'],
    summary: 'read a property',
    details: ['Prints a text unchanged, and everything else as JSON.'],
    run: getProperty,
  },
  {
    name: 'property set',
    operands: ['ID', 'VALUE'],
    options: ['text'],
    summary: 'write a property',
    details: ['VALUE is JSON, for example 21.5, true or {"low":1}. Anything else is sent as text.'],
    run: setProperty,
  },
  {
    name: 'datapoint send',
    operands: ['EVENT', 'VALUE'],
    options: ['at', 'text'],
    summary: 'send a datapoint to an event',
    details: [
      'TIME needs a time zone, for example 2026-03-01T14:05:09Z.',
      'VALUE is JSON, for example 21.5. Anything else is sent as text.',
    ],
    run: sendDatapoint,
  },
  {
    name: 'queue status',
    summary: 'show the queue of datapoints for the service',
    details: ['The daemon must be running.'],
    run: queueStatus,
  },
  {
    name: 'queue sync',
    summary: 'write queued datapoints from memory to disk',
    details: ['Use it before you switch off the power, for example. The daemon must be running.'],
    run: syncQueue,
  },
]);

async function activate(typed: ParsedCommand, context: CliContext): Promise<number> {
  const identity = await withAgent(context, (agent) => agent.activate({}, context.signal));
  const { serialNumber, thingId } = identity;
  return printResult(
    identity,
    singleParagraph(`Activated: serial number ${serialNumber} has Thing ID ${thingId}.`),
    typed,
    context,
  );
}

async function getProperty(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [id = ''] = typed.operands;
  const { value } = await withAgent(context, (agent) => agent.property({ id }, context.signal));
  const text = typeof value === 'string' ? printable(value) : printableJson(value);
  return printResult({ id, value }, () => `${text}\n`, typed, context);
}

async function setProperty(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [id = '', text = ''] = typed.operands;
  const value = parseValue(text, typed.flags, context);
  const { safeAt } = await withAgent(context, (agent) => agent.setProperty({ id, value }, context.signal));
  const said = safeAt === 'disk' ? `Queued on disk; ${id} is sent as soon as the service accepts it.` : `Set: ${id}.`;
  return printResult({ id, value, safeAt }, singleParagraph(said), typed, context);
}

async function sendDatapoint(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [event = '', text = ''] = typed.operands;
  const point = { event, value: parseValue(text, typed.flags, context), at: typedTime(typed) };
  const { safeAt } = await withAgent(context, (agent) => agent.sendDatapoint(point, context.signal));
  const said =
    safeAt === 'disk' ? `Queued on disk; sent to ${event} as soon as the service accepts it.` : `Sent to ${event}.`;
  return printResult({ ...point, safeAt }, singleParagraph(said), typed, context);
}

async function queueStatus(typed: ParsedCommand, context: CliContext): Promise<number> {
  const queue = await withAgent(context, (agent) => agent.queue({}, context.signal));
  return printResult(queue, (page) => renderQueue(queue, page), typed, context);
}

async function syncQueue(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { onDisk } = await withAgent(context, (agent) => agent.syncQueue({}, context.signal));
  const said = onDisk ? 'Everything is on disk.' : 'The disk cannot be written. For details: agent queue status';
  return printResult({ onDisk }, singleParagraph(said), typed, context);
}

/** Returns the value of `--at` (ISO 8601) in UTC. */
function typedTime({ values }: ParsedCommand): string | undefined {
  const text = values.get('at');
  const at = text === undefined ? undefined : parseTime(text);
  if (text !== undefined && at === undefined) {
    throw new ArgumentError(`--at ${text} is not a time with a time zone, such as 2026-03-01T14:05:09Z`);
  }
  return at;
}

/** Parses a text as JSON. Returns the text itself if it is not JSON, with a note if it looks like a number. */
function parseValue(text: string, flags: ParsedCommand['flags'], { err }: CliContext): unknown {
  if (flags.has('text')) return text;
  const value = parseExactly(text);
  if (!nestedWithin(value)) throw new ArgumentError('VALUE is nested too deeply');
  if (value === undefined && /^[-+.]?\d/.test(text))
    err.write(`Note: ${printable(text)} is not a JSON number, so it is sent as text.\n`);
  return value === undefined ? text : value;
}
