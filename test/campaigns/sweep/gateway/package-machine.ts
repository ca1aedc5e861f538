import type { InstallerClient } from '../../../../src/package/installer-client.ts';
import type { ProgramResult, runProgram } from '../../../../src/system/processes/child-process.ts';
import { ForgetfulFs } from '../../../fakes/machine/memory/forgetful-fs.ts';
import { sha256 } from '../../../fakes/machine/memory/memory-slots.ts';
import type { Power } from '../../../fakes/machine/power.ts';
import { Violation } from '../violation.ts';

/** The name of the target, and of its folder. */
export const APP = 'app';
export const FOLDER = `/state/packages/${APP}`;
const UNIT = '/units/guard.service';

/**
 * State of a package that survives power loss: its directory, the package installer's unit, and the results of dpkg and
 * its scripts.
 */
export interface PackageMemory {
  readonly files: Readonly<Record<string, string>>;
  readonly units: Readonly<Record<string, string>>;
  readonly status: 'installed' | 'half-installed' | 'half-configured';
  /** Its files; a package is unpacked one after the other. */
  readonly halves: readonly [string, string];
  /** Result of its script. */
  readonly setUp: string;
}

export function debOf(content: string): string {
  return `Package: ${APP}\nArchitecture: all\nVersion: ${content.replaceAll(/\W+/g, '-')}\n${content}`;
}

export function installedOf(content: string): PackageMemory {
  const deb = debOf(content);
  return { files: {}, units: {}, status: 'installed', halves: [deb, deb], setUp: deb };
}

/** The package's own script has ended the agent that runs. */
export class AgentEnded extends Error {}

/**
 * dpkg and systemd/package-guard, step by step: an installation is durable when dpkg reports it, the effects of its
 * scripts are not, and unsynced files of the package installer are lost.
 */
export class PackageMachine {
  readonly disk: ForgetfulFs;
  readonly #units: ForgetfulFs;
  readonly #power: Power;
  readonly #random: () => number;
  readonly #phase: () => string | undefined;
  #status: PackageMemory['status'];
  #halves: readonly [string, string];
  #setUp: string;
  #durableSetUp: string;
  /** The guard runs. */
  #watches = false;
  /** By the script of a package. */
  #agentEnded = false;
  /** Asked before each installation: true if dpkg fails. */
  trouble = (): boolean => false;

  constructor(power: Power, random: () => number, phase: () => string | undefined, memory: PackageMemory) {
    this.#power = power;
    this.#random = random;
    this.#phase = phase;
    this.disk = new ForgetfulFs(power, random, memory.files);
    this.#units = new ForgetfulFs(power, random, memory.units);
    this.#status = memory.status;
    this.#halves = memory.halves;
    this.#setUp = this.#durableSetUp = memory.setUp;
    this.#watches = this.isWatched;
  }

  get memory(): PackageMemory {
    return {
      files: this.disk.files,
      units: this.#units.files,
      status: this.#status,
      halves: this.#halves,
      setUp: this.#setUp,
    };
  }

  /** The content of the one complete installed package; undefined for a partial one, or two halves. */
  get whole(): string | undefined {
    const [one, two] = this.#halves;
    const isWhole = this.#status === 'installed' && one === two && one === this.#setUp;
    return isWhole ? contentOf(one) : undefined;
  }

