import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';

import { phase } from '../../src/update/journal/schema.ts';
import type { EventType, Phase } from '../../src/update/journal/state.ts';
import { runTool } from '../make/run-tool.ts';
import { picture } from './svg.ts';
import type { Arrow, Box } from './svg.ts';

const project = join(import.meta.dirname, '../..');

/** The directory of the pictures of the pages: `npm run diagrams` writes them, a test compares. */
export const imagesPath = join(project, 'docs/images');

/** Returns the pictures by their file names. */
export function diagrams(): Readonly<Record<string, string>> {
  return {
    'overview.svg': overview(),
    'slots.svg': slots(),
    'update-states.svg': updateStates(),
    'modules.svg': modules(),
  };
}

function overview(): string {
  const boxes: readonly Box[] = [
    { x: 12, y: 40, width: 164, height: 64, title: 'Provisioning service', lines: ['REST or MQTT'] },
    { x: 210, y: 10, width: 650, height: 250, title: 'Gateway', look: 'faint' },
    { x: 240, y: 40, width: 130, height: 64, title: 'Agent', lines: ['verifies signatures'], look: 'accent' },
    { x: 450, y: 40, width: 130, height: 64, title: 'Inactive slot', lines: ['A or B'] },
    { x: 680, y: 40, width: 160, height: 64, title: 'Trial boot', lines: ['your health checks'] },
    { x: 450, y: 170, width: 130, height: 64, title: 'Microcontrollers', lines: ['on serial ports'] },
    { x: 240, y: 170, width: 130, height: 64, title: 'Queue on disk', lines: ['sensor readings'] },
    {
      x: 680,
      y: 170,
      width: 160,
      height: 64,
      title: 'Commit or roll back',
      lines: ['slot and boards'],
      look: 'accent',
    },
  ];
  const arrows: readonly Arrow[] = [
    { path: 'M176,72 L238,72', label: 'firmware', at: [206, 64] },
    { path: 'M370,72 L448,72', label: 'writes', at: [410, 64] },
    { path: 'M580,72 L678,72', label: 'reboot', at: [629, 64] },
    { path: 'M760,104 L760,168' },
    { path: 'M700,104 L700,136 L515,136 L515,168', label: 'flashes', at: [610, 130] },
    { path: 'M240,202 L95,202 L95,106', label: 'measurements', at: [150, 194] },
    { path: 'M305,104 L305,168' },
  ];
  return picture([880, 280], 'How the agent updates a gateway and its microcontrollers', { boxes, arrows });
}

function slots(): string {
  const steps = [
    ['running', 'old release', 'inactive', 'previous release', 'an update is offered'],
    ['running', 'old release', 'unbootable', 'being written', 'staging'],
    ['fallback', 'old release', 'on trial', 'new release', 'after the reboot'],
    ['fallback', 'old release', 'running', 'new release', 'healthy: committed'],
    ['running', 'old release', 'unbootable', 'rejected release', 'unhealthy: rolled back'],
  ];
  const width = 172;
  const boxes = steps.flatMap(([stateA = '', a = '', stateB = '', b = '', title = ''], index): readonly Box[] => {
    const x = 20 + index * (width + 20);
    const slot = (y: number, name: string, state: string, content: string): Box => ({
      x: x + 10,
      y,
      width: width - 20,
      height: 56,
      title: `Slot ${name}: ${state}`,
      lines: [content],
      look: state === 'running' || state === 'on trial' ? 'accent' : undefined,
    });
    return [
      { x, y: 14, width, height: 176, title, look: 'faint' },
      slot(46, 'A', stateA, a),
      slot(118, 'B', stateB, b),
    ];
  });
  return picture([992, 206], 'The two slots during an update', { boxes, arrows: [] });
}

type PhaseKind = Phase['kind'];

interface State {
  readonly at: readonly [number, number];
  readonly meaning: string;
}

/** The states of the journal's schema; the compiler demands a place for each. */
const states: Readonly<Record<PhaseKind, State>> = {
  idle: { at: [20, 170], meaning: 'nothing in progress' },
  staging: { at: [330, 40], meaning: 'slot is being written' },
  staged: { at: [590, 40], meaning: 'verified, waits for its boot' },
  trial: { at: [590, 170], meaning: 'booted once, health checks' },
  'rolling-back': { at: [590, 300], meaning: 'previous slot and boards' },
  lost: { at: [330, 300], meaning: 'journal was unreadable' },
};

/** Arrows between them, labeled with events of the journal. */
const transitions: readonly (Omit<Arrow, 'label'> & { readonly events: readonly EventType[] })[] = [
  { events: ['staging-started'], path: 'M90,170 L90,64 L328,64', at: [200, 56] },
  { events: ['failed', 'withdrawn', 'cancelled'], path: 'M420,98 L420,186 L202,186', at: [312, 178] },
  { events: ['staged'], path: 'M510,70 L588,70', at: [549, 62] },
  { events: ['rollback-staged'], path: 'M50,170 L50,18 L680,18 L680,38', at: [360, 13] },
  { events: ['trial-armed'], path: 'M640,98 L640,168', at: [602, 140] },
  { events: ['trial-missed'], path: 'M720,170 L720,100', at: [760, 140] },
  { events: ['committed'], path: 'M590,210 L202,210', at: [440, 226] },
  { events: ['rollback-started'], path: 'M680,228 L680,298', at: [680, 268] },
  { events: ['rolled-back'], path: 'M680,358 L680,392 L60,392 L60,230', at: [360, 386] },
  { events: ['recovered'], path: 'M330,330 L130,330 L130,230', at: [220, 322] },
];

