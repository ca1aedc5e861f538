import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import type * as z from 'zod';

import type { OnEvent } from '../../control/events.ts';
import { readImageSource } from '../../daemon/board-files.ts';
import { examineEngine } from '../../daemon/doctor/engine-checks.ts';
import { stateFs } from '../../daemon/doctor/state-directory.ts';
import { packagesLeft } from '../../daemon/wiring/engine.ts';
import { tellingOfLists } from '../../daemon/wiring/trust.ts';
import { AgentError, valueOrError } from '../../system/errors.ts';
import { readTextFile } from '../../system/files/durable-file.ts';
import { belowFloor } from '../../update/choice/release-rules.ts';
import type { Updater } from '../../update/updater.ts';
import { HelperError } from '../errors.ts';
import { toLinkError } from '../link/link-error.ts';
import { requireForm } from '../link/message.ts';
import { helperVerbs } from '../verbs.ts';
import type { HelperVerb, Snapshot, Verb } from '../verbs.ts';
import { remoteFirmware } from './agent-ports.ts';
import type { AskAgent } from './ask-agent.ts';
import type { HelperEngine } from './engine.ts';
import { runDirectoryOf } from './engine.ts';
import { permitToGoBack, takePermit } from './permit.ts';

/** The parts that a call may use. */
export interface Call {
  readonly engine: HelperEngine;
  readonly ask: AskAgent;
  readonly onEvent: OnEvent;
  readonly signal: AbortSignal;
}

interface Row {
  readonly isOrder: boolean;
  readonly perform: (input: unknown, call: Call) => Promise<unknown>;
}

function row<I extends z.ZodType, O extends z.ZodType>(
  verb: Verb<I, O>,
  perform: (input: z.output<I>, call: Call) => Promise<z.input<O>>,
): Row {
  return {
    isOrder: verb.isOrder,
    perform: async (input, call) => perform(requireForm(verb.name, verb.input, input), call),
  };
}

/** What the helper does for each verb. */
const rows: Readonly<Record<HelperVerb, Row>> = {
  attach: row(helperVerbs.attach, async (_input, { engine }) => snapshotOf(engine)),
  snapshot: row(helperVerbs.snapshot, async (_input, { engine }) => snapshotOf(engine)),
  settle: row(helperVerbs.settle, async (_input, call) => updaterOf(call).settle(call.onEvent, call.signal)),
  update: row(helperVerbs.update, async (options, call) =>
    tellingOfLists(call.engine.trust, async () => updaterOf(call).updateNow(options, call.onEvent, call.signal)),
  ),
  install: row(helperVerbs.install, async ({ name, allowDowngrade, ...options }, call) => {
    const source = remoteFirmware(call.ask, 'decoded');
    const downgradeTo = allowDowngrade === true ? await permittedRelease(call.engine) : undefined;
    const order = { ...options, downgradeTo };
    return tellingOfLists(call.engine.trust, async () => updaterOf(call).installFile(source, name, order, call));
  }),
  look: row(helperVerbs.look, async (options, call) => updaterOf(call).look(options, call.signal)),
  commit: row(helperVerbs.commit, async (_input, call) => updaterOf(call).commit(call.onEvent, call.signal)),
  rollback: row(helperVerbs.rollback, async ({ reboot, force = false }, call) => {
    if (force) await requirePermitToGoBack(call.engine);
    else refuseBelowFloor(call.engine);
    return updaterOf(call).rollback({ reboot, force }, call.onEvent, call.signal);
  }),
  cancel: row(helperVerbs.cancel, async (_input, call) => updaterOf(call).cancel(call.onEvent, call.signal)),
  reboot: row(helperVerbs.reboot, async (_input, { engine, signal }) => {
    await (engine.updater ?? engine.machine).reboot(undefined, signal);
    return {};
  }),
  boards: row(helperVerbs.boards, async (_input, { engine }) => ({
    boards: Object.fromEntries(await engine.boards.kept()),
  })),
  flashBoard: row(helperVerbs.flashBoard, async ({ name, ...order }, { engine, ask, onEvent, signal }) => {
    const requirePermitted = order.allowDowngrade === true ? await permittedImage(order.board, engine) : () => {};
    const read = async (): Promise<Uint8Array> => {
      const bytes = await readImageSource(remoteFirmware(ask, 'decoded'), name, signal);
      requirePermitted(bytes);
      return bytes;
    };
    return engine.boards.flash(order, { name, read }, onEvent, signal);
  }),
  restoreBoard: row(helperVerbs.restoreBoard, async ({ board }, { engine, onEvent, signal }) =>
    engine.boards.restore(board, onEvent, signal),
  ),
  healBoards: row(helperVerbs.healBoards, async (_input, { engine, onEvent, signal }) =>
    engine.boards.heal(onEvent, signal).then(() => ({})),
  ),
  probe: row(helperVerbs.probe, async (_input, { engine }) => engine.journal.probe().then(() => ({}))),
  forget: row(helperVerbs.forget, async ({ version }, call) => ({ versions: await updaterOf(call).forget(version) })),
  hold: row(helperVerbs.hold, async (order, call) => updaterOf(call).hold(order)),
  resume: row(helperVerbs.resume, async (_input, call) => ({ wasHeld: await updaterOf(call).resume() })),
  findUnarmed: row(helperVerbs.findUnarmed, async (_input, { engine, signal }) => ({
    unarmed: await engine.updater?.findUnarmed(signal),
  })),
  bootState: row(helperVerbs.bootState, async (_input, { engine, signal }) => {
    const { bootloader } = engine;
    if (bootloader === undefined) throw new HelperError('helper-refused', 'no slots are configured');
    return { booted: await bootloader.bootedSlot(signal), state: await bootloader.inspect(signal) };
  }),
  examine: row(helperVerbs.examine, async (_input, { engine, signal }) => ({
    findings: await examineEngine(engine, signal),
  })),
  trustFile: row(helperVerbs.trustFile, async ({ name }, { engine: { config } }) => ({
    text: await readTextFile(join(config.paths.state, name), stateFs(config)),
  })),
};

