import { parseTime } from '../../control/words/time.ts';
import { nestedWithin, parseExactly } from '../../system/json-value.ts';
import { printable, printableJson } from '../../system/log/printable.ts';
import { Misuse, throughDaemon } from '../arguments/command.ts';
import type { Command, Typed } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { renderSpool } from '../screen/pages/render-rows.ts';
import { sentence, tell } from './tell.ts';
import { withAgent } from './with-agent.ts';

/** Commands for what goes to the service through the daemon's spool: the identity, property values and datapoints. */
export const valueCommands: readonly Command[] = [
  {
    name: 'activate',
    operands: [],
    options: [],
    group: 'Service',
    summary: 'introduce this gateway to the service',
    details: ['A new key replaces the old one.', throughDaemon],
    run: activate,
  },
  {
    name: 'property get',
    operands: ['ID'],
    options: [],
    group: 'Service',
    summary: 'read a property',
    details: ['A text is shown as it is, everything else as JSON.'],
    run: getProperty,
  },
  {
    name: 'property set',
    operands: ['ID', 'VALUE'],
    options: ['text'],
    group: 'Service',
    summary: 'write a property',
    details: ['VALUE is JSON, e.g. 21.5, true or {"low":1}; what is not JSON is a text.'],
    run: setProperty,
  },
  {
    name: 'datapoint send',
    operands: ['EVENT', 'VALUE'],
    options: ['at', 'text'],
    group: 'Service',
    summary: 'post one datapoint to an event',
    details: ['TIME has its zone, e.g. 2026-03-01T14:05:09Z.', 'VALUE is JSON, e.g. 21.5; what is not JSON is a text.'],
    run: sendDatapoint,
  },
  {
    name: 'spool status',
    operands: [],
    options: [],
    group: 'Service',
    summary: 'what was measured and waits for the service',
    details: ['The daemon has to run.'],
    run: spoolStatus,
  },
  {
    name: 'spool flush',
    operands: [],
    options: [],
    group: 'Service',
    summary: 'write what waits in memory to the disk',
    details: ['Before the power is cut, for instance. The daemon has to run.'],
    run: flushSpool,
  },
];

async function activate(typed: Typed, context: CliContext): Promise<number> {
  const identity = await withAgent(context, (agent) => agent.activate({}, context.signal));
  const { serialNumber, thingId } = identity;
  return tell(identity, sentence(`Activated: ${serialNumber} is thing ${thingId}.`), typed, context);
}

async function getProperty(typed: Typed, context: CliContext): Promise<number> {
  const [id = ''] = typed.operands;
  const { value } = await withAgent(context, (agent) => agent.property({ id }, context.signal));
  const text = typeof value === 'string' ? printable(value) : printableJson(value);
  return tell({ id, value }, () => `${text}\n`, typed, context);
}

async function setProperty(typed: Typed, context: CliContext): Promise<number> {
  const [id = '', text = ''] = typed.operands;
  const value = parseValue(text, typed.flags);
  const { safeAt } = await withAgent(context, (agent) => agent.setProperty({ id, value }, context.signal));
  const said = safeAt === 'disk' ? `Kept on disk; ${id} goes to the service as soon as that takes it.` : `Set: ${id}.`;
  return tell({ id, value, safeAt }, sentence(said), typed, context);
}

async function sendDatapoint(typed: Typed, context: CliContext): Promise<number> {
  const [event = '', text = ''] = typed.operands;
  const point = { event, value: parseValue(text, typed.flags), at: typedTime(typed) };
  const { safeAt } = await withAgent(context, (agent) => agent.sendDatapoint(point, context.signal));
  const said =
    safeAt === 'disk' ? `Kept on disk; it goes to ${event} as soon as the service takes it.` : `Sent to ${event}.`;
  return tell({ ...point, safeAt }, sentence(said), typed, context);
}

async function spoolStatus(typed: Typed, context: CliContext): Promise<number> {
  const spool = await withAgent(context, (agent) => agent.spool({}, context.signal));
  return tell(spool, (page) => renderSpool(spool, page), typed, context);
}

async function flushSpool(typed: Typed, context: CliContext): Promise<number> {
  const { onDisk } = await withAgent(context, (agent) => agent.flushSpool({}, context.signal));
  const said = onDisk ? 'Everything is on disk.' : 'The disk cannot be written; see: agent spool status.';
  return tell({ onDisk }, sentence(said), typed, context);
}

/** The value of `--at` (ISO 8601), in UTC. */
function typedTime({ values }: Typed): string | undefined {
  const text = values.get('at');
  const at = text === undefined ? undefined : parseTime(text);
  if (text !== undefined && at === undefined) {
    throw new Misuse(`--at ${text} is not a time with its zone, such as 2026-03-01T14:05:09Z`);
  }
  return at;
}

/** The typed text as JSON; a text that is no JSON is taken as a string. */
function parseValue(text: string, flags: Typed['flags']): unknown {
  if (flags.has('text')) return text;
  try {
    const value = parseExactly(text);
    if (!nestedWithin(value)) throw new Misuse('VALUE is nested too deep');
    return value;
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}
