import { readdir, readFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';

import { beforeAll, describe, expect, test } from 'vitest';

import { builtTree } from '../../stand-ins/machine/built-agent.ts';
import { FileGateway, stop } from '../../stand-ins/machine/file-gateway.ts';
import { startStandIn } from '../../stand-ins/service/stand-in.ts';
import { agentUser } from './two-processes-rig.ts';

const repository = resolve(import.meta.dirname, '../../..');
const hook = { NODE_OPTIONS: `--import=${join(import.meta.dirname, 'tell-loaded.ts')}` };

interface Loaded {
  readonly agent: readonly string[];
  readonly helper: readonly string[];
}

/** What a daemon loads until it is up, and its helper for that. */
async function loadedBy(form: 'one process' | 'two processes', program: string): Promise<Loaded> {
  await using service = await startStandIn({ versions: [], currentVersionId: 'v1' });
  const user = form === 'two processes' ? agentUser : undefined;
  const image = Buffer.alloc(1_000);
  const options = { serviceUrl: service.url, image, slotBytes: 4_096, agentUser: user, program };
  await using gateway = await FileGateway.create(options);
  const [agent, helper] = [new Told(), new Told()];
  const helping = user === undefined ? undefined : await gateway.startHelper((line) => helper.hear(line), hook);
  const daemon = await gateway.startDaemon((line) => agent.hear(line), hook);
  await stop(daemon);
  if (helping !== undefined) await stop(helping);
  return { agent: await agent.files, helper: helping === undefined ? [] : await helper.files };
}

/** The files in the line that the hook prints. */
class Told {
  readonly #line = Promise.withResolvers<readonly string[]>();

  get files(): Promise<readonly string[]> {
    return this.#line.promise;
  }

  hear(line: string): void {
    if (line.startsWith('loaded: ')) this.#line.resolve(JSON.parse(line.slice('loaded: '.length)) as readonly string[]);
  }
}

/** Of the rooms, by their paths in `src/`. What is left out of a room are facts: settings, errors, what a list says of its members. */
const halves = {
  installs: [
    /^slots\/(blocks\/|hasher|slot-medium|slots-target|read-only-image)/,
    /^slots\/bootloaders\/(?!bootloaders\.|bootloader-kind\.)/,
    /^update\/(staging|delta|boards)\//,
    /^update\/(update|updater|evidence|from-file|by-hand)\./,
    /^update\/trial\/(settle|trial|go-back|recover)\./,
    /^update\/journal\/(journal|read-state|transitions)\./,
    /^firmware\/(text|compression|delta)\//,
    /^firmware\/(open-firmware|artifact\/read-artifact)\./,
    /^package\/(package-target|package-store|guard-socket)/,
    /^mcu\/(mcu-target|images\/(read-image|elf)|flash\/board-store)\./,
    /^daemon\/(wiring\/engine|kept-boards|doctor\/engine-checks)\./,
    /^helper\/root\//,
  ],
  asks: [
    /^service\/(?!(?:\w+\/)?settings\.)/,
    /^mqtt\//,
    /^page\/(?!settings\.)/,
    /^serial\/(?!errors\.)/,
    /^telemetry\/(?!settings\.|errors\.|clock\/clock\.|sources\/sources?\.)/,
    /^mcu\/(flash\/flash|connection|converse|create-board)\./,
    /^daemon\/(agent|sensors|boards|local-agent)\./,
    /^daemon\/rounds\//,
    /^helper\/agent\//,
  ],
  /** Neither boards nor sensors nor a broker are configured, and the bootloader is a handler. */
  unused: [
    /^mcu\/protocols\/(?!protocols\.|board-protocol\.)/,
    /^telemetry\/sources\/(?!sources?\.|create-source\.|parse-reading\.|kernel\/kernel-file\.)/,
    /^slots\/bootloaders\/(uboot|grub|tryboot)/,
    /^(mqtt|setup)\//,
    /^service\/messaging\/(?!settings\.)/,
    /^serial\/serial-line\./,
  ],
} as const;

function foundOf(half: keyof typeof halves, loaded: readonly string[]): readonly string[] {
  const source = `file://${repository}/src/`;
  const paths = loaded.flatMap((url) => (url.startsWith(source) ? [url.slice(source.length)] : []));
  expect(paths.length).toBeGreaterThan(100);
  return paths.filter((path) => halves[half].some((pattern) => pattern.test(path)));
}

describe('of the sources', () => {
  let one: Loaded;
  let two: Loaded;
  beforeAll(async () => {
    const program = join(repository, 'agent');
    one = await loadedBy('one process', program);
    two = await loadedBy('two processes', program);
  });

  test('the agent that has a helper loads nothing that installs, and its helper does', () => {
    expect(foundOf('installs', two.agent)).toEqual([]);
    expect(foundOf('installs', two.helper)).not.toEqual([]);
  });

  test('the helper loads nothing of service, telemetry, page and lines, and the agent does', () => {
    expect(foundOf('asks', two.helper)).toEqual([]);
    expect(foundOf('asks', two.agent)).not.toEqual([]);
  });

  test('no process loads protocols, sources, bootloaders and brokers that nobody configured', () => {
    for (const loaded of [one.agent, two.agent, two.helper]) expect(foundOf('unused', loaded)).toEqual([]);
  });
});

/** Texts of files of each half, by which they are known in what is built of them. */
const marks = {
  installs: ['a second payload for target', 'is not what was staged', 'reads back differently'],
  asks: ['the agent is up', 'the page is served', 'still waits for the last reading'],
  unused: ['no AVR with the signature', 'offers no erase command', 'gpioget', 'grub-fstest', 'tryboot_a_b'],
} as const;

describe('of the built program', () => {
  const program = builtTree() ?? '';
  const textOf = async (path: string): Promise<string> => readFile(join(program, 'lib', path), 'utf8');
  let two: Loaded;
  beforeAll(async () => {
    two = await loadedBy('two processes', join(program, 'agent'));
  });

  /** The marks in the files that were loaded, and how many there are in all files. */
  async function markedIn(half: keyof typeof marks, loaded: readonly string[]): Promise<readonly string[]> {
    const files = (await readdir(join(program, 'lib'))).filter((name) => name.endsWith('.js') && name !== 'page.js');
    const texts = await Promise.all(files.map(async (name) => [name, await textOf(name)] as const));
    const names = new Set(loaded.map((url) => basename(url)));
    expect(texts.filter(([name]) => names.has(name)).length).toBeGreaterThan(3);
    for (const mark of marks[half]) expect(texts.some(([, text]) => text.includes(mark)) ? [] : [mark]).toEqual([]);
    return marks[half].filter((mark) => texts.some(([name, text]) => names.has(name) && text.includes(mark)));
  }

  test('neither process reads a file of the other’s half, nor one of what nobody configured', async () => {
    expect(await markedIn('installs', two.agent)).toEqual([]);
    expect(await markedIn('asks', two.helper)).toEqual([]);
    expect(await markedIn('unused', [...two.agent, ...two.helper])).toEqual([]);
  });
});
