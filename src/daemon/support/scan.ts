import type { FoundSensor, ScanReport } from '../../cli/context.ts';
import { writeToml } from '../../config/file/toml.ts';
import { scanKernel } from '../../telemetry/scan/scan-kernel.ts';
import { scanModbus } from '../../telemetry/scan/scan-modbus.ts';
import type {
  ScanCandidate,
  OnProbe,
  ProposedSensor,
  ScanOrder,
  ScanResult,
} from '../../telemetry/scan/scan-result.ts';
import { scanSerial } from '../../telemetry/scan/scan-serial.ts';
import { sensorSchema } from '../../telemetry/settings.ts';

/** The interval of a proposal without one. The configuration requires it even for a push source. */
const EVERY = '10s';

/** Finds possible sensors, and proposes their configuration. */
export async function scanForSensors(order: ScanOrder, onAsked: OnProbe, signal: AbortSignal): Promise<ScanReport> {
  const { found, isCut } = await scan(order, onAsked, signal);
  return { found: found.map(asReport), isCut };
}

async function scan(order: ScanOrder, onAsked: OnProbe, signal: AbortSignal): Promise<ScanResult> {
  switch (order.kind) {
    case 'hwmon':
    case 'thermal':
    case 'iio':
    case 'w1':
      return scanKernel(order.kind, signal);
    case 'serial':
      return scanSerial(signal);
    case 'modbus-tcp':
    case 'modbus-rtu': {
      const { openSerialLine } = await import('../../serial/serial-line.ts');
      return scanModbus(order, openSerialLine, onAsked, signal);
    }
  }
}

/** A found sensor with its proposal, unless the configuration would refuse that. Pure. */
export function asReport({ sensor, ...found }: ScanCandidate): FoundSensor {
  const isAccepted = sensor !== undefined && sensorSchema.safeParse({ every: EVERY, ...sensor }).success;
  const problem = found.problem ?? (isAccepted ? undefined : 'odd-name');
  return { ...found, problem, toml: isAccepted ? tomlOf(sensor) : undefined };
}

function tomlOf({ event, every = EVERY, source, ...rest }: ProposedSensor): string {
  const inline = Object.entries(source).map(([key, value]) => writeToml({ [key]: value }).trim());
  return `[[sensors]]\n${writeToml({ event, every, ...rest }).trim()}\nsource = { ${inline.join(', ')} }\n`;
}
