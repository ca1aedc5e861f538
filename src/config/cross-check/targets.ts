import type { Finding } from '../cross-check.ts';
import type { ConfigFile } from '../schema/schema.ts';

export function defaultTargetContradictions(
  targets: ConfigFile['targets'],
  { default_target: wanted }: ConfigFile['update'],
): readonly Finding[] {
  if (wanted === undefined || Object.hasOwn(targets, wanted)) return [];
  const names = Object.keys(targets).join(', ');
  const known = names === '' ? 'there are no targets' : `there are: ${names}`;
  const message = `update.default_target: there is no [targets.${wanted}] (${known})`;
  return [{ path: ['update', 'default_target'], message }];
}

export function targetContradictions(targets: ConfigFile['targets']): readonly Finding[] {
  const pairs = Object.entries(targets).flatMap(([name, target]) =>
    target.kind === 'slots' ? slotContradictions(name, target) : [],
  );
  return [...pairs, ...sharedSlots(targets), ...bootloaderContradictions(targets), ...packageContradictions(targets)];
}

/** Rejects packages together with slots: a package installed into the running slot would be gone with the next image. */
function packageContradictions(targets: ConfigFile['targets']): readonly Finding[] {
  const hasSlots = Object.values(targets).some(({ kind }) => kind === 'slots');
  const owners = new Map<string, string>();
  const findings: Finding[] = [];
  for (const [name, target] of Object.entries(targets)) {
    if (target.kind !== 'package') continue;
    const beside = `targets.${name}: a gateway with slots gets its packages in the images of these`;
    if (hasSlots) findings.push({ path: ['targets', name], message: beside });
    const owner = owners.get(target.package);
    owners.set(target.package, name);
    const twice = `targets.${name}.package is also the package of targets.${owner}`;
    if (owner !== undefined) findings.push({ path: ['targets', name, 'package'], message: twice });
  }
  return findings;
}

/** Refuses two targets with the same device, which would overwrite each other or the running system. */
function sharedSlots(targets: ConfigFile['targets']): readonly Finding[] {
  const owners = new Map<string, string>();
  const findings: Finding[] = [];
  for (const [name, target] of Object.entries(targets)) {
    if (target.kind !== 'slots') continue;
    for (const slot of ['A', 'B'] as const) {
      const device = target.slots[slot];
      const owner = owners.get(device) ?? name;
      owners.set(device, owner);
      if (owner === name) continue;
      const path = ['targets', name, 'slots', slot];
      findings.push({ path, message: `${path.join('.')} is a slot of targets.${owner}, too` });
    }
  }
  return findings;
}

/** Requires that exactly one pair of slots has the bootloader. */
function bootloaderContradictions(targets: ConfigFile['targets']): readonly Finding[] {
  const pairs = Object.entries(targets).flatMap(([name, target]) =>
    target.kind === 'slots' ? [{ name, target }] : [],
  );
  const [booting, ...more] = pairs.filter(({ target }) => target.bootloader !== undefined);
  if (booting === undefined) {
    return pairs.slice(0, 1).map(({ name }) => ({
      path: ['targets', name],
      message: `targets.${name}: a pair of slots needs a bootloader`,
    }));
  }
  return more.map(({ name }) => ({
    path: ['targets', name, 'bootloader'],
    message: `targets.${name}.bootloader: only one pair of slots may have the bootloader, and ${booting.name} has it`,
  }));
}

type SlotsTarget = Extract<ConfigFile['targets'][string], { kind: 'slots' }>;

function slotContradictions(name: string, { slots, bootloader }: SlotsTarget): readonly Finding[] {
  const ofBootloader = Object.entries<unknown>(bootloader ?? {}).map(([key, value]) => ({
    path: ['bootloader', key],
    pair: value,
  }));
  return [{ path: ['slots'], pair: slots }, ...ofBootloader]
    .filter(({ pair }) => isPair(pair) && pair.A === pair.B)
    .map(({ path }) => ({
      path: ['targets', name, ...path],
      message: `targets.${name}.${path.join('.')}: A and B are the same`,
    }));
}

function isPair(value: unknown): value is { readonly A: unknown; readonly B: unknown } {
  return typeof value === 'object' && value !== null && 'A' in value && 'B' in value;
}
