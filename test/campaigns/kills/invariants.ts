import type { Rig } from './rig.ts';

/** Returns the violations of an invariant. */
type Rule = (rig: Rig) => readonly string[];

const knownFiles =
  /^(?:(?:journal|floors|identity|security|history)\.json(?:\.new)?|queue\.db(?:-wal|-shm|-journal)?)$/;

const always: readonly Rule[] = [
  ({ ledger }) => ledger.contradictions,
  ({ view }) => unless(view.bootable.length > 0, 'no slot boots any more'),
  ({ view }) =>
    [...new Set([...view.bootable, view.booted])]
      .filter((slot) => view.imageIn(slot) === undefined)
      .map((slot) => `slot ${slot} boots or runs, and holds no whole verified image`),
  ({ view }) =>
    view.stateFiles.filter((name) => !knownFiles.test(name)).map((name) => `the state directory has ${name}`),
  ({ view, ledger }) => {
    const phase = view.journal?.phase;
    if (phase !== undefined && 'attempt' in phase) ledger.note(phase.attempt.id);
    return [];
  },
  ({ view, service }) => {
    const { identity } = view;
    const isOurs = identity === undefined || identity.thingId === service.world.things[0]?.thingId;
    return unless(isOurs, 'the identity is another thing’s');
  },
];

const atRest: readonly Rule[] = [
  ({ view }) => {
    const running = view.imageIn(view.booted);
    return unless(running?.isGood === true, `slot ${view.booted} runs ${running?.label}, which is not good`);
  },
  ({ view, service }) =>
    unless(
      view.identity !== undefined && view.identity.apiKey === service.world.things[0]?.apiKey,
      'the API key is not the one that the service has',
    ),
  ({ ledger }) => ledger.unheard.map((attempt) => `the service never heard how attempt ${attempt} ended`),
  ({ view }) => {
    const { phase, pendingSwitch, reports } = view.journal ?? {};
    return [
      ...unless(phase === undefined || phase.kind === 'idle', `the journal rests in phase ${phase?.kind}`),
      ...unless(pendingSwitch === undefined, `the service was not told of ${pendingSwitch}`),
      ...(reports ?? []).map(({ attempt }) => `the end of attempt ${attempt} is still to be told`),
    ];
  },
  ({ view }) => {
    const { installed } = view.journal ?? {};
    const label = installed?.version.name ?? 'factory';
    const running = view.imageIn(view.booted)?.label;
    const slot = installed?.slot ?? view.booted;
    return [
      ...unless(running === label, `${label} is installed, and ${running} runs`),
      ...unless(slot === view.booted, `slot ${view.booted} runs instead of slot ${slot}`),
    ];
  },
  ({ view, service }) => {
    const id = view.journal?.installed?.version.id;
    const known = service.world.things[0]?.currentVersionId;
    return unless(id === undefined || known === id, `the service has ${known}, and ${id} is installed`);
  },
  ({ view }) => {
    const previous = view.journal?.earlier.find(({ slot }) => slot !== view.booted);
    const others = view.bootable.filter((slot) => slot !== view.booted);
    return others.flatMap((slot) => {
      const held = view.imageIn(slot);
      // An installation that was interrupted before its first byte: the journal has no record of the remaining data.
      if (previous === undefined)
        return unless(held?.isGood === true, `slot ${slot} boots, and ${held?.label} is not good`);
      return unless(
        held?.label === previous.version.name,
        `slot ${slot} boots, and holds ${held?.label} instead of ${previous.version.name}`,
      );
    });
  },
];

/** Returns the violations of invariants that hold at any moment, after any interruption. */
export function violationsNow(rig: Rig): readonly string[] {
  return complaints(always, rig);
}

/** Returns the violations of invariants that hold when no work is left. */
export function violationsAtRest(rig: Rig): readonly string[] {
  return complaints(atRest, rig);
}

/** A file that cannot be read is a complaint, too. */
function complaints(rules: readonly Rule[], rig: Rig): readonly string[] {
  return rules.flatMap((rule) => {
    try {
      return rule(rig);
    } catch (error) {
      return [`cannot be looked at: ${String(error)}`];
    }
  });
}

function unless(isSo: boolean, otherwise: string): readonly string[] {
  return isSo ? [] : [otherwise];
}
