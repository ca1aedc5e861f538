import { formatDuration } from '../../../control/presentation/time.ts';
import { nearest } from '../../../system/nearest.ts';
import type { ScanOrder } from '../../../telemetry/scan/scan-result.ts';
import { ArgumentError } from '../../arguments/command.ts';
import type { Command, ParsedCommand } from '../../arguments/command.ts';
import type { CliContext } from '../../context.ts';
import { renderScan } from '../../screen/pages/render-scan.ts';
import { printResult } from '../print.ts';

const LAST_UNIT = 247;
const kinds = ['modbus', 'hwmon', 'thermal', 'iio', 'w1', 'serial'] as const;
type Kind = (typeof kinds)[number];

export const scanCommand: Command = {
  name: 'sensors scan',
  operands: ['KIND', '[PLACE]'],
  options: ['baud', 'parity'],
  group: 'Configuration',
  summary: 'find sensors and propose [[sensors]]',
  details: [
    'KIND is hwmon, thermal, iio, w1 (what the kernel shows), serial (ports; none is opened) or modbus, which needs a PLACE: a serial port, or ' +
      'HOST[:PORT]. For modbus, reads holding register 0 of each unit from 1 to 247, which takes up to two minutes on a serial port, and five at a host where no unit responds.',
    'Prints TOML that agent config check accepts, and writes nothing.',
  ],
  run: scan,
};

async function scan(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [word = ''] = typed.operands;
  const kind = kinds.find((known) => known === word);
  if (kind === undefined) throw unknownKind(word);
  const order = orderOf(kind, typed);
  const startMs = context.clock.monotonicMs();
  const onAsked = (unit: number, answering: number): void => {
    const leftMs = ((context.clock.monotonicMs() - startMs) / unit) * (LAST_UNIT - unit);
    const left = formatDuration(leftMs);
    context.err.pin(
      `Probed unit ${unit} of ${LAST_UNIT}; ${answering} responded. About ${left} left. Ctrl-C stops the scan`,
    );
  };
  try {
    const report = await context.scan(order, onAsked, context.signal);
    context.err.pin(undefined);
    return printResult({ kind, ...report }, () => renderScan(kind, report), typed, context);
  } finally {
    context.err.pin(undefined);
  }
}

function unknownKind(word: string): ArgumentError {
  const meant = nearest(word, kinds);
  const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
  return new ArgumentError(`unknown kind "${word}": expected ${kinds.join(', ')}${hint}`);
}

function orderOf(kind: Kind, { operands: [, place], values }: ParsedCommand): ScanOrder {
  const option = (['baud', 'parity'] as const).find((name) => values.has(name));
  if (kind !== 'modbus') {
    if (place !== undefined) throw new ArgumentError(`${place} is unexpected: only modbus has a PLACE`);
    if (option !== undefined) throw new ArgumentError(`--${option} is an option of a modbus scan of a serial port`);
    return { kind };
  }
  if (place === undefined)
    throw new ArgumentError('modbus needs a PLACE: a serial port such as /dev/ttyUSB0, or HOST[:PORT]');
  if (place.startsWith('/')) return { kind: 'modbus-rtu', port: place, ...lineOf(values) };
  if (option !== undefined)
    throw new ArgumentError(`--${option} is an option of a serial port, and ${place} is not one`);
  return { kind: 'modbus-tcp', ...addressOf(place) };
}

const MODBUS_PORT = 502;
const MAX_PORT = 65_535;

function addressOf(place: string): { readonly host: string; readonly port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([\da-f:.]{2,64})\]|([\w.-]{1,253}))(?::(\d+))?$/i.exec(place) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits ?? MODBUS_PORT);
  if (host === undefined)
    throw new ArgumentError(`${place} is neither a serial port such as /dev/ttyUSB0 nor HOST[:PORT]`);
  if (port < 1 || port > MAX_PORT)
    throw new ArgumentError(`the port of ${place} is not a number from 1 to ${MAX_PORT}`);
  return { host, port };
}

const baudPattern = /^\d{2,7}$/;
const MIN_BAUD = 50;
const MAX_BAUD = 4_000_000;
const parities = ['even', 'odd', 'none'] as const;

function lineOf(values: ParsedCommand['values']) {
  const typedBaud = values.get('baud') ?? '9600';
  const baud = Number(typedBaud);
  if (!baudPattern.test(typedBaud) || baud < MIN_BAUD || baud > MAX_BAUD) {
    throw new ArgumentError(`--baud ${typedBaud} is not a whole number from ${MIN_BAUD} to ${MAX_BAUD}`);
  }
  const typedParity = values.get('parity') ?? 'even';
  const parity = parities.find((one) => one === typedParity);
  if (parity === undefined) throw new ArgumentError(`--parity ${typedParity} is not even, odd or none`);
  return { baud, parity };
}
