import type { BenchContext } from '../context.ts';
import type { Figure, SuiteResult } from '../figures.ts';
import { inRounds, ratioOf, spreadOf } from '../statistics.ts';
import { avrBench } from './mcu-avr.ts';
import type { AvrBench } from './mcu-avr.ts';
import { espBench } from './mcu-esp.ts';
import { stm32Bench } from './mcu-stm32.ts';
import { virtualSeconds } from './mcu-virtual.ts';

const latencyMs = 16;
const lossEvery = 9_000;
/** So often the clean run of the standard tool may take before it counts as stuck. */
const patience = 4;
const shortestLimitSeconds = 10;
const maxRounds = 3;

/** Row 7: our flasher and the standard tool on the same simulated boards, in real time. */
export async function mcuSuite(context: BenchContext): Promise<SuiteResult> {
  const bench: Bench = { rounds: Math.min(maxRounds, context.quick ? 1 : context.rounds), tell: context.tell };
  const uno = await avrBench('optiboot', 30 * 1024);
  const figures = [...(await compareAvr(uno, bench)), ...(await boardsAtOnce(uno, bench))];
  if (!context.quick) figures.push(...(await compareAvr(await avrBench('stk500v2', 240 * 1024), bench)));
  figures.push(...(await compareStm32(64 * 1024, bench)));
  figures.push(...(await compareEsp(1024 * 1024, bench)));
  return { suite: 'microcontrollers', measurements: [], figures };
}

interface Bench {
  readonly rounds: number;
  readonly tell: (line: string) => void;
}

async function compareAvr(avr: AvrBench, { rounds, tell }: Bench): Promise<readonly Figure[]> {
  const { name } = avr;
  const run = (what: string, how: () => Promise<number>) => ({ name: `${name}: ${what}`, run: how });
  const contenders = [
    run('ours', async () => avr.ours({})),
    run('avrdude', async () => avr.avrdude({})),
    run('ours, 1 % changed', async () => avr.ours({ changed: 0.01 })),
    run('ours, bytes lost', async () => avr.ours({ lossEvery })),
    run('ours, latency', async () => avr.ours({ latencyMs })),
    run('avrdude, latency', async () => avr.avrdude({ latencyMs })),
  ];
  const times = await inRounds(contenders, rounds, tell);
  const [ours = [], avrdude = [], changed = [], lost = [], late = [], avrdudeLate = []] = [...times.values()];
  const limitMs = limitOf(avrdude);
  tell(`${name}: avrdude, bytes lost`);
  const avrdudeLost = await avr.avrdude({ lossEvery, limitMs });
  return [
    seconds(`${name}: ours, write and verify`, ours),
    seconds(`${name}: avrdude, the same`, avrdude),
    ratio(`${name}: ours / avrdude`, ours, avrdude, 0.9),
    await againstTheWire(avr),
    ratio(`${name}: 1 % changed / avrdude`, changed, avrdude, 0.5),
    ratio(`${name}: one byte in ${lossEvery} lost / clean`, lost, ours, 1.3),
    seconds(`${name}: avrdude with such losses; none: it failed or was stopped`, [avrdudeLost]),
    ratio(`${name}: ours / avrdude at ${latencyMs} ms`, late, avrdudeLate, 0.7),
  ];
}

async function boardsAtOnce(avr: AvrBench, { rounds, tell }: Bench): Promise<readonly Figure[]> {
  const three = async (): Promise<number> => {
    const all = await Promise.all([avr.ours({}), avr.ours({}), avr.ours({})]);
    return Math.max(...all);
  };
  const contenders = [
    { name: 'one board', run: async () => avr.ours({}) },
    { name: 'three boards at once', run: three },
  ];
  const [one = [], together = []] = [...(await inRounds(contenders, rounds, tell)).values()];
  return [ratio(`${avr.name}: three at once / one`, together, one, 1.3)];
}