/** Throws `link-malformed` for an unknown verb. */
export function rowOf(verb: string): Row {
  const found = Object.entries(rows).find(([name]) => name === verb);
  if (found === undefined) throw new HelperError('link-malformed', 'there is no such verb');
  return found[1];
}

/**
 * Promise `floors`: refuses to go back to a release below the floor, which an agent that was broken into might want.
 */
function refuseBelowFloor({ journal, config }: HelperEngine): void {
  const { phase, floor, previous } = journal.state;
  if (floor === undefined || (phase.kind !== 'idle' && phase.kind !== 'staging')) return;
  const why = belowFloor(previous ?? {}, floor, config.trust);
  if (why === undefined) return;
  throw new HelperError('helper-refused', `what was installed before ${why}: the helper does not go back to it`, {
    advice: 'as root: agent rollback --force',
  });
}

/** The one release below the floor that root has permitted. Throws `helper-refused`. */
async function permittedRelease({ config, machine }: HelperEngine): Promise<string> {
  const permit = await takePermit({ folder: runDirectoryOf(config), machine });
  if (permit?.kind === 'downgrade') return permit.digest;
  throw new HelperError('helper-refused', 'root has permitted no older release', {
    advice: 'as root: agent install FILE --allow-downgrade',
  });
}

/** Returns what refuses any image but the one that root has permitted for this board. */
async function permittedImage(board: string, { config, machine }: HelperEngine): Promise<(image: Uint8Array) => void> {
  const permit = await takePermit({ folder: runDirectoryOf(config), machine });
  return (image) => {
    const digest = `sha256:${createHash('sha256').update(image).digest('hex')}`;
    if (isDeepStrictEqual(permit, { kind: 'board', board, digest })) return;
    throw new HelperError('helper-refused', `root has permitted no older image for ${board}`, {
      advice: `as root: agent mcu flash ${board} FILE --allow-downgrade`,
    });
  };
}

async function requirePermitToGoBack({ config, machine, journal }: HelperEngine): Promise<void> {
  const permit = await takePermit({ folder: runDirectoryOf(config), machine });
  if (isDeepStrictEqual(permit, permitToGoBack(journal.state))) return;
  throw new HelperError('helper-refused', 'root has permitted no way back by force', {
    advice: 'as root: agent rollback --force',
  });
}

function updaterOf({ engine }: Call): Updater {
  if (engine.updater !== undefined) return engine.updater;
  throw new HelperError('helper-refused', 'no target is configured');
}

export async function snapshotOf({ journal, updater, config }: HelperEngine): Promise<Snapshot> {
  const packages = await valueOrError(packagesLeft(config));
  const { state, missing, trouble } = journal;
  return {
    journal: state,
    missing: missing && toLinkError(missing),
    trouble: trouble && toLinkError(trouble),
    lastLook: updater?.lastLook,
    packages: packages instanceof AgentError ? undefined : packages,
  };
}
