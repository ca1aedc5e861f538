import { AgentError } from '../../system/errors.ts';
import type { UpdateState } from '../journal/state.ts';
import type { ProvisioningService, Version } from '../ports.ts';

/**
 * Where the whole image is looked for after a delta did not fit: among the `updates` of the service, or under the same
 * version.
 */
export type FullImage = 'updates' | 'same';

/**
 * The version that the service names or, if its delta did not fit what runs, another version of this name in the
 * service's list.
 */
export async function findFullImage(
  offered: Version,
  state: UpdateState,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<Version> {
  if (!isRejected(state, offered.id)) return offered;
  const listed = await listUpdates(state, service, signal);
  return listed.find(({ id, name }) => name === offered.name && !isRejected(state, id)) ?? offered;
}

function isRejected({ unfit }: UpdateState, versionId: string): boolean {
  return unfit?.versions.includes(versionId) === true;
}

/** The service's list of updates; empty if it has none, so that the named version is asked for again. */
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
