import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { cpus, release, tmpdir, totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';

import { buildTree } from '../../../systemd/make/build.ts';
import { countOption, runTool, WrongUse } from '../../tool.ts';
import type { BenchContext } from './context.ts';
import { deltaSuite } from './delta/delta-suite.ts';
import { isMissed, renderResult } from './figures.ts';
import type { SuiteResult } from './figures.ts';
import { idleSuite } from './idle/idle-suite.ts';
import { startSuite } from './idle/start-suite.ts';
import { installSuite } from './install-suite.ts';
import { smallSuite } from './machine/small-suite.ts';
import { mcuSuite } from './mcu-suite.ts';
import { messagingSuite } from './messaging.ts';
import { record, worseThanRecorded } from './recorded/recorded.ts';
import type { RecordedRun } from './recorded/recorded.ts';
import { telemetrySuite } from './telemetry-suite.ts';
import { trafficSuite } from './traffic/traffic-suite.ts';

const suites: Readonly<Record<string, (context: BenchContext) => Promise<SuiteResult>>> = {
  install: installSuite,
  idle: idleSuite,
  start: startSuite,
  small: smallSuite,
  mcu: mcuSuite,
  messaging: messagingSuite,
  delta: deltaSuite,
  telemetry: telemetrySuite,
  traffic: trafficSuite,
};

const help = `Measures the built program against its targets (test/campaigns/bench/README.md). Wants root, and nginx, swupdate, mender, rauc and mosquitto from Debian.

usage: npm run bench -- [options]

  --only NAME     ${Object.keys(suites).join(', ')}; may be repeated
  --rounds N      5 if not given
  --size MIB      1024 if not given
  --json FILE     everything that was measured
  --built DIR     measures this tree of another build
  --record RUN    before or now: keeps what holds on any machine in recorded.json, and draws docs/images/performance.svg
  --work DIR      a folder on a disk with room for twelve images; a temporary one if not given
  --without-sha   what installs finds no SHA instructions, as on a Raspberry Pi 4
  --cores N       what installs runs on so many processors; nginx and the kernel have all of them
  --memory MIB    what installs has so much memory, page cache included
  --quick         2 rounds of 256 MiB, shorter idle times: about two minutes, for a look
`;

const options = {
  only: { type: 'string', multiple: true, default: Object.keys(suites) },
  rounds: { type: 'string' },
  size: { type: 'string' },
  json: { type: 'string' },
  built: { type: 'string' },
  record: { type: 'string' },
  work: { type: 'string' },
  'without-sha': { type: 'boolean', default: false },
  cores: { type: 'string' },
  memory: { type: 'string' },
  quick: { type: 'boolean', default: false },
} as const;

await runTool(help, options, async (values) => {
  const { quick } = values;
  const chosen = values.only.map((name) => ({ name, suite: suiteNamed(name) }));
  const sizeBytes = countOption('size', values.size ?? (quick ? '256' : '1024'), 1) * 2 ** 20;
  const rounds = countOption('rounds', values.rounds ?? (quick ? '2' : '5'), 1);
  const on = {
    withoutSha: values['without-sha'],
    cores: values.cores === undefined ? undefined : countOption('cores', values.cores, 1),
    memoryMib: values.memory === undefined ? undefined : countOption('memory', values.memory, 1),
  };
  const run = recordedRun(values.record);
  const workFolder = await mkdtemp(join(values.work ?? tmpdir(), 'bench-'));
  const built = values.built === undefined ? join(workFolder, 'dist') : resolve(values.built);
  const tell = (line: string): void => console.error(line);
  try {
    if (values.built === undefined) await buildProgram(built, tell);
    const context: Omit<BenchContext, 'workFolder'> = {
      program: join(built, 'agent'),
      node: join(built, 'bin/node'),
      sizeBytes,
      rounds,
      quick,
      on,
      tell,
    };
    const results: SuiteResult[] = [];
    for (const { name, suite } of chosen) {
      const suiteFolder = await mkdtemp(join(workFolder, `${name}-`));
      results.push(await suite({ ...context, workFolder: suiteFolder }));
      await rm(suiteFolder, { recursive: true });
    }
    await report(results, context, values.json);
    return run === undefined ? await compare(results) : await record(results, run);
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
});

async function buildProgram(out: string, tell: (line: string) => void): Promise<void> {
  tell('building the program');
  const main = join(import.meta.dirname, '../../../src/main.ts');
  await buildTree({ out, main, arch: process.arch, node: process.execPath });
}

function recordedRun(name: string | undefined): RecordedRun | undefined {
  if (name !== undefined && name !== 'before' && name !== 'now') throw new WrongUse('--record is before or now');
  return name;
}

/** Returns the exit code. */
async function compare(results: readonly SuiteResult[]): Promise<number> {
  const worse = await worseThanRecorded(results);
  for (const line of worse) console.log(`More than 5 % worse: ${line}`);
  return worse.length === 0 ? 0 : 1;
}

function suiteNamed(name: string): (context: BenchContext) => Promise<SuiteResult> {
  const suite = suites[name];
  if (suite === undefined) throw new WrongUse(`--only is one of ${Object.keys(suites).join(', ')}`);
  return suite;
}

async function report(
  results: readonly SuiteResult[],
  { sizeBytes, rounds, on }: Pick<BenchContext, 'sizeBytes' | 'rounds' | 'on'>,
  file: string | undefined,
): Promise<void> {
  const machine = {
    processors: cpus().map(({ model }) => model),
    memoryMib: Math.round(totalmem() / 2 ** 20),
    kernel: release(),
    node: process.version,
  };
  const setting = { takenAt: new Date().toISOString(), sizeMib: sizeBytes / 2 ** 20, rounds, on };
  console.log(
    `${machine.processors.length} × ${machine.processors[0]}, Linux ${machine.kernel}, Node ${machine.node};`,
  );
  console.log(
    `${setting.sizeMib} MiB, ${rounds} rounds, on ${JSON.stringify(on)}, ${setting.takenAt}; median [smallest–largest]\n`,
  );
  for (const result of results) console.log(renderResult(result));
  const missed = results.flatMap(({ figures }) => figures.filter(isMissed)).map(({ name }) => name);
  console.log(missed.length === 0 ? 'All targets are met.' : `Missed: ${missed.join('; ')}`);
  if (file !== undefined) {
    await writeFile(file, `${JSON.stringify({ ...setting, machine, results }, undefined, 2)}\n`);
  }
}
