import * as z from 'zod';

import { identifier } from '../control/api/operation-parts.ts';
import type { OperationEvent, OperationOutcome } from '../control/events.ts';
import { operationTable } from '../control/operations.ts';
import type { DoctorFinding } from '../control/reports.ts';
import type { SecurityEventId } from '../control/security/security-event-meanings.ts';
import type { Happened } from '../daemon/history/tell-history.ts';
import type { KeptOfBoard } from '../daemon/wiring/board-room.ts';
import { flashStep } from '../mcu/apart/line-port.ts';
import type { FlashOrder } from '../mcu/apart/line-port.ts';
import type { Look } from '../update/choice/lookout.ts';
import type { HookName, HookSubject } from '../update/hooks/hook-input.ts';
import type { OwedHook } from '../update/journal/parts/owed-hook.ts';
import type { Standstill } from '../update/journal/parts/standstill.ts';
import type { UpdateState } from '../update/journal/state.ts';
import type { BootState, SlotName, WirePosition } from '../update/ports.ts';
import type { Unarmed } from '../update/trial/reboot-wait.ts';
import type { LinkError } from './link/link-error.ts';
import { PLACE_BYTES } from './link/tray.ts';
import type { TrayPlace } from './link/tray.ts';

/**
 * Changes with the messages of the link: an agent and a helper of different versions do not try to understand each
 * other.
 */
export const PROTOCOL = 3;

/** What the agent knows of the helper's side. */
export interface Snapshot {
  readonly journal: UpdateState;
  readonly missing?: LinkError | undefined;
  readonly trouble?: LinkError | undefined;
  readonly lastLook?: Look | undefined;
  /** What updates left of packages, by the names of their targets. */
  readonly packages?: Readonly<Record<string, string>> | undefined;
}

export interface Settled {
  readonly kind: 'settled';
}

export interface Verb<I extends z.ZodType = z.ZodType, O extends z.ZodType = z.ZodType> {
  readonly name: string;
  /** The schemas by which messages of the other side are parsed; anything else is refused. */
  readonly input: I;
  readonly output: O;
  /** Orders run one at a time, and may ask the agent for what only the agent can do. */
  readonly isOrder: boolean;
}

function verb<I extends z.ZodType, O extends z.ZodType>(name: string, input: I, output: O): Verb<I, O> {
  return { name, input, output, isOrder: false };
}

function order<I extends z.ZodType, O extends z.ZodType>(name: string, input: I, output: O): Verb<I, O> {
  return { name, input, output, isOrder: true };
}

/** Characters. */
export const MAX_TROUBLE = 1_024;

const nothing = z.strictObject({});
/** A name without a path, so that nobody opens a file by it. */
const fileName = z.string().regex(/^[^/\p{Cc}]{1,255}$/u);
/** Asks for what only root may permit (root/permit.ts); without a permit it is refused. */
const byPermit = z.literal(true).optional();

/**
 * Promise `helper`: everything that the agent may ask of the helper. The helper does not trust the agent: each input
 * has its schema here, and no verb takes a slot, device, path, key or journal event. The answers come from root and are
 * trusted.
 */
export const helperVerbs = {
  /** The first request on each connection. */
  attach: verb('attach', z.strictObject({ protocol: z.literal(PROTOCOL) }), z.custom<Snapshot>()),
  snapshot: verb('snapshot', nothing, z.custom<Snapshot>()),

  settle: order('settle', nothing, z.custom<OperationOutcome | Settled>()),
  update: order(
    'update',
    z.strictObject({ reboot: z.boolean(), force: z.boolean(), manual: z.boolean() }),
    z.custom<OperationOutcome>(),
  ),
  /** The agent sends the file when the helper asks for it. */
  install: order(
    'install',
    z.strictObject({ name: fileName, reboot: z.boolean(), force: z.boolean(), allowDowngrade: byPermit }),
    z.custom<OperationOutcome>(),
  ),
  look: order('look', z.strictObject({ manual: z.boolean(), force: z.boolean() }), z.custom<Look>()),
  commit: order('commit', nothing, z.custom<OperationOutcome>()),
  rollback: order('rollback', z.strictObject({ reboot: z.boolean(), force: byPermit }), z.custom<OperationOutcome>()),
  cancel: order('cancel', nothing, z.custom<OperationOutcome>()),
  reboot: order('reboot', nothing, nothing),

  /** What is kept of each board, by its name. */
  boards: verb('boards', nothing, z.custom<{ readonly boards: Readonly<Record<string, KeptOfBoard>> }>()),
  /** The agent sends the file when the helper asks for it, and has the line of the board. */
  flashBoard: order(
    'flashBoard',
    z.strictObject({
      board: identifier(),
      name: fileName,
      keep: z.literal(false).optional(),
      allowDowngrade: byPermit,
    }),
    z.custom<OperationOutcome>(),
  ),
  restoreBoard: order('restoreBoard', z.strictObject({ board: identifier() }), z.custom<OperationOutcome>()),
  /** Finishes or undoes the writing of the boards whose last write was cut. */
  healBoards: order('healBoards', nothing, nothing),

  /** Whether the journal can be written. */
  probe: verb('probe', nothing, nothing),
  forget: verb('forget', operationTable.forget.input, z.custom<{ readonly versions: readonly string[] }>()),
  hold: verb('hold', operationTable.hold.input, z.custom<Standstill>()),
  resume: verb('resume', nothing, z.object({ wasHeld: z.boolean() })),
  findUnarmed: verb('findUnarmed', nothing, z.custom<{ readonly unarmed?: Unarmed | undefined }>()),
  bootState: verb('bootState', nothing, z.custom<{ readonly booted: SlotName; readonly state: BootState }>()),
  /** What `agent doctor` can only find out with the rights of root. */
  examine: verb('examine', nothing, z.custom<{ readonly findings: readonly DoctorFinding[] }>()),
  /** The text of a signed list, as it was taken. It is public. */
  trustFile: verb(
    'trustFile',
    z.strictObject({ name: z.enum(['trust.json', 'trust-copy.json', 'trust-revoked.json']) }),
    z.object({ text: z.string().optional() }),
  ),
} as const satisfies Readonly<Record<string, Verb>>;

