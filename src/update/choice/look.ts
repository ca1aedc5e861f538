import type { Installed, UpdateState } from '../journal/state.ts';
import type { ProvisioningService, Version } from '../ports.ts';
import { chooseVersion } from './choose.ts';
import type { Choice } from './choose.ts';

export type Follow =
  | { readonly kind: 'target' }
  | { readonly kind: 'updates'; readonly choice: Choice }
  | { readonly kind: 'none' };

/** What the service wants this gateway to run; undefined: nothing, or nothing is followed. */
export async function lookForVersion(
  follow: Follow,
  state: UpdateState,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<Version | undefined> {
  switch (follow.kind) {
    case 'none':
      return undefined;
    case 'target':
      return service.targetVersion(signal);
    case 'updates':
      return lookAmongUpdates(follow.choice, state, service, signal);
  }
}

/** The service has not confirmed yet which of its versions the factory installed. */
function isUnnamed({ version, factory }: Installed): boolean {
  return factory === true && version.id === undefined;
}

/** Before anything is installed, the service's current version; afterwards what it can be switched to. */
async function lookAmongUpdates(
  choice: Choice,
  state: UpdateState,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<Version | undefined> {
  const { installed } = state;
  if (installed === undefined || isUnnamed(installed)) return service.currentVersion(signal);
  const from = installed.version.id ?? (await service.currentVersion(signal)).id;
  const versions = await service.updates(from, signal);
  return chooseVersion(
    versions.filter((version) => version.id !== from),
    choice,
    { id: from, name: installed.version.name },
  );
}
