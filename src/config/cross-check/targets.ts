import { protocolsWith } from '../../mcu/settings.ts';
import type { Finding } from '../cross-check.ts';
import { alternatives, findingAt, valueAt } from '../file/problems.ts';
import type { ConfigFile } from '../schema/schema.ts';

type Targets = ConfigFile['targets'];

export function* targetConflicts(targets: Targets, input: unknown): Generator<Finding> {
  yield* equalSlots(targets);
  yield* sharedSlots(targets);
  yield* bootloaderConflicts(targets);
  yield* packageConflicts(targets);
  yield* protocolConflicts(targets, input);
}

/** Rejects settings that the protocol of a board does not use. */
function* protocolConflicts(targets: Targets, input: unknown): Generator<Finding> {
  for (const [name, target] of Object.entries(targets)) {
    if (target.kind !== 'mcu') continue;
    for (const key of Object.keys(valueAt(input, ['targets', name]) ?? {})) {
      const users = protocolsWith(key, target.protocol);
      if (users.length === 0) continue;
      const only = alternatives(users.map((user) => `"${user}"`));
      yield findingAt(['targets', name, key], ` is only for protocol ${only}; this board has "${target.protocol}"`);
    }
  }
}

function slotsOf(targets: Targets) {
  return Object.entries(targets).flatMap(([name, target]) => (target.kind === 'slots' ? [{ name, target }] : []));
}

/** Rejects packages together with slots: a package installed into the running slot would be gone with the next image. */
function* packageConflicts(targets: Targets): Generator<Finding> {
  const hasSlots = slotsOf(targets).length > 0;
  const owners = new Map<string, string>();
  for (const [name, target] of Object.entries(targets)) {
    if (target.kind !== 'package') continue;
    if (hasSlots) yield findingAt(['targets', name], ': a gateway with slots gets its packages in the images of these');
    const owner = owners.get(target.package);
    owners.set(target.package, name);
    if (owner !== undefined) yield findingAt(['targets', name, 'package'], ` is also the package of targets.${owner}`);
  }
}

/** Refuses two targets with the same device, which would overwrite each other or the running system. */
function* sharedSlots(targets: Targets): Generator<Finding> {
  const owners = new Map<string, string>();
  for (const { name, target } of slotsOf(targets)) {
    for (const [slot, device] of Object.entries(target.slots)) {
      const owner = owners.get(device) ?? name;
      owners.set(device, owner);
      if (owner !== name) yield findingAt(['targets', name, 'slots', slot], ` is a slot of targets.${owner}, too`);
    }
  }
}

/** Requires that exactly one pair of slots has the bootloader. */
function* bootloaderConflicts(targets: Targets): Generator<Finding> {
  const pairs = slotsOf(targets);
  const [first] = pairs;
  const [booting, ...more] = pairs.filter(({ target }) => target.bootloader !== undefined);
  if (first !== undefined && booting === undefined)
    yield findingAt(['targets', first.name], ': a pair of slots needs a bootloader');
  for (const { name } of more) {
    const why = `: only one pair of slots may have the bootloader, and ${booting?.name} has it`;
    yield findingAt(['targets', name, 'bootloader'], why);
  }
}

function* equalSlots(targets: Targets): Generator<Finding> {
  for (const { name, target } of slotsOf(targets)) {
    const ofBootloader = Object.entries<unknown>(target.bootloader ?? {}).map(([key, pair]) => ({
      path: ['bootloader', key],
      pair,
    }));
    for (const { path, pair } of [{ path: ['slots'], pair: target.slots }, ...ofBootloader]) {
      if (isPair(pair) && pair.A === pair.B) yield findingAt(['targets', name, ...path], ': A and B are the same');
    }
  }
}

function isPair(value: unknown): value is { readonly A: unknown; readonly B: unknown } {
  return typeof value === 'object' && value !== null && 'A' in value && 'B' in value;
}