  /** The program that the agent finds when it runs. */
  get running(): string {
    return contentOf(this.#halves[0]);
  }

  /** The agent is part of the package, and does not start. */
  get isDead(): boolean {
    return this.running.startsWith('dead');
  }

  forget(): void {
    this.disk.forget();
    this.#units.forget();
    if (this.#random() < 0.5) this.#setUp = this.#durableSetUp;
    this.#durableSetUp = this.#setUp;
    this.#watches = false;
  }

  sync(): void {
    this.disk.sync();
    this.#units.sync();
    this.#durableSetUp = this.#setUp;
  }

  /** Before the agent acts: the guard may have done what it has to do by then, or not. */
  async work(): Promise<void> {
    if (this.isWatched && this.#random() < 0.5) await this.tick();
    if (this.isDead) await this.#giveUp();
  }

  /** Runs the package installer while it has no request. */
  async tick(): Promise<void> {
    if (this.isWatched) this.#watches = true; // it was killed, and its unit is started again
    if (!this.#watches) return;
    await this.#carryOut();
    if (this.#isOver) await this.#leave();
  }

  /** True if no agent would check the health of a new package, for example after the journal was lost. */
  get #isOver(): boolean {
    return ['idle', 'staging', 'lost'].includes(this.#phase() ?? '');
  }

  /** Nothing has changed in the journal for its patience. */
  async #giveUp(): Promise<void> {
    await this.tick();
    if (!this.#watches) throw new Violation(`no agent comes up in "${this.running}", and no guard runs`);
    for (let [id, word] = this.#result; word === 'installed' || word === 'broken'; [id, word] = this.#result) {
      await this.#write('fallback', `${id} put-back no agent checked it`);
      await this.disk.api.rm(`${FOLDER}/result`);
      await this.#fallBack('put-back no agent checked it');
    }
  }

  get #result(): readonly (string | undefined)[] {
    return this.#text('result').split(' ');
  }

  readonly ask: InstallerClient = async (question, _timeoutMs, signal) => {
    signal.throwIfAborted();
    this.#power.need('ask the guard');
    if (question.startsWith('keep')) return this.#keep();
    await this.#register();
    this.#watches = true;
    this.#agentEnded = false;
    await this.tick();
    if (this.#agentEnded) throw new AgentEnded('by the script of the package');
  };

  readonly run: typeof runProgram = async ([program, ...args], _options, signal) => {
    signal.throwIfAborted();
    this.#power.need('run');
    const path = args.at(-1) ?? '';
    if (program === 'sh') return ended(this.disk.read(path) ?? '');
    const isWhole = this.#status === 'installed';
    const [, version = ''] = /^Version: (\S+)$/m.exec(this.#halves[0]) ?? [];
    return program === 'dpkg' ? ended('all\n') : ended(`${isWhole ? 'installed' : 'half-installed'} ${version}`);
  };

  /** The guard's unit is there. */
  get isWatched(): boolean {
    return this.#units.read(UNIT) !== undefined;
  }

  #text(name: string): string {
    return (this.disk.read(`${FOLDER}/${name}`) ?? '').trim();
  }

  #field(name: string): string {
    return new RegExp(`^${name}=(.*)$`, 'm').exec(this.#text('request'))?.[1] ?? '';
  }

  async #write(name: string, text: string, fs = this.disk, folder = FOLDER): Promise<void> {
    const { api } = fs;
    const draft = await api.open(`${folder}/${name}.new`, 'w');
    await draft.writeFile(text);
    await draft.sync();
    await api.rename(`${folder}/${name}.new`, `${folder}/${name}`);
    await (await api.open(folder, 'r')).sync();
  }

  async #register(): Promise<void> {
    await this.#write('guard.service', 'watch', this.#units, '/units');
    await (await this.disk.api.open(FOLDER, 'r')).sync();
  }

  async #keep(): Promise<void> {
    if (this.#status !== 'installed') return this.#write('kept', `- ${APP} is not wholly installed\n`);
    const again = `${this.#halves[0]}\npacked again\n`;
    const name = sha256(Buffer.from(again, 'latin1')).slice('sha256:'.length);
    await this.#write(`${name}.deb`, again);
    await this.#write('kept', `${name} 1\n`);
  }

  async #carryOut(): Promise<void> {
    const id = this.#field('id');
    if (id === '') return this.#leave();
    const [ofId, word = ''] = this.#text('result').split(' ');
    const [fallbackOf, ...because] = this.#text('fallback').split(' ');
    const isGivenUp = fallbackOf === id;
    const isDone = ofId === id && (word !== 'installed' || !isGivenUp);
    if (isDone) return undefined;
    await this.#register();
    if (isGivenUp) return this.#fallBack(because.join(' '));
    if (this.#isOver) {
      await this.#write('fallback', `${id} put-back the update of its request is over`);
      return this.#fallBack('put-back the update of its request is over');
    }
    if (await this.#put(this.#field('want'))) return this.#write('result', `${id} installed`);
    await this.#write('fallback', `${id} refused its script ended with 3`);
    return this.#fallBack('refused its script ended with 3');
  }

  async #fallBack(why: string): Promise<void> {
    const isBack = await this.#put(this.#field('otherwise'));
    await this.#write('result', `${this.#field('id')} ${isBack ? why : `broken ${why}`}`);
  }

  /** Done again from the start, however far it was. */
  async #put(hex: string): Promise<boolean> {
    const deb = this.disk.read(`${FOLDER}/${hex}.deb`);
    if (deb === undefined || sha256(Buffer.from(deb, 'latin1')) !== `sha256:${hex}`) return false;
    if (this.trouble()) return false;
    const [, two] = this.#halves;
    this.#status = 'half-installed';
    this.#power.step('dpkg: half-installed');
    this.#halves = [deb, two];
    this.#power.step('dpkg: one file');
    this.#halves = [deb, deb];
    this.#status = 'half-configured';
    this.#power.step('dpkg: unpacked');
    if (contentOf(deb).startsWith('refused')) return false;
    this.#setUp = deb;
    this.#agentEnded = true;
    this.#power.step('dpkg: its script');
    this.#status = 'installed';
    this.#power.step('dpkg: installed');
    this.#power.step('sync');
    this.sync();
    return true;
  }

  async #leave(): Promise<void> {
    await this.disk.api.rm(`${FOLDER}/request`);
    await (await this.disk.api.open(FOLDER, 'r')).sync();
    await this.#units.api.rm(UNIT);
    for (const name of ['result', 'fallback']) await this.disk.api.rm(`${FOLDER}/${name}`);
    await (await this.disk.api.open(FOLDER, 'r')).sync();
    this.#watches = false;
  }
}

function contentOf(deb: string): string {
  return deb.split('\n')[3] ?? '';
}

function ended(stdout: string): ProgramResult {
  return { exitCode: 0, stdout, stderr: '' };
}
