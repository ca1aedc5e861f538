import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import * as z from 'zod';

import { cacheFolder } from '../../fakes/machine/booting/disk-images.ts';

const common = { scene: z.string(), machine: z.string(), bootType: z.string(), key: z.string(), seed: z.number() };
const entrySchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('judged'),
    ...common,
    cuts: z.number(),
    seconds: z.number(),
    violations: z.record(z.string(), z.number()),
  }),
  z.strictObject({
    kind: z.literal('booted'),
    ...common,
    restSeconds: z.number().optional(),
    nextSeconds: z.number().optional(),
    processorSeconds: z.number().optional(),
    violations: z.array(z.string()),
  }),
]);
export type LedgerEntry = z.infer<typeof entrySchema>;

const file = join(cacheFolder, 'figures.jsonl');

/** A campaign is done in pieces, on several days: each piece is noted when it has ended. */
export function noteFigure(entry: LedgerEntry): void {
  appendFileSync(file, `${JSON.stringify(entry)}\n`);
}

export function readLedger(): readonly LedgerEntry[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  return lines.map((line) => entrySchema.parse(JSON.parse(line)));
}

/** A row for each scene, and one for all. */
export function describeLedger(entries: readonly LedgerEntry[]): string {
  const names = [...new Set(entries.map(nameOf))].toSorted();
  const rows = names.map((name) =>
    rowOf(
      name,
      entries.filter((entry) => nameOf(entry) === name),
    ),
  );
  const head =
    '| machine, boot partition, scene | cuts judged | of them wrong | booted | of them wrong | at rest after, s | the next update, s | of a processor, s |\n' +
    '|---|---|---|---|---|---|---|---|';
  return [head, ...rows, rowOf('all', entries)].join('\n');
}

function nameOf({ machine, bootType, scene }: LedgerEntry): string {
  return `${machine}, ${bootType}, ${scene}`;
}

function rowOf(name: string, entries: readonly LedgerEntry[]): string {
  let [cuts, wrong] = [0, 0];
  const booted: (LedgerEntry & { readonly kind: 'booted' })[] = [];
  for (const entry of entries) {
    if (entry.kind === 'booted') booted.push(entry);
    else {
      cuts += entry.cuts;
      for (const count of Object.values(entry.violations)) wrong += count;
    }
  }
  const bad = booted.filter(({ violations }) => violations.length > 0).length;
  const rest = spread(booted.flatMap(({ restSeconds }) => restSeconds ?? []));
  const next = spread(booted.flatMap(({ nextSeconds }) => nextSeconds ?? []));
  const used = spread(booted.flatMap(({ processorSeconds }) => processorSeconds || []));
  return `| ${[name, cuts, wrong, booted.length, bad, rest, next, used].join(' | ')} |`;
}

/** Median and worst. */
function spread(values: readonly number[]): string {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted[Math.floor(sorted.length / 2)];
  return middle === undefined ? '' : `${middle}, at most ${sorted.at(-1)}`;
}
