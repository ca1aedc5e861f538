import * as z from 'zod';

import { ownVersion } from '../journal/naming.ts';
import type { Attempt, UpdateState } from '../journal/state.ts';
import type { SlotName } from '../ports.ts';

export const hookNames = ['before_install', 'before_reboot', 'after_commit', 'after_rollback'] as const;
export type HookName = (typeof hookNames)[number];

const version = z.object({
  /** The id at the service; a file has none. */
  id: z.string().optional(),
  name: z.string(),
});

/** What a hook reads from its standard input: one line of JSON. Members may be added without changing `format`. */
export const hookInput = z.object({
  format: z.literal(1),
  hook: z.enum(hookNames),
  /** The same in all hooks and reports of one attempt. */
  attempt: z.string(),
  by: z.enum(['service', 'file', 'rollback']),
  version,
  /** The installed version; absent: this agent has installed nothing yet. */
  installed: version.optional(),
  /** The slot in which the version is, or will be. */
  slot: z.enum(['A', 'B']),
  /** With `after_rollback`: why it was left. The code is stable. */
  code: z.string().optional(),
  reason: z.string().optional(),
});
export type HookInput = z.infer<typeof hookInput>;

/** What a hook is asked about. */
export interface HookSubject {
  readonly attempt: Pick<Attempt, 'id' | 'by' | 'version'>;
  readonly slot: SlotName;
  /** Undefined before the header of a new release was read. */
  readonly digest?: string | undefined;
  readonly installed: UpdateState['installed'];
  readonly code?: string | undefined;
  readonly reason?: string | undefined;
}

export function hookText(hook: HookName, { attempt, installed, digest: _, ...about }: HookSubject): string {
  const { id, by, version: named } = attempt;
  const input: HookInput = {
    format: 1,
    hook,
    attempt: id,
    by,
    version: named,
    installed: installed && ownVersion(installed),
    ...about,
  };
  return `${JSON.stringify(hookInput.parse(input))}\n`;
}
