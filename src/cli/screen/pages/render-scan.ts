import { printable } from '../../../system/log/printable.ts';
import type { FoundSensor, ScanReport } from '../../context.ts';

/**
 * Renders a scan as TOML. Explanations are comments and no line is wrapped, so that you can copy the output into the
 * configuration.
 */
export function renderScan(kind: string, { found, isCut }: ScanReport): string {
  const cut = isCut ? ['# More were found; only the first are shown.'] : [];
  const head = found.length === 0 ? nothing(kind) : `# ${kind}: ${found.length} found.`;
  const next = found.some(({ toml }) => toml !== undefined)
    ? ['# Nothing was written. Copy the tables you need into the configuration and run: agent config check']
    : [];
  const tables = found.map((one) => [`\n# ${describe(one)}`, ...(one.toml === undefined ? [] : [one.toml.trimEnd()])]);
  return `${[head, ...cut, ...next, ...tables.flat()].join('\n')}\n`;
}

function describe({ title, reading, raw, unit, problem, why }: FoundSensor): string {
  const value = reading === undefined ? '' : `: ${printable(reading)}${unit === undefined ? '' : ` ${unit}`}`;
  const source = raw === undefined ? '' : ` (read ${printable(raw)})`;
  const reason = why === undefined ? '' : `: ${printable(why)}`;
  return `${printable(title)}${value}${source}${problem === undefined ? '' : `; ${problems[problem]}${reason}`}`;
}

type Problem = NonNullable<FoundSensor['problem']>;

const problems: Readonly<Record<Problem, string>> = {
  'same-name': 'cannot be configured: other sensors have the same name, and no label or address distinguishes them',
  'odd-name': 'cannot be configured under this name',
  unreadable: 'could not be read now',
  console: 'is the console of this machine',
  'any-unit': 'responds to every unit number',
};

function nothing(kind: string): string {
  return `# ${kind}: nothing found. ${Object.entries(hints).find(([name]) => name === kind)?.[1] ?? ''}`.trimEnd();
}

const hints: Readonly<Record<string, string>> = {
  hwmon: 'Chips are in /sys/class/hwmon once their driver is loaded.',
  thermal: 'Zones are in /sys/class/thermal.',
  iio: 'Devices are in /sys/bus/iio/devices once their driver is loaded, or the device tree names them.',
  w1: 'Thermometers are in /sys/bus/w1/devices; on a Raspberry Pi, dtoverlay=w1-gpio enables the bus.',
  serial: 'Ports are in /dev/serial/by-id and /sys/class/tty.',
  modbus: 'No unit from 1 to 247 responded: check wiring, baud rate and parity.',
};
