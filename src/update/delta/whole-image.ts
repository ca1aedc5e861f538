import { AgentError } from '../../system/errors.ts';
import { isUnfit } from '../journal/parts/unfit-deltas.ts';
import type { UpdateState } from '../journal/state.ts';
import type { ProvisioningService, Version } from '../ports.ts';

/** Where the whole image is looked for after a delta that did not fit: among the `updates` of the service, or not at all. */
export type WholeImage = 'updates' | 'same';

/** What the service names; or, for a delta that did not fit what runs, another version of its name that the service lists. */
export async function wholeInstead(
  offered: Version,
  state: UpdateState,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<Version> {
  if (!isUnfit(state, offered.id)) return offered;
  const listed = await listUpdates(state, service, signal);
  return listed.find(({ id, name }) => name === offered.name && !isUnfit(state, id)) ?? offered;
}

/** Where the service has no list, what it names is asked for again. */
async function listUpdates(
  { installed }: UpdateState,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<readonly Version[]> {
  try {
    const from = installed?.version.id ?? (await service.currentVersion(signal)).id;
    return await service.updates(from, signal);
  } catch (error) {
    if (error instanceof AgentError && error.remedy === 'give-up') return [];
    throw error;
  }
}