/** Returns the states that the journal's schema has, in its order. */
export function stateNames(): readonly string[] {
  return phase.options.map(({ shape }) => shape.kind.value);
}

function updateStates(): string {
  const boxes = stateNames().map((name): Box => {
    const state = Object.entries(states).find(([kind]) => kind === name)?.[1];
    if (state === undefined) throw new Error(`the state ${name} has no place in systemd/pages/diagrams.ts`);
    const [x, y] = state.at;
    const look = name === 'idle' ? 'accent' : undefined;
    return { x, y, width: 180, height: 58, title: name, lines: [state.meaning], look };
  });
  const arrows = transitions.map(({ events, path, at }): Arrow => ({ path, at, label: events.join(', ') }));
  return picture([800, 410], 'States of an update and the events between them', { boxes, arrows });
}

/** The modules that each module imports, from the source, without types and `settings.ts`. */
export function importsOfModules(): ReadonlyMap<string, ReadonlySet<string>> {
  const imports = new Map<string, Set<string>>();
  for (const path of globSync('src/**/*.ts', { cwd: project })) {
    const from = moduleOf(path);
    const to = imports.get(from) ?? new Set<string>();
    imports.set(from, to);
    const text = readFileSync(join(project, path), 'utf8');
    for (const [, plain, late] of text.matchAll(
      /^(?:import|export) (?!type )[^;]*?from '(\.[^']+)'|import\('(\.[^']+)'\)/gm,
    )) {
      const target = normalize(join(dirname(path), plain ?? late ?? ''));
      if (moduleOf(target) !== from && !target.endsWith('/settings.ts')) to.add(moduleOf(target));
    }
  }
  return imports;
}

function moduleOf(path: string): string {
  const [, module = '', file] = path.split('/');
  return file === undefined ? 'main' : module;
}

/** The imports that no other path implies, so that the picture stays readable. */
function essential(imports: ReadonlyMap<string, ReadonlySet<string>>): readonly (readonly [string, string])[] {
  const reaches = (from: string, to: string): boolean =>
    [...(imports.get(from) ?? [])].some((next) => next === to || reaches(next, to));
  return [...imports].flatMap(([from, all]) =>
    [...all]
      .filter((to) => ![...all].some((other) => other !== to && reaches(other, to)))
      .map((to) => [from, to] as const),
  );
}

/** Modules in rows: each above all modules that it imports. */
function modules(): string {
  const imports = importsOfModules();
  const depth = (module: string): number => 1 + Math.max(-1, ...[...(imports.get(module) ?? [])].map(depth));
  const names = [...imports.keys()].sort((a, b) => depth(b) - depth(a) || (a < b ? -1 : 1));
  const top = Math.max(...names.map(depth));
  const rows = Array.from({ length: top + 1 }, (_, row) => names.filter((name) => depth(name) === top - row));
  for (const [index, row] of rows.entries()) {
    const above = rows[index - 1] ?? [];
    const pull = (name: string): number => {
      const places = above.flatMap((other, place) => (imports.get(other)?.has(name) === true ? [place] : []));
      return places.reduce((sum, place) => sum + place, 0) / Math.max(1, places.length);
    };
    row.sort((a, b) => pull(a) - pull(b));
  }
  const [width, height, gap] = [96, 40, 14];
  const total = Math.max(...rows.map((row) => row.length)) * (width + gap) + gap;
  const boxes = rows.flatMap((row, index) =>
    row.map((title, column): Box => {
      const x = (total - row.length * (width + gap) + gap) / 2 + column * (width + gap);
      return { x, y: 16 + index * 92, width, height, title, look: title === 'main' ? 'accent' : undefined };
    }),
  );
  const boxOf = new Map(boxes.map((box) => [box.title, box]));
  const arrows = essential(imports).flatMap(([from, to]): readonly Arrow[] => {
    const [a, b] = [boxOf.get(from), boxOf.get(to)];
    if (a === undefined || b === undefined) return [];
    const [x1, y1, x2, y2] = [a.x + width / 2, a.y + height, b.x + width / 2, b.y - 2];
    return [{ path: `M${x1},${y1} C${x1},${y1 + 44} ${x2},${y2 - 44} ${x2},${y2}` }];
  });
  return picture([total, 16 + rows.length * 92 - 36], 'The modules of src and their imports', { boxes, arrows });
}

if (import.meta.main) {
  process.exitCode = await runTool('diagrams', 'usage: npm run diagrams\n', async () => {
    parseArgs({ options: {} });
    for (const [name, svg] of Object.entries(diagrams())) writeFileSync(join(imagesPath, name), svg);
  });
}
