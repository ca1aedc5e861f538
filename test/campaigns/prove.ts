import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';

import { countOption, runTool, WrongUse } from '../tool.ts';

/**
 * Campaigns in full, one after the other. `npm test` runs a short, seeded part of each; this is what a release is judged
 * by.
 */

interface Campaign {
  readonly name: string;
  /** A file of this folder's parent, or a script of package.json. */
  readonly script: string;
  /** `scale` 1 is what a release needs. */
  readonly args: (seed: number, scale: number) => readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

const whole = (count: number, scale: number): string => String(Math.max(1, Math.round(count * scale)));
const sweep = (nth: number): Campaign => ({
  name: `sweep-${nth}`,
  script: 'campaigns/sweep/sweep.ts',
  args: (seed, scale) => ['--cases', whole(300_000, scale), '--seed', String(seed + nth - 1)],
});

const campaigns: readonly Campaign[] = [
  sweep(1),
  sweep(2),
  sweep(3),
  {
    name: 'kills',
    script: 'campaigns/kills/main.ts',
    args: (seed, scale) => ['--kills', whole(1000, scale), '--seed', String(seed)],
  },
  {
    name: 'fuzz',
    script: 'campaigns/fuzz/main.ts',
    args: (seed, scale) => ['--seconds', whole(600, scale), '--seed', String(seed)],
  },
  {
    name: 'soak',
    script: 'campaigns/soak/main.ts',
    args: (seed, scale) => ['--weeks', whole(12, scale), '--seed', String(seed)],
  },
  {
    name: 'boots-loop',
    script: 'campaigns/boots/main.ts',
    args: (seed, scale) => {
      const many = ['--cuts', whole(8000, scale), '--boots', whole(500, scale)];
      return ['--machine', 'loop', ...many, '--seed', String(seed)];
    },
  },
  {
    name: 'boots',
    script: 'campaigns/boots/main.ts',
    args: (seed, scale) => ['--cuts', whole(8000, scale), '--boots', whole(100, scale), '--seed', String(seed)],
  },
  {
    name: 'package-power',
    script: 'campaigns/package-power/main.ts',
    args: (seed, scale) => ['--cuts', whole(200, scale), '--seed', String(seed)],
  },
  {
    name: 'package-power-qemu',
    script: 'campaigns/package-power/main.ts',
    args: (seed, scale) => ['--machine', 'qemu', '--cuts', whole(20, scale), '--seed', String(seed)],
  },
  { name: 'uboot', script: 'uboot', args: () => [] },
  { name: 'arm64', script: 'campaigns/arm64/main.ts', args: () => [] },
  { name: 'arm64-boot', script: 'campaigns/arm64/main.ts', args: () => ['--boot'] },
  { name: 'slow-line', script: 'campaigns/slow-line/main.ts', args: (_seed, scale) => ['--mib', whole(1024, scale)] },
  { name: 'tests', script: 'campaigns/full-tests.ts', args: () => [] },
  {
    name: 'tests-trixie',
    script: 'campaigns/full-tests.ts',
    args: () => ['--only', 'test/guarantees/systemd'],
    environment: { TEST_DEBIAN: 'trixie' },
  },
  {
    name: 'replay',
    script: 'unit-and-integration/telemetry/replay.ts',
    args: (_seed, scale) => [whole(1_000_000, scale)],
  },
  {
    name: 'replay-power-cuts',
    script: 'unit-and-integration/telemetry/replay.ts',
    args: (_seed, scale) => ['--power-cuts', whole(1_000_000, scale)],
  },
];

const help = `npm run prove -- [--only NAME[,NAME]] [--seed S] [--percent P] [--json FILE]

Runs the campaigns below in full, one after the other: hours. Prints what each says, and one line for each at the end.

  --only NAME   some of ${campaigns.map(({ name }) => name).join(', ')}
  --seed S      drawn and printed, if not given
  --percent P   so much of each (100)
  --json FILE   the figures, for programs`;

const options = {
  only: { type: 'string' },
  seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  percent: { type: 'string', default: '100' },
  json: { type: 'string' },
} as const;

interface Figure {
  readonly name: string;
  readonly command: string;
  readonly exitCode: number | null;
  readonly seconds: number;
  /** The last lines that it printed. */
  readonly said: readonly string[];
}

const LAST_LINES = 40;

await runTool(help, options, async (values) => {
  const seed = countOption('seed', values.seed, 0);
  const percent = countOption('percent', values.percent, 1);
  console.log(`seed ${seed}`);
  const figures: Figure[] = [];
  for (const campaign of chosen(values.only)) figures.push(await run(campaign, seed, percent / 100));
  console.log('');
  for (const { name, exitCode, seconds, command } of figures) {
    console.log(
      `${exitCode === 0 ? 'held  ' : 'BROKEN'}  ${name.padEnd(18)} ${String(seconds).padStart(6)} s  ${command}`,
    );
  }
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ seed, percent, figures }, null, 2)}\n`);
  return figures.every(({ exitCode }) => exitCode === 0) ? 0 : 1;
});

function chosen(only: string | undefined): readonly Campaign[] {
  if (only === undefined) return campaigns;
  return only.split(',').map((name) => {
    const campaign = campaigns.find((one) => one.name === name);
    if (campaign === undefined) throw new WrongUse(`--only ${name}: there is no such campaign`);
    return campaign;
  });
}

async function run({ name, script, args, environment }: Campaign, seed: number, scale: number): Promise<Figure> {
  const words = args(seed, scale);
  const [program, ...before] = script.endsWith('.ts') ? ['node', `test/${script}`] : ['npm', 'run', '--silent', script];
  const command = [program, ...before, ...words].join(' ');
  console.log(`\n${name}: ${command}`);
  const startMs = performance.now();
  const cwd = join(import.meta.dirname, '../..');
  const env = { ...process.env, ...environment };
  const child = spawn(program === 'node' ? process.execPath : 'npm', [...before, ...words], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close') as Promise<[number | null]>;
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    console.log(`  ${line}`);
    said.push(line);
    if (said.length > LAST_LINES) said.shift();
  }
  const [exitCode] = await ended;
  return { name, command, exitCode, seconds: Math.round((performance.now() - startMs) / 1000), said };
}