const version = z.strictObject({
  id: z.string().max(1_024),
  name: z.string().max(1_024),
  description: z.string().max(65_536).optional(),
});

/**
 * What the helper may ask of the agent while an order runs. The answers are trusted no more than those of a service.
 */
export const agentVerbs = {
  currentVersion: verb('currentVersion', nothing, version),
  targetVersion: verb('targetVersion', nothing, version),
  updates: verb(
    'updates',
    z.custom<{ readonly from: string }>(),
    z.strictObject({ versions: z.array(version).max(10_000) }),
  ),
  switchTo: verb('switchTo', z.custom<{ readonly versionId: string }>(), nothing),
  setProperty: verb('setProperty', z.custom<{ readonly propertyId: string; readonly value: unknown }>(), nothing),
  /** Opens the firmware of a version, or the file that is to be installed. */
  openFirmware: verb(
    'openFirmware',
    z.custom<{ readonly versionId?: string | undefined; readonly from?: WirePosition | undefined }>(),
    z.strictObject({
      transfer: z.int().nonnegative(),
      startOffset: z.int().nonnegative(),
      totalBytes: z.int().nonnegative().optional(),
      validator: z.string().max(4_096).optional(),
    }),
  ),
  /** The next bytes, in the message or, where the helper names a place for them, in the tray; none at the end. */
  readFirmware: verb(
    'readFirmware',
    z.custom<{ readonly transfer: number; readonly place?: TrayPlace | undefined }>(),
    z.strictObject({ laidBytes: z.int().min(1).max(PLACE_BYTES).optional() }),
  ),
  closeFirmware: verb('closeFirmware', z.custom<{ readonly transfer: number }>(), nothing),
  /** Begins to flash a board. Its images follow. */
  openBoard: verb('openBoard', z.custom<FlashOrder>(), z.strictObject({ job: z.int().nonnegative() })),
  feedBoard: verb('feedBoard', z.custom<{ readonly job: number }>(), nothing),
  /** What comes next on its line; with bytes, where that is a piece of what it holds. */
  stepBoard: verb('stepBoard', z.custom<{ readonly job: number }>(), flashStep),
  /** Ends that, and answers when the line is free. */
  closeBoard: verb('closeBoard', z.custom<{ readonly job: number }>(), nothing),
  checkHealth: verb(
    'checkHealth',
    nothing,
    z.strictObject({
      complaint: z
        .strictObject({
          code: z.enum(['unhealthy', 'service-down', 'service-unreached']),
          reason: z.string().max(4_096),
        })
        .optional(),
    }),
  ),
  reachesService: verb('reachesService', nothing, z.strictObject({ reached: z.boolean() })),
  meteredLink: verb('meteredLink', nothing, z.strictObject({ link: z.string().max(64).optional() })),
  configTrouble: verb('configTrouble', nothing, z.strictObject({ trouble: z.string().max(MAX_TROUBLE).optional() })),
  askHook: verb(
    'askHook',
    z.custom<{ readonly hook: HookName; readonly inTurn: boolean; readonly about: HookSubject }>(),
    nothing,
  ),
  tellHook: verb(
    'tellHook',
    z.custom<{ readonly owed: OwedHook; readonly installed: HookSubject['installed'] }>(),
    z.strictObject({ trouble: z.string().max(4_096).optional() }),
  ),
} as const satisfies Readonly<Record<string, Verb>>;

/** What the helper tells without being asked. */
export interface HelperNotes {
  readonly progress: OperationEvent;
  /** An event is durable, and this is the journal now. */
  readonly journal: { readonly event: Happened['event']; readonly state: UpdateState };
  /** `which`: each of these is reported only once. */
  readonly security: { readonly event: SecurityEventId; readonly which?: string | undefined; readonly detail: string };
  /** The helper closes this connection: a request that was not begun must be repeated on another one. */
  readonly leaving: { readonly why: 'idle' | 'busy' };
}

/** The notes of the helper, as the agent parses them. */
export const helperNote = z.discriminatedUnion('topic', [
  z.object({ topic: z.literal('progress'), content: z.custom<HelperNotes['progress']>() }),
  z.object({ topic: z.literal('journal'), content: z.custom<HelperNotes['journal']>() }),
  z.object({ topic: z.literal('security'), content: z.custom<HelperNotes['security']>() }),
  z.object({ topic: z.literal('leaving'), content: z.custom<HelperNotes['leaving']>() }),
]);

/** The agent tells the time of the service's clock, in milliseconds since the epoch. */
export const heardNote = z.strictObject({ atMs: z.number() });

export type HelperVerb = keyof typeof helperVerbs;
export type AgentVerb = keyof typeof agentVerbs;
