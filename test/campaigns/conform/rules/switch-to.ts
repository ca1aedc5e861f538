import type { Version } from '../../../../src/service/contract.ts';
import { fail, warn } from '../verdict.ts';

/** The calls of one form. Each throws a Finding if the reply is wrong. */
export interface SwitchCalls {
  /** The hint follows the reason of a refusal. */
  readonly switchTo: (versionId: string, hint?: string) => Promise<void>;
  readonly activate: () => Promise<void>;
  /** Returns the ID of the current version. */
  readonly current: () => Promise<string>;
  /** Returns the ID of the target version. */
  readonly target: () => Promise<string>;
}

interface Versions {
  readonly current: Version;
  readonly target: Version;
}

/** Warns if a switch is pending, because the run may cancel it. */
export async function expectNoPendingSwitch({ id }: Version, target: Version): Promise<void> {
  if (target.id !== id) {
    warn(
      `a switch from ${id} to ${target.id} is pending, and the run confirms ${id}: the service may drop the pending ` +
        `switch. Use a test thing without one, or test it with --switch-to ${target.id}`,
    );
  }
  return Promise.resolve();
}

/** Switches to a version, activates again, and switches back; checks the current and target version after each step. */
export async function switchAndBack(id: string | undefined, before: Versions, calls: SwitchCalls): Promise<void> {
  if (id === undefined) warn('not tested: name another version with --switch-to. The run switches to it and back');
  const { current, target } = before;
  if (id === current.id) warn(`not tested: ${id}, the version of --switch-to, is already the current version`);
  const pending = target.id === current.id ? undefined : target.id;
  const expectVersion = async (expected: string, when: string): Promise<void> => {
    const now = await calls.current();
    if (now !== expected) fail(`the current version is ${now} ${when}; expected ${expected}`);
    const next = await calls.target();
    if (next === expected || (next === pending && pending !== id)) return;
    const why = `the target version is ${next} ${when}; without a pending switch, it is the current version`;
    if (next === pending) warn(`${why}. Gateways that go back to ${expected} install ${next} again`);
    fail(`${why}, ${expected}`);
  };
  try {
    await calls.switchTo(id, `. Version ${id} comes from --switch-to: name a version to which the thing can switch`);
    await expectVersion(id, `after a switch to ${id}`);
    await calls.activate();
    await expectVersion(id, `after a switch to ${id} and another activation`);
  } finally {
    await calls.switchTo(current.id);
  }
  await expectVersion(current.id, `after a switch to ${id} and back`);
}