async function compareStm32(sizeBytes: number, { rounds, tell }: Bench): Promise<readonly Figure[]> {
  const stm32 = stm32Bench(sizeBytes);
  const { name } = stm32;
  const contenders = [
    { name: `${name}: ours`, run: async () => stm32.ours({}) },
    { name: `${name}: stm32flash`, run: async () => stm32.stm32flash({}, tell) },
    { name: `${name}: ours, 1 % changed`, run: async () => stm32.ours({ changed: 0.01 }) },
    { name: `${name}: ours, latency`, run: async () => stm32.ours({ latencyMs }) },
    { name: `${name}: stm32flash, latency`, run: async () => stm32.stm32flash({ latencyMs }, tell) },
  ];
  const times = await inRounds(contenders, rounds, tell);
  const [ours = [], stranger = [], changed = [], late = [], strangerLate = []] = [...times.values()];
  return [
    seconds(`${name}: ours, write and verify`, ours),
    seconds(`${name}: stm32flash, the same`, stranger),
    ratio(`${name}: ours / stm32flash`, ours, stranger, 1),
    await againstTheWire(stm32),
    await againstTheWire({ ...stm32, chip: 'STM32, checksums' }),
    ratio(`${name}: 1 % changed / stm32flash`, changed, stranger, 0.5),
    ratio(`${name}: ours / stm32flash at ${latencyMs} ms`, late, strangerLate, 0.8),
  ];
}

async function compareEsp(sizeBytes: number, { rounds, tell }: Bench): Promise<readonly Figure[]> {
  const esp = espBench(sizeBytes);
  const { name } = esp;
  const contenders = [
    { name: `${name}: ours`, run: async () => esp.ours({}) },
    { name: `${name}: esptool-js`, run: async () => esp.esptoolJs({}, tell) },
    { name: `${name}: ours, 1 % changed`, run: async () => esp.ours({ changed: 0.01 }) },
    { name: `${name}: ours, bytes lost`, run: async () => esp.ours({ lossEvery }) },
    { name: `${name}: ours, latency`, run: async () => esp.ours({ latencyMs }) },
    { name: `${name}: esptool-js, latency`, run: async () => esp.esptoolJs({ latencyMs }, tell) },
  ];
  const times = await inRounds(contenders, rounds, tell);
  const [ours = [], stranger = [], changed = [], lost = [], late = [], strangerLate = []] = [...times.values()];
  tell(`${name}: esptool-js, bytes lost`);
  const strangerLost = await esp.esptoolJs({ lossEvery, limitMs: limitOf(stranger) }, tell);
  return [
    seconds(`${name}: ours, write and verify`, ours),
    seconds(`${name}: esptool-js with its stub, the same`, stranger),
    ratio(`${name}: ours / esptool-js`, ours, stranger, 0.8),
    await againstTheWire(esp),
    ratio(`${name}: 1 % changed / esptool-js`, changed, stranger, 0.5),
    ratio(`${name}: one byte in ${lossEvery} lost / clean`, lost, ours, 1.3),
    seconds(`${name}: esptool-js with such losses; none: it failed or was stopped`, [strangerLost]),
    ratio(`${name}: ours / esptool-js at ${latencyMs} ms`, late, strangerLate, 1),
  ];
}

function limitOf(clean: readonly number[]): number {
  return patience * 1_000 * Math.max(...clean.filter((value) => !Number.isNaN(value)), shortestLimitSeconds);
}

/** In virtual time: what is compared is the protocol, not the machine. */
async function againstTheWire({ name, chip, minimumSeconds }: OnTheWire): Promise<Figure> {
  const value = spreadOf([(await virtualSeconds(chip, {})) / minimumSeconds]);
  const how = chip === 'STM32, checksums' ? ', verified by checksums' : '';
  return { name: `${name}: ours${how} / the wire's minimum`, unit: '×', value, target: 1.15, how: 'virtual time' };
}

interface OnTheWire {
  readonly name: string;
  readonly chip: '328P' | '2560' | 'STM32' | 'STM32, checksums' | 'ESP32';
  readonly minimumSeconds: number;
}

function seconds(name: string, values: readonly number[]): Figure {
  return { name, unit: 's', value: spreadOf(values), how: 'wall time' };
}

function ratio(name: string, values: readonly number[], against: readonly number[], target: number): Figure {
  return { name, unit: '×', value: ratioOf(values, against), target, how: 'pairs of the same round' };
}
