import { nestedWithin } from '../../system/json-value.ts';
import { parseTime } from '../screen/time.ts';
import type { CommandEntry, CommandInput } from './command-table.ts';
import type { Command } from './command.ts';

/** What travels to the service: property values and datapoints, through the daemon's spool. */
export const valueCommands: readonly CommandEntry[] = [
  {
    name: 'property get',
    operands: ['ID'],
    options: [],
    group: 'Service',
    summary: 'read a property',
    details: ['A text is shown as it is, everything else as JSON.'],
    build: ({ operands: [id = ''] }) => ({ kind: 'request', request: { name: 'property-get', id } }),
  },
  {
    name: 'property set',
    operands: ['ID', 'VALUE'],
    options: ['text'],
    group: 'Service',
    summary: 'write a property',
    details: ['VALUE is JSON, e.g. 21.5, true or {"low":1}; what is not JSON is a text.'],
    build: buildPropertySet,
  },
  {
    name: 'datapoint send',
    operands: ['EVENT', 'VALUE'],
    options: ['at', 'text'],
    group: 'Service',
    summary: 'post one datapoint to an event',
    details: ['TIME has its zone, e.g. 2026-03-01T14:05:09Z.', 'VALUE is JSON, e.g. 21.5; what is not JSON is a text.'],
    build: buildDatapointSend,
  },
  {
    name: 'spool status',
    operands: [],
    options: [],
    group: 'Service',
    summary: 'what was measured and waits for the service',
    details: ['The daemon has to run.'],
    build: () => ({ kind: 'request', request: { name: 'spool-status' } }),
  },
  {
    name: 'spool flush',
    operands: [],
    options: [],
    group: 'Service',
    summary: 'write what waits in memory to the disk',
    details: ['Before the power is cut, for instance. The daemon has to run.'],
    build: () => ({ kind: 'request', request: { name: 'spool-flush' } }),
  },
];

function buildPropertySet({ operands: [id = '', text = ''], flags }: CommandInput): Command | string {
  const value = parseValue(text, flags);
  if (!nestedWithin(value)) return 'VALUE is nested too deep';
  return { kind: 'request', request: { name: 'property-set', id, value } };
}

function buildDatapointSend({ operands: [event = '', text = ''], flags, values }: CommandInput): Command | string {
  const value = parseValue(text, flags);
  if (!nestedWithin(value)) return 'VALUE is nested too deep';
  const typed = values.get('at');
  const at = typed === undefined ? undefined : parseTime(typed);
  if (typed !== undefined && at === undefined) {
    return `--at ${typed} is not a time with its zone, such as 2026-03-01T14:05:09Z`;
  }
  return { kind: 'request', request: { name: 'datapoint-send', event, value, at } };
}

/** JSON, or what is none as a text. */
function parseValue(text: string, flags: CommandInput['flags']): unknown {
  if (flags.has('text')) return text;
  try {
    const value: unknown = JSON.parse(text);
    return value;
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}
