import { printable } from '../../../system/log/printable.ts';
import type { FoundSensor, ScanReport } from '../../context.ts';

/**
 * Renders a scan as TOML. Everything for a person is a comment, and no line is wrapped, so that the output can be
 * copied into the configuration.
 */
export function renderScan(kind: string, { found, isCut }: ScanReport): string {
  const cut = isCut ? ['# There is more; the first are shown.'] : [];
  const head = found.length === 0 ? nothing(kind) : `# ${kind}: ${found.length} found.`;
  const next = found.some(({ toml }) => toml !== undefined)
    ? ['# Nothing was written: put what you want into the configuration, and try it with: agent config check']
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
  'same-name': 'cannot be configured: others have the same name, and no label or address tells them apart',
  'odd-name': 'cannot be configured under this name',
  unreadable: 'could not be read now',
  console: 'is the console of this machine, and left to it',
  'any-unit': 'answers whatever unit is asked',
};

function nothing(kind: string): string {
  return `# ${kind}: nothing was found. ${Object.entries(hints).find(([name]) => name === kind)?.[1] ?? ''}`.trimEnd();
}

const hints: Readonly<Record<string, string>> = {
  hwmon: 'Chips are in /sys/class/hwmon once their driver is loaded.',
  thermal: 'Zones are in /sys/class/thermal.',
  iio: 'Devices are in /sys/bus/iio/devices once their driver is loaded, or the device tree names them.',
  w1: 'Thermometers are in /sys/bus/w1/devices; on a Raspberry Pi dtoverlay=w1-gpio brings the bus.',
  serial: 'Ports are in /dev/serial/by-id and /sys/class/tty.',
  modbus: 'No unit from 1 to 247 answered: check wires, baud and parity.',
};
