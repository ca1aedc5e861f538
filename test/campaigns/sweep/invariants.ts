import type { Identity } from '../../../src/service/identity.ts';
import { updateState } from '../../../src/update/journal/state.ts';
import type { Outcome, UpdateState } from '../../../src/update/journal/state.ts';
import type { WirePosition } from '../../../src/update/ports.ts';
import { UNKNOWN_DIGEST } from '../../../src/update/running-version.ts';
import { NO_FILE } from '../../fakes/machine/memory/forgetful-fs.ts';
import { FACTORY_APP, isDigestOf } from './gateway/catalog.ts';
import type { CatalogEntry } from './gateway/catalog.ts';
import type { Chronicle } from './gateway/chronicle.ts';
import { IDENTITY, JOURNAL, LISTS } from './gateway/hardware.ts';
import type { Hardware } from './gateway/hardware.ts';
import type { MemoryTransport } from './gateway/memory-transport.ts';
import { Violation } from './violation.ts';

export interface Gateway {
  readonly hardware: Hardware;
  readonly chronicle: Chronicle;
  readonly transport: MemoryTransport;
}

/** Checks invariants of a gateway without power or with a killed program, from the current state alone. */
export function judgeRemains(gateway: Gateway): void {
  judgeSlots(gateway);
  judgeRescue(gateway);
  judgeFiles(gateway);
  judgeArming(gateway);
  judgeReports(gateway);
}

function judgeSlots({ hardware, chronicle }: Gateway): void {
  const { boot, slots } = hardware;
  demand(boot.bootable.length > 0 && boot.next !== undefined, 'no slot boots');
  demand(
    boot.bootable.some((slot) => slots.content(slot) !== ''),
    'what may boot holds nothing',
  );
  for (const slot of boot.bootable) {
    if (slots.content(slot) === '') continue; // as delivered: the bootloader continues with the other one
    const entry = chronicle.imageIn(slot);
    demand(entry !== undefined, `slot ${slot} may boot, but holds "${slots.content(slot)}"`);
    demand(entry.digest !== undefined, `slot ${slot} may boot, but holds what nobody verified: "${entry.image}"`);
  }
}

/** Unknown names in the boot order belong to another program. */
function judgeRescue({ hardware, chronicle }: Gateway): void {
  const { others } = hardware.boot;
  demand(others.join() === chronicle.others.join(), `the boot order names "${others.join()}", not what it did`);
}

/** Acknowledged contents, or those being written, exist. */
export function judgeFiles({ hardware, chronicle, transport }: Gateway): void {
  const journal = hardware.disk.read(JOURNAL);
  demand(chronicle.journals.has(journal), `the journal is not what was acknowledged or being written: ${journal}`);
  const folders = Object.values(hardware.disk.files).filter((text) => text === NO_FILE).length;
  demand(folders === hardware.folders, `of ${hardware.folders} folders in the journal's place ${folders} are left`);
  const key = storedKey(hardware);
  demand(
    chronicle.identities.has(key),
    `the identity on the disk has the key ${key}, not one of those that were stored`,
  );
  demand(
    key === undefined || transport.keys.includes(key),
    `the identity on the disk has a key that nobody gave: ${key}`,
  );
  const list = storedList(hardware);
  demand(chronicle.lists.numbers.has(list), `list ${list} of keys and revocations is on the disk, not what was taken`);
}

function judgeArming({ hardware, chronicle }: Gateway): void {
  const { boot } = hardware;
  const state = storedState(hardware);
  const isNew = hardware.disk.read(JOURNAL) === undefined && hardware.folders === 0;
  const isIdle = state === undefined ? isNew : state.phase.kind === 'idle';
  if (!isIdle) return;
  const { trying, kept, keeping, keptBefore } = chronicle;
  demand(trying === undefined || boot.next !== trying, `the journal is idle, but slot ${trying} is armed`);
  const slot = state?.installed?.slot;
  // After a fallback of the bootloader, the journal records it first; interrupted again before the bootloader does, it
  // rolls back once more.
  const mayBe = [undefined, kept, keeping, keptBefore, boot.next, boot.booted];
  const isKept = mayBe.includes(slot);
  demand(isKept, `the journal says that slot ${slot} is installed, but slot ${kept} is what was committed`);
}

