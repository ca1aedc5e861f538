import type { OutputOf } from '../../../control/operations.ts';
import { describeReading, describeWait } from '../../../control/presentation/rows/sensor-rows.ts';
import type { SensorReport } from '../../../control/telemetry-protocol.ts';
import { nearest } from '../../../system/nearest.ts';
import { ArgumentError, commandsOf } from '../../arguments/command.ts';
import type { ParsedCommand } from '../../arguments/command.ts';
import type { CliContext } from '../../context.ts';
import { CliError } from '../../errors.ts';
import { renderSensor, renderSensors } from '../../screen/pages/render-rows.ts';
import { singleParagraph, printResult } from '../print.ts';
import { withAgent, withReadOnlyAgent } from '../with-agent.ts';

export const sensorCommands = commandsOf('Inspect', [
  {
    name: 'sensors',
    operands: ['[NAME]'],
    options: ['try'],
    summary: 'show sensors: last readings, rates, errors',
    details: [
      'NAME shows one sensor in detail. It is a name in the output of agent sensors, or the event or property of a sensor.',
      'With --try, reads the sensor once now, and stores and sends nothing. A push source cannot be read this way.',
      'Without a daemon, only lists the configured sensors.',
    ],
    run: sensors,
  },
]);

async function sensors(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [name] = typed.operands;
  if (typed.flags.has('try')) {
    if (name === undefined) throw new ArgumentError('--try needs NAME');
    return trySensor(name, typed, context);
  }
  const report = await withReadOnlyAgent(context, (agent) => agent.sensors({}, context.signal));
  if (name === undefined) return printResult(report, (page) => renderSensors(report, page), typed, context);
  const sensor = sensorNamed(name, report);
  return printResult(sensor, (page) => renderSensor(sensor, report.isLive, page), typed, context);
}

async function trySensor(typedName: string, typed: ParsedCommand, context: CliContext): Promise<number> {
  return withAgent(context, async (agent) => {
    const sensor = sensorNamed(typedName, await agent.sensors({}, context.signal));
    const { name, kind, mode } = sensor;
    if (mode === 'pushed')
      return printResult({ name, kind, mode }, singleParagraph(describeWait(sensor)), typed, context);
    const { reading, unit, outputs } = await agent.trySensor({ name }, context.signal);
    const said = `${name}: ${describeReading({ lastReading: reading, unit, outputs })}. Nothing was stored or sent.`;
    return printResult({ name, kind, mode, reading, unit, outputs }, singleParagraph(said), typed, context);
  });
}

/**
 * Returns the sensor with this name, with a name that starts with it (`sensors[0]`), or with an output of this id.
 * Throws `usage`.
 */
function sensorNamed(typed: string, { sensors: all }: OutputOf<'sensors'>): SensorReport {
  const exact = all.filter(({ name }) => name === typed || name.startsWith(`${typed} (`));
  const found = exact.length > 0 ? exact : all.filter(({ outputs }) => outputs.some(({ id }) => id === typed));
  const [first, second] = found;
  if (first === undefined) throw unknown(typed, all);
  if (second === undefined) return first;
  const names = found.map(({ name }) => name).join(', ');
  throw new CliError('usage', `${typed} is the name of several sensors`, { advice: `use one of: ${names}` });
}

function unknown(typed: string, all: readonly SensorReport[]): CliError {
  const ids = all.flatMap(({ outputs }) => outputs.map(({ id }) => id));
  const meant = nearest(typed, [...ids, ...all.map(({ name }) => name)]);
  const advice = `${meant === undefined ? '' : `did you mean ${meant}? `}to list the sensors: agent sensors`;
  return new CliError('usage', `unknown sensor ${typed}`, { advice });
}
