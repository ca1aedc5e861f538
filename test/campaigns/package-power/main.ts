import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { setup as buildAgent } from '../../fakes/machine/built-agent.ts';
import { countOption, runTool, WrongUse } from '../../tool.ts';
import { liveOn } from './cut-life.ts';
import type { DiskMachines } from './disk-machines.ts';
import { nspawnMachines } from './nspawn-machines.ts';
import { qemuMachines } from './qemu-machines.ts';
import { record } from './record.ts';
import { phases } from './scene.ts';

const list = Object.entries(phases).map(([name, { says }]) => `  ${name.padEnd(16)} ${says}`);

const help = `npm run package-power -- [--machine KIND] [--cuts N] [--seed S] [--before FILE]

The life of the agent's own package on a Debian that really boots, from a disk of which all writes and flushes are recorded
(QEMU's blklogwrites). Power cuts are made from the recording: what was not flushed is lost, all of it or a part. Each cut is
started, the agent must run with its identity and its spool, and a person must be able to do again what was interrupted. For root.

  --machine KIND  nspawn (default): a container, where no kernel starts; or qemu: an emulated machine, whose kernel mounts the disk
  --cuts N        so many (50)
  --seed S        of the cuts (a random one)
  --before FILE   a package of the agent that is the older version; if not given, that is today's with another number
  --console       show the console of emulated machines

Phases:
${list.join('\n')}`;

const options = {
  machine: { type: 'string', default: 'nspawn' },
  cuts: { type: 'string', default: '50' },
  seed: { type: 'string', default: String(Math.floor(Math.random() * 1_000_000)) },
  before: { type: 'string' },
  console: { type: 'boolean', default: false },
} as const;

await runTool(help, options, async (values) => {
  const cuts = countOption('cuts', values.cuts, 1);
  const seed = countOption('seed', values.seed, 0);
  console.log(`seed ${seed}`);
  await using parts = new AsyncDisposableStack();
  parts.defer(await buildAgent());
  const folder = await mkdtemp(join(tmpdir(), 'package-life-'));
  parts.defer(async () => rm(folder, { recursive: true }));
  const startMs = performance.now();
  const machines = machinesNamed(values.machine, values.console);
  const recording = await record(parts, folder, machines, values.before);
  const { events, rig } = recording;
  rig.service.world.targetVersionId = undefined;
  console.log(`recorded in ${seconds(startMs)} s: ${events.length} writes and flushes`);
  const tally = new Map<string, number>();
  let broken = 0;
  for (let number = 0; number < cuts; number += 1) {
    const { cut, phase, found, violations } = await liveOn(recording, folder, seed * 1_000_003 + number);
    const kind = `${phase}, dpkg had ${found === '' ? 'nothing' : found}`;
    tally.set(kind, (tally.get(kind) ?? 0) + 1);
    if (violations.length === 0) {
      console.log(`seed ${cut.seed}, event ${cut.event}, ${cut.loss} lost, ${kind}: held`);
      continue;
    }
    broken += 1;
    console.log(`VIOLATED: seed ${cut.seed}, event ${cut.event}, ${cut.loss} lost, ${kind}: ${violations.join('; ')}`);
  }
  for (const [kind, count] of [...tally].toSorted(([one], [other]) => (one < other ? -1 : 1)))
    console.log(`${String(count).padStart(6)} ${kind}`);
  console.log(`${cuts} cuts, ${broken} of them wrong, in ${seconds(startMs)} s`);
  return broken === 0 ? 0 : 1;
});

function machinesNamed(kind: string, isShown: boolean): DiskMachines {
  if (kind === 'nspawn') return nspawnMachines;
  if (kind === 'qemu') return qemuMachines(isShown ? (line) => console.log(line) : undefined);
  throw new WrongUse(`--machine is nspawn or qemu, not ${kind}`);
}

function seconds(sinceMs: number): number {
  return Math.round((performance.now() - sinceMs) / 1000);
}
