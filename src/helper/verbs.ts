import * as z from 'zod';

import type { OperationEvent, OperationOutcome } from '../control/events.ts';
import { operationTable } from '../control/operations.ts';
import type { DoctorFinding } from '../control/reports.ts';
import type { SecurityEventId } from '../control/security/security-event-meanings.ts';
import type { Happened } from '../daemon/history/tell-history.ts';
import type { Look } from '../update/choice/lookout.ts';
import type { HookName, HookSubject } from '../update/hooks/hook-input.ts';
import type { OwedHook } from '../update/journal/parts/owed-hook.ts';
import type { Standstill } from '../update/journal/parts/standstill.ts';
import type { UpdateState } from '../update/journal/state.ts';
import type { BootState, SlotName, WirePosition } from '../update/ports.ts';
import type { Unarmed } from '../update/trial/reboot-wait.ts';
import type { LinkError } from './link/link-error.ts';

/** Changes with what is said on the link: an agent and a helper of two versions do not try to understand each other. */
export const PROTOCOL = 1;

/** What the agent shows of the helper's side. */
export interface Snapshot {
  readonly journal: UpdateState;
  readonly missing?: LinkError | undefined;
  readonly trouble?: LinkError | undefined;
  readonly lastLook?: Look | undefined;
}

export interface Settled {
  readonly kind: 'settled';
}

export interface Verb<I extends z.ZodType = z.ZodType, O extends z.ZodType = z.ZodType> {
  readonly name: string;
  /** What the other side says is parsed by these, and nothing else is taken. */
  readonly input: I;
  readonly output: O;
  /** One at a time; it may ask the agent for what only the agent can do. */
  readonly isOrder: boolean;
}

function verb<I extends z.ZodType, O extends z.ZodType>(name: string, input: I, output: O): Verb<I, O> {
  return { name, input, output, isOrder: false };
}

function order<I extends z.ZodType, O extends z.ZodType>(name: string, input: I, output: O): Verb<I, O> {
  return { name, input, output, isOrder: true };
}

const nothing = z.strictObject({});
/** No path: nobody opens anything by it. */
const fileName = z.string().regex(/^[^/\p{Cc}]{1,255}$/u);

/**
 * What the agent may ask of the helper: all of it. The helper believes none of it: each input has its schema here, and there is no
 * verb for a slot, a device, a path, a key or a journal event. What comes back is said by root, and is not doubted.
 */
export const helperVerbs = {
  /** The first word of each connection. */
  attach: verb('attach', z.strictObject({ protocol: z.literal(PROTOCOL) }), z.custom<Snapshot>()),
  snapshot: verb('snapshot', nothing, z.custom<Snapshot>()),

  settle: order('settle', nothing, z.custom<OperationOutcome | Settled>()),
  update: order(
    'update',
    z.strictObject({ reboot: z.boolean(), force: z.boolean(), manual: z.boolean() }),
    z.custom<OperationOutcome>(),
  ),
  /** The agent sends the file when it is asked for it. */
  install: order(
    'install',
    z.strictObject({ name: fileName, reboot: z.boolean(), force: z.boolean() }),
    z.custom<OperationOutcome>(),
  ),
  look: order('look', z.strictObject({ manual: z.boolean(), force: z.boolean() }), z.custom<Look>()),
  commit: order('commit', nothing, z.custom<OperationOutcome>()),
  rollback: order('rollback', z.strictObject({ reboot: z.boolean() }), z.custom<OperationOutcome>()),
  cancel: order('cancel', nothing, z.custom<OperationOutcome>()),
  reboot: order('reboot', nothing, nothing),

  /** Whether the journal can be written. */
  probe: verb('probe', nothing, nothing),
  forget: verb('forget', operationTable.forget.input, z.custom<{ readonly versions: readonly string[] }>()),
  hold: verb('hold', operationTable.hold.input, z.custom<Standstill>()),
  resume: verb('resume', nothing, z.object({ wasHeld: z.boolean() })),
  findUnarmed: verb('findUnarmed', nothing, z.custom<{ readonly unarmed?: Unarmed | undefined }>()),
  bootState: verb('bootState', nothing, z.custom<{ readonly booted: SlotName; readonly state: BootState }>()),
  /** What `agent doctor` can only find out with the rights of root. */
  examine: verb('examine', nothing, z.custom<{ readonly findings: readonly DoctorFinding[] }>()),
  /** What a signed list says, as it was taken: it is public. */
  trustFile: verb(
    'trustFile',
    z.strictObject({ name: z.enum(['trust.json', 'trust-copy.json']) }),
    z.object({ text: z.string().optional() }),
  ),
} as const satisfies Readonly<Record<string, Verb>>;

const version = z.strictObject({
  id: z.string().max(1_024),
  name: z.string().max(1_024),
  description: z.string().max(65_536).optional(),
});

/** What the helper may ask of the agent, while an order of the agent runs. What comes back is believed no more than what a service says. */
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
  /** Of a version of the service, or of the file that is to be installed. */
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
  /** The next bytes; none: it is at its end. */
  readFirmware: verb('readFirmware', z.custom<{ readonly transfer: number }>(), nothing),
  closeFirmware: verb('closeFirmware', z.custom<{ readonly transfer: number }>(), nothing),
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
  /** `which`: it is told once of each. */
  readonly security: { readonly event: SecurityEventId; readonly which?: string | undefined; readonly detail: string };
  /** It serves this connection no more: what was not begun is to be asked on another one. */
  readonly leaving: { readonly why: 'idle' | 'busy' };
}

/** As the agent hears them. */
export const helperNote = z.discriminatedUnion('topic', [
  z.object({ topic: z.literal('progress'), content: z.custom<HelperNotes['progress']>() }),
  z.object({ topic: z.literal('journal'), content: z.custom<HelperNotes['journal']>() }),
  z.object({ topic: z.literal('security'), content: z.custom<HelperNotes['security']>() }),
  z.object({ topic: z.literal('leaving'), content: z.custom<HelperNotes['leaving']>() }),
]);

/** What the agent tells: what the service's clock shows, in milliseconds since the epoch. */
export const heardNote = z.strictObject({ atMs: z.number() });

export type HelperVerb = keyof typeof helperVerbs;
export type AgentVerb = keyof typeof agentVerbs;