/** The service may take a report and the gateway not learn of it: then the same comes again, but never another. */
function judgeReports({ transport }: Gateway): void {
  const first = new Map<string, string>();
  for (const report of transport.reports) {
    const text = JSON.stringify(report);
    const known = first.get(report.attempt) ?? text;
    demand(known === text, `two ends of one attempt were reported: ${known} and ${text}`);
    first.set(report.attempt, text);
  }
}

/** Nothing is sent under the identity of other hardware. */
export function judgeOwner({ serialNumber }: Hardware, owner: string | undefined): void {
  demand(owner === serialNumber, `${serialNumber} sends the key of ${owner}`);
}

/** No report of other hardware is sent as this gateway's. */
export function judgeReporter({ former, begun, journalWasLost }: Chronicle, { attempt, version }: Outcome): void {
  demand(
    journalWasLost || begun.has(attempt) || !former.has(attempt),
    `the end of ${attempt} (${version}) is reported under another identity`,
  );
}

/** Checks invariants of a gateway without pending work. */
export function judgeRest(gateway: Gateway, state: UpdateState): void {
  const { hardware, chronicle, transport } = gateway;
  judgeRemains(gateway);
  demand(state.phase.kind === 'idle', `it rests in phase ${state.phase.kind}`);
  demand(state.pendingSwitch === undefined, `the service was not told that ${state.pendingSwitch} was committed`);
  demand(state.reports.length === 0, 'the service was not told how an attempt ended');
  judgeWanted(gateway, state);
  const { booted } = hardware.boot;
  const running = chronicle.imageIn(booted);
  demand(running !== undefined && isSound(running), `it rests on "${hardware.running}"`);
  judgeFallbacks(gateway);
  const { installed } = state;
  demand(installed?.slot === undefined || installed.slot === booted, `slot ${booted} runs, not ${installed?.slot}`);
  judgeInstalled(gateway, installed);
  const told = installed?.version.id;
  demand(told === undefined || told === transport.current, `the service believes in ${transport.current}, not ${told}`);
  judgeEveryEnd(chronicle.begun, transport.reports);
  demand(isIdentityStored(gateway), 'the identity on the disk is not the valid one');
}

/** A release that was found unhealthy is not tried again, under any id. */
export function judgeTrials({ chronicle, transport }: Gateway): void {
  const unhealthy = transport.reports.filter(({ outcome, code }) => outcome === 'rolled-back' && code === 'unhealthy');
  const attempts = new Map(unhealthy.map(({ attempt, version }) => [attempt, version]));
  const isOnce = new Set(attempts.values()).size === attempts.size;
  demand(
    isOnce || chronicle.journalWasLost,
    `tried again after it was unhealthy: ${[...attempts.values()].join(', ')}`,
  );
}

/** The service knows which versions are wanted whole, and none that runs is. */
function judgeWanted({ hardware, chronicle, transport }: Gateway, { unfit }: UpdateState): void {
  if (chronicle.journalWasLost) return;
  const wanted = unfit?.versions ?? [];
  demand(
    transport.whole.join() === wanted.join(),
    `${wanted.join()} is wanted whole, and the service knows of ${transport.whole.join()}`,
  );
  const runs = chronicle.imageIn(hardware.boot.booted)?.id ?? '';
  demand(!wanted.includes(runs), `${runs} runs, and is wanted whole`);
}

/** A rolled-back slot must never boot again, after any number of power losses. */
function judgeFallbacks({ hardware, chronicle }: Gateway): void {
  if (chronicle.journalWasLost) return;
  for (const slot of hardware.boot.bootable) {
    if (hardware.slots.content(slot) === '') continue;
    const entry = chronicle.imageIn(slot);
    demand(entry !== undefined && isSound(entry), `it rests, but slot ${slot} may boot "${entry?.image}"`);
  }
}

function isSound({ image }: CatalogEntry): boolean {
  return /^(?:good|flap)/.test(image);
}

export function isIdentityStored({ hardware, transport }: Gateway): boolean {
  return storedKey(hardware) === transport.keys.at(-1);
}

