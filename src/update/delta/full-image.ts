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

type RejectedDeltas = UpdateState['unfit'];

const MAX_UNFIT = 8;

function isRejected({ unfit }: UpdateState, versionId: string): boolean {
  return unfit?.versions.includes(versionId) === true;
}

export function withUnfit(unfit: RejectedDeltas, versionId: string): RejectedDeltas {
  const others = unfit?.versions.filter((id) => id !== versionId) ?? [];
  return { versions: [...others, versionId].slice(-MAX_UNFIT), told: false };
}

/** The entry after something else was installed, which the next delta may fit. */
export function withoutUnfit(unfit: RejectedDeltas): RejectedDeltas {
  return unfit === undefined || unfit.versions.length === 0 ? unfit : { versions: [], told: false };
}

/** The entry after the service was told. What it was told is kept as long as it is wanted. */
export function toldUnfit(unfit: RejectedDeltas): RejectedDeltas {
  return unfit === undefined || unfit.versions.length === 0 ? undefined : { ...unfit, told: true };
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
