import { bootKinds } from '../../fakes/machine/boot-machines.ts';
import type { BootKind } from '../../fakes/machine/boot-machines.ts';
import { deltaStories } from './stories/delta-stories.ts';
import { hostileStories } from './stories/hostile-stories.ts';
import { packageStories } from './stories/package-stories.ts';
import { look, rest, target } from './story.ts';
import type { Deed, Scenario, Story } from './story.ts';

const misnamed = Array<string>(3).fill('trust-9 failed trust-list-mismatch');
const refusedThreeTimes = Array<string>(3).fill('v2 refused key-revoked');
const stories: Readonly<Record<string, Story>> = {
  /** Activation, and the version that the service expects. */
  first: { prologue: [], story: [], wants: 'v1', ends: ['v1 installed'] },
  good: { story: [target('v2')], wants: 'v2', mayRun: ['v1'], ends: ['v2 installed'] },
  bad: { story: [target('bad')], wants: 'v1', ends: ['bad rolled-back unhealthy'] },
  dead: { story: [target('dead')], wants: 'v1', ends: ['dead rolled-back trial-fell-back'] },
  hang: { story: [target('hang')], wants: 'v1', ends: ['hang rolled-back unhealthy'] },
  stuck: { story: [target('stuck')], wants: 'v1', ends: ['stuck rolled-back trial-fell-back'] },
  /** The image has its state directory wrong: what it does there is nothing to anybody else. */
  blind: { story: [target('blind')], wants: 'v1', ends: ['blind rolled-back state-unavailable'] },
  /** The same, and a /var in memory hides that. */
  volatile: { story: [target('volatile')], wants: 'v1', ends: ['volatile rolled-back state-unavailable'] },
  frozen: { story: [target('frozen')], wants: 'v1', ends: ['frozen rolled-back state-unavailable'] },
  stuffed: { story: [target('stuffed')], wants: 'v1', ends: [`stuffed rolled-back disk-full`] },
  flap: { story: [target('flap')], wants: 'flap', mayMiss: ['v1'], ends: ['flap installed'] },
  two: {
    story: [target('v2'), rest, target('v3')],
    wants: 'v3',
    mayRun: ['v1', 'v2'],
    ends: ['v2 installed', 'v3 installed'],
  },
  'bad-then-good': {
    story: [target('bad'), rest, target('v2')],
    wants: 'v2',
    mayRun: ['v1'],
    ends: ['bad rolled-back unhealthy', 'v2 installed'],
  },
  /** The operator changes his mind while it is being installed, and again. */
  overtaken: {
    story: [target('v2'), look, target('v3'), look, target('v2')],
    wants: 'v2',
    mayMiss: ['v1', 'v3'],
    ends: ['v2 installed', 'v3 installed', 'v2 installed'],
  },
  withdrawn: {
    story: [target('v2'), look, target(undefined)],
    wants: 'v2',
    mayMiss: ['v1'],
    ends: ['v2 installed'],
  },
  /** During the wait for a manual reboot. */
  'withdrawn-staged': {
    story: [target('v2'), { do: 'update', reboot: false, force: false }, target('v1')],
    wants: 'v1',
    ends: ['v2 failed withdrawn'],
  },
  revoked: {
    form: 'artifact',
    story: [
      target('v2'),
      { do: 'update', reboot: false, force: false },
      target('trust-1'),
      rest,
      target('v2'),
      rest,
      target('v3'),
    ],
    wants: 'v3',
    mayRun: ['v1', 'v2'],
    ends: [
      'v2 failed withdrawn',
      'trust-1 installed',
      ...Array<string>(3).fill('v2 refused release-revoked'),
      'v3 installed',
    ],
  },
  /** The list comes while the release is on trial. */
  'revoked-on-trial': {
    form: 'artifact',
    story: [
      target('v2'),
      { do: 'update', reboot: false, force: false },
      rest,
      target('trust-1'),
      { do: 'reboot' },
      rest,
      target('v3'),
    ],
    wants: 'v3',
    mayRun: ['v1', 'v2'],
    ends: ['v2 rolled-back no-longer-trusted', 'trust-1 installed', 'v3 installed'],
  },
  /** A list from an operator revokes the key of a scheduled update. */
  'key-revoked': {
    form: 'artifact',
    story: [
      target('v2'),
      { do: 'update', reboot: false, force: false },
      { do: 'install', version: 'trust-2' },
      rest,
      target('v3'),
    ],
    wants: 'v3',
    mayRun: ['v1', 'v2'],
    ends: ['v2 failed overridden', 'trust-2 installed', ...refusedThreeTimes, 'v3 installed'],
  },
  'rollback-revoked': {
    form: 'artifact',
    story: [target('v3'), rest, target('trust-2'), rest, { do: 'rollback' }],
    wants: 'v3',
    mayRun: ['v1'],
    ends: ['v3 installed', 'trust-2 installed'],
  },
  /** An operator cancels it. */
  cancelled: {
    story: [target('v2'), { do: 'update', reboot: false, force: false }, { do: 'cancel' }],
    wants: 'v1',
    mayMiss: ['v2'],
    ends: ['v2 failed cancelled'],
  },
  'rollback-cancelled': {
    story: [target('v2'), rest, { do: 'rollback', reboot: false }, { do: 'cancel' }],
    wants: 'v2',
    mayMiss: ['v1'],
    ends: ['v2 installed'],
  },
  /** It is staged at night and booted in the morning; neither power loss nor an external reboot starts it. */
  window: {
    waitsFor: 'window',
    story: [target('v2'), look, { do: 'foreign-reboot' }],
    wants: 'v2',
    mayRun: ['v1'],
    ends: ['v2 installed'],
  },
  'window-bad': {
    waitsFor: 'window and hooks',
    story: [target('bad'), rest, target('v2'), look, { do: 'reboot' }],
    wants: 'v2',
    mayRun: ['v1'],
    ends: ['bad rolled-back unhealthy', 'v2 installed'],
  },
  /** Another reboot takes the place of the trial's, and again. */
  foreign: {
    story: [
      target('v2'),
      { do: 'update', reboot: false, force: false },
      { do: 'foreign-reboot' },
      look,
      { do: 'foreign-reboot' },
      look,
      { do: 'foreign-reboot' },
    ],
    wants: 'v2',
    mayMiss: ['v1'],
    ends: ['v1 installed', 'v2 installed'],
  },
  /** At some of its starts the state partition is missing for a while: it knows again, afterwards, what it knew. */
  unmounted: {
    story: [
      { do: 'foreign-reboot', withoutState: true },
      target('v2'),
      rest,
      { do: 'foreign-reboot', withoutState: true },
      look,
      { do: 'foreign-reboot' },
      look,
    ],
    wants: 'v2',
    mayRun: ['v1'],
    ends: ['v2 installed'],
  },
  /** The service names two versions by turns: each is installed, later and later. */
  turns: {
    story: [target('v2'), rest, target('v3'), rest, target('v2'), rest, target('v3'), rest, target('v2')],
    wants: 'v2',
    mayMiss: ['v1', 'v3'],
    ends: ['v2 installed', 'v3 installed', 'v2 installed', 'v3 installed', 'v2 installed'],
  },
  /** The list has a release with the name of a trust list, which is skipped. */
  updates: {
    follow: { kind: 'updates', choice: { kind: 'last' } },
    story: [target('v2')],
    wants: 'v2',
    mayRun: ['v1'],
    ends: [...misnamed, 'v2 installed', ...misnamed],
  },
  /** An operator rolls back to the previous version, and the service is notified. */
  rollback: {
    story: [target('v2'), rest, { do: 'rollback' }],
    wants: 'v1',
    mayMiss: ['v2'],
    ends: ['v2 installed', 'v1 installed'],
  },
  'rollback-after-failure': {
    form: 'artifact',
    story: [target('v2'), rest, target('lie'), rest, { do: 'rollback' }],
    wants: 'v2',
    mayMiss: ['v1'],
    ends: ['v2 installed', ...Array<string>(3).fill('lie refused digest-mismatch')],
  },
  /** An operator reboots manually, and rolls back during the trial. */
  manual: {
    story: [target('v2'), { do: 'update', reboot: false, force: false }, rest, { do: 'reboot' }, { do: 'rollback' }],
    wants: 'v1',
    mayMiss: ['v2'],
    ends: ['v2 rolled-back manual'],
  },
  'commit-by-hand': {
    story: [target('v2'), { do: 'update', reboot: false, force: false }, rest, { do: 'reboot' }, { do: 'commit' }],
    wants: 'v2',
    mayMiss: ['v1'],
    ends: ['v2 installed'],
  },
  /** With a program for a board, or that alone, which needs no reboot. */
  both: { form: 'artifact', story: [target('both')], wants: 'both', mayRun: ['v1'], ends: ['both installed'] },
  'both-bad': { form: 'artifact', story: [target('both-bad')], wants: 'v1', ends: ['both-bad rolled-back unhealthy'] },
  'both-commit-by-hand': {
    form: 'artifact',
    story: [target('both'), { do: 'update', reboot: false, force: false }, rest, { do: 'reboot' }, { do: 'commit' }],
    wants: 'both',
    mayMiss: ['v1'],
    ends: ['both installed'],
  },
  'both-rollback': {
    form: 'artifact',
    story: [target('both'), rest, { do: 'rollback' }],
    wants: 'v1',
    mayMiss: ['both'],
    ends: ['both installed', 'v1 installed'],
  },
  'both-by-hand': {
    form: 'artifact',
    story: [target('both'), { do: 'update', reboot: false, force: false }, rest, { do: 'reboot' }, { do: 'rollback' }],
    wants: 'v1',
    mayMiss: ['both'],
    ends: ['both rolled-back manual'],
  },
  'overruled-commit': {
    story: [
      target('v2'),
      { do: 'update', reboot: false, force: false },
      rest,
      { do: 'reboot' },
      { do: 'overrule', by: 'commit' },
    ],
    wants: 'v2',
    mayMiss: ['v1'],
    ends: ['v2 installed'],
  },
  'overruled-rollback': {
    story: [
      target('v2'),
      { do: 'update', reboot: false, force: false },
      rest,
      { do: 'reboot' },
      { do: 'overrule', by: 'rollback' },
    ],
    wants: 'v1',
    mayMiss: ['v2'],
    ends: ['v2 rolled-back manual'],
  },
  'both-fall-back': {
    form: 'artifact',
    story: [target('both'), rest, target(undefined), { do: 'fall-back' }],
    wants: 'v1',
    mayMiss: ['both'],
    ends: ['both installed', 'both rolled-back fell-back'],
    never: ['tryboot', 'handler'],
  },
  'board-rollback': {
    form: 'artifact',
    story: [target('board'), rest, { do: 'rollback' }],
    wants: 'v1',
    ends: ['board installed', 'v1 installed'],
  },
  'board-bad-rollback': {
    form: 'artifact',
    story: [target('board'), rest, target('board-bad'), rest, target('board'), { do: 'rollback' }],
    wants: 'v1',
    ends: ['board installed', 'board-bad rolled-back unhealthy', 'v1 installed'],
  },
  board: { form: 'artifact', story: [target('board')], wants: 'v1', ends: ['board installed'] },
  'board-bad': {
    form: 'artifact',
    story: [target('board-bad')],
    wants: 'v1',
    ends: ['board-bad rolled-back unhealthy'],
  },
  ...deltaStories,
  ...hostileStories,
  ...packageStories,
  /** Two pairs of slots: a release with only a boot partition is combined with the running root. */
  pairs: {
    form: 'pairs',
    story: [target('v2'), rest, target('boot3')],
    wants: 'boot3',
    mayRun: ['v1', 'v2'],
    ends: ['v2 installed', 'boot3 installed'],
  },
  'pairs-refused': {
    form: 'pairs',
    story: [target('lie'), rest, target('boot3')],
    wants: 'boot3',
    mayRun: ['v1'],
    ends: [...Array<string>(3).fill('lie refused digest-mismatch'), 'boot3 installed'],
  },
  'pairs-rollback': {
    form: 'pairs',
    story: [target('v2'), rest, target('boot3'), rest, { do: 'rollback' }],
    wants: 'v2',
    mayMiss: ['boot3', 'v1'],
    mayRun: ['v1'],
    ends: ['v2 installed', 'boot3 installed', 'v2 installed'],
  },
  /** The boot script's defaults name slot B, which is blank. */
  blank: {
    deliveries: { uboot: 'blank' },
    prologue: [],
    story: [rest, target('bad'), rest, target('v2')],
    wants: 'v2',
    mayRun: ['v1'],
    ends: ['v1 installed', 'bad rolled-back unhealthy', 'v2 installed'],
  },
  /** The order has a third name. */
  rescue: {
    deliveries: { uboot: 'uboot-rescue', grub: 'grub-rescue' },
    story: [target('bad'), rest, target('v2'), rest, { do: 'rollback' }],
    wants: 'v1',
    mayMiss: ['v2'],
    ends: ['bad rolled-back unhealthy', 'v2 installed', 'v1 installed'],
  },
  /** The factory image in slot A is known from the first day: it is not transferred, and a rollback leads to it. */
  named: {
    imagesNameThemselves: true,
    prologue: [],
    story: [rest, target('v2'), rest, { do: 'rollback' }],
    wants: 'v1',
    mayMiss: ['v2'],
    ends: ['v2 installed', 'v1 installed'],
  },
  nameless: {
    prologue: [],
    story: [rest, { do: 'rollback' }],
    wants: 'v1',
    ends: ['v1 installed', 'the factory image installed'],
  },
  forced: {
    story: [target('bad'), rest, { do: 'update', reboot: true, force: true }],
    wants: 'v1',
    ends: ['bad rolled-back unhealthy', 'bad rolled-back unhealthy'],
  },
  file: {
    story: [{ do: 'install', version: 'v2' }, rest, target('v2')],
    wants: 'v2',
    mayMiss: ['v1'],
    ends: ['v2 installed'],
  },
  'file-bad': {
    story: [{ do: 'install', version: 'bad' }],
    wants: 'v1',
    ends: ['bad rolled-back unhealthy'],
  },
};

const factory: readonly Deed[] = [rest];

/** Images are cheaper, and have checkpoints. */
const forms = { uboot: 'artifact', grub: 'image', tryboot: 'image', handler: 'image' } as const;

function scenariosOf(boot: BootKind): readonly Scenario[] {
  const defaults = {
    boot,
    prologue: factory,
    form: forms[boot],
    follow: { kind: 'target' },
    imagesNameThemselves: false,
    mayMiss: [],
    mayRun: [],
  } as const;
  const scenarios: Scenario[] = [];
  for (const [name, { never = [], deliveries, ...story }] of Object.entries(stories)) {
    const delivery = deliveries?.[boot];
    if (never.includes(boot) || (deliveries !== undefined && delivery === undefined)) continue;
    scenarios.push({ ...defaults, ...story, delivery, name: `${boot}/${name}` });
  }
  return scenarios;
}

export const scenarios: readonly Scenario[] = bootKinds.flatMap(scenariosOf);

export function scenarioNamed(name: string): Scenario {
  const found = scenarios.find((scenario) => scenario.name === name);
  if (found !== undefined) return found;
  throw new Error(`no scenario ${name}; there are ${scenarios.map((each) => each.name).join(', ')}`);
}