function judgeInstalled({ hardware, chronicle, transport }: Gateway, installed: UpdateState['installed']): void {
  if (installed === undefined) return;
  const { name } = installed.version;
  if (installed.digest === UNKNOWN_DIGEST && !chronicle.knows(name)) return;
  const entry = chronicle.entry(name);
  const { image, meter } = entry;
  const isRight = isDigestOf(entry, installed.digest) || installed.digest === UNKNOWN_DIGEST;
  demand(isRight, `${name} is installed, but with the digest ${installed.digest}`);
  const slot = chronicle.imageIn(hardware.boot.booted);
  demand(image === '' || name === slot?.id, `${name} is installed, but "${slot?.image}" runs`);
  const isGivenUp = transport.reports.some(({ code }) => code === 'board-not-restored');
  if (isGivenUp || chronicle.journalWasLost) return;
  demand(meter === hardware.board.running, `${name} is installed, but the meter runs "${hardware.board.running}"`);
}

/** It is complete, healthy, and matches the journal; the package installer is gone. */
export function judgePackage({ hardware, chronicle }: Gateway, { installed }: UpdateState): void {
  const { app } = hardware;
  demand(app.whole !== undefined, `the package is no whole one: "${app.running}"`);
  if (chronicle.journalWasLost) return;
  demand(app.whole.startsWith('good'), `it rests on the package "${app.whole}"`);
  if (installed === undefined || !chronicle.knows(installed.version.name)) return;
  const { app: wanted = FACTORY_APP } = chronicle.entry(installed.version.name);
  demand(app.whole === wanted, `${installed.version.name} is installed, and the package "${app.whole}"`);
  demand(!app.isWatched, 'the guard has a unit, and nothing to do');
}

function judgeEveryEnd(begun: ReadonlySet<string>, reports: readonly Outcome[]): void {
  const ended = new Set(reports.map((report) => report.attempt));
  for (const attempt of begun) demand(ended.has(attempt), `${attempt} was begun, but its end was never reported`);
}

/** The application was notified of every commit and rollback. */
export function judgeTold({ hardware, chronicle, transport }: Gateway): void {
  if (chronicle.journalWasLost) return;
  for (const { attempt, version, outcome } of transport.reports) {
    const isEnd = outcome === 'installed' || outcome === 'rolled-back';
    demand(!isEnd || hardware.told.has(attempt), `the application was not told that ${version} was ${outcome}`);
  }
}

/** When a switch arrives, what it names is what would boot. */
export function judgeSwitch({ hardware, chronicle }: Gateway, versionId: string): void {
  const { image } = chronicle.entry(versionId);
  const { next } = hardware.boot;
  const entry = next === undefined ? undefined : chronicle.imageIn(next);
  const boots = image === '' || entry?.id === versionId;
  demand(boots, `the service is told of ${versionId}, but ${entry?.id ?? 'nothing'} would boot`);
}

/** Durable parts of a transfer are not transferred again. */
export function judgeTransfer(hardware: Hardware, versionId: string, from: WirePosition | undefined): void {
  const phase = storedState(hardware)?.phase;
  if (phase?.kind !== 'staging' || phase.attempt.version.id !== versionId) return;
  const wire = phase.checkpoint?.wire;
  demand(from?.offset === wire?.offset, `${versionId} comes from byte ${from?.offset}, not from ${wire?.offset} on`);
}

/** An image with a known version need not be transferred to become that version. */
export function judgeNeed({ hardware, chronicle }: Gateway, versionId: string): void {
  const runs = chronicle.imageIn(hardware.boot.booted)?.id;
  demand(runs !== versionId, `${versionId} runs, says so, and is transferred`);
}

export function storedState(hardware: Hardware): UpdateState | undefined {
  const text = hardware.disk.read(JOURNAL);
  return text === undefined ? undefined : updateState.safeParse(parse(text)).data;
}

export function storedKey(hardware: Hardware): string | undefined {
  const text = hardware.disk.read(IDENTITY);
  if (text === undefined) return undefined;
  return (parse(text) as Identity | undefined)?.apiKey ?? `none, in "${text}"`;
}

/** The number of the list that counts. */
export function storedList(hardware: Hardware): number | undefined {
  const kept = LISTS.map((path) => parse(hardware.disk.read(path) ?? '')).find((list) => list !== undefined);
  return (kept as { readonly number?: number } | undefined)?.number;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export function demand(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Violation(otherwise);
}
