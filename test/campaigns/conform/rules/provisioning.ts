import { randomUUID } from 'node:crypto';

import type { Version } from '../../../../src/service/contract.ts';
import { operations } from '../../../../src/service/operations.ts';
import { readActivation, readVersion, readVersions } from '../../../../src/service/replies.ts';
import { fail, need } from '../verdict.ts';
import type { Rule, Run, Thing } from '../verdict.ts';
import { expectConsent, expectUnknown, readReply } from './replies.ts';
import { expectNoPendingSwitch, switchAndBack } from './switch-to.ts';

async function activate(run: Run): Promise<Thing> {
  const { probe, serialNumber } = run;
  const reply = await probe.call(operations.activate, { serialNumber });
  const activation = readReply(reply, (value, operation) => {
    const thing = readActivation(value, operation);
    probe.exchanges.hide(thing.apiKey);
    run.thing = thing;
    return thing;
  });
  return activation;
}

/** Activates again. Throws a failure if the thing is not the same, or the key is. */
async function activateAgain(run: Run): Promise<void> {
  const first = need(run.thing, 'activation');
  const second = await activate(run);
  if (second.thingId !== first.thingId) fail(`the thing ID was ${first.thingId} and is now ${second.thingId}`);
  if (second.apiKey === first.apiKey) fail('the API key is the same');
  run.oldKeys.push(first.apiKey);
}

/** Reads a version, and keeps it even if the reply deserves a warning. */
async function readVersionOf(
  run: Run,
  operation: typeof operations.currentVersion | typeof operations.targetVersion,
  keep: (version: Version) => void,
): Promise<void> {
  const { thingId, apiKey } = need(run.thing, 'activation');
  const reply = await run.probe.call(operation, { thingId }, { key: apiKey });
  readReply(reply, (value, name) => keep(readVersion(value, name)));
}

async function switchTo(run: Run, versionId: string): Promise<Awaited<ReturnType<Run['probe']['call']>>> {
  const { thingId, apiKey } = need(run.thing, 'activation');
  return run.probe.call(operations.switchTo, { thingId, versionId }, { key: apiKey });
}

export const provisioningRules: readonly Rule[] = [
  {
    id: 'activation',
    title: 'activate returns the thing ID and an API key',
    source: 'interface',
    check: async (run) => {
      await activate(run);
    },
  },
  {
    id: 'activation-repeated',
    title: 'a repeated activation returns the same thing and a new API key',
    source: 'interface',
    check: activateAgain,
  },
  {
    id: 'current',
    title: 'the current version is an object with id, name and perhaps description',
    source: 'interface',
    check: async (run) => readVersionOf(run, operations.currentVersion, (version) => (run.current = version)),
  },
  {
    id: 'target',
    title: 'the target version is an object with id, name and perhaps description',
    source: 'interface',
    check: async (run) => readVersionOf(run, operations.targetVersion, (version) => (run.target = version)),
  },
  {
    id: 'target-pending',
    title: 'the test thing has no pending switch: the run confirms its current version',
    source: 'agent',
    check: async (run) => expectNoPendingSwitch(need(run.current, 'current'), need(run.target, 'target')),
  },
  {
    id: 'updates',
    title: 'the updates from the current version are an array of versions',
    source: 'interface',
    check: async (run) => {
      const { thingId, apiKey } = need(run.thing, 'activation');
      const versionId = need(run.current, 'current').id;
      readReply(await run.probe.call(operations.updates, { thingId, versionId }, { key: apiKey }), readVersions);
    },
  },
  {
    id: 'switch',
    title: 'a switch to the current version confirms it',
    source: 'interface',
    check: async (run) => expectConsent(await switchTo(run, need(run.current, 'current').id)),
  },
  {
    id: 'switch-repeated',
    title: 'the same switch may be repeated: the agent repeats it until it has a reply',
    source: 'agent',
    check: async (run) => {
      const versionId = need(run.current, 'current').id;
      await switchTo(run, versionId);
      expectConsent(await switchTo(run, versionId));
    },
  },
  {
    id: 'switch-kept',
    title: 'after a switch, the current version is the given one',
    source: 'interface',
    check: async (run) => {
      const { id } = need(run.current, 'current');
      await readVersionOf(run, operations.currentVersion, (version) => {
        if (version.id !== id) fail(`the switch named ${id}, and the current version is ${version.id}`);
      });
    },
  },
];

export const switchToRule: Rule = {
  id: 'switch-to',
  title: 'a switch to another version changes the current version; an activation does not',
  source: 'interface',
  check: async (run) => {
    const before = { current: need(run.current, 'current'), target: need(run.target, 'target') };
    const read = async (operation: typeof operations.currentVersion | typeof operations.targetVersion) => {
      let id = '';
      await readVersionOf(run, operation, (version) => (id = version.id));
      return id;
    };
    await switchAndBack(run.switchToId, before, {
      switchTo: async (id, hint) => expectConsent(await switchTo(run, id), hint),
      activate: async () => activateAgain(run),
      current: async () => read(operations.currentVersion),
      target: async () => read(operations.targetVersion),
    });
  },
};

export const unknownIdRules: readonly Rule[] = [
  {
    id: 'unknown-thing',
    title: 'an unknown thing ID is refused with 404',
    source: 'agent',
    check: async (run) => {
      const { apiKey } = need(run.thing, 'activation');
      const thingId = `conform-${randomUUID()}`;
      const reply = await run.probe.call(operations.currentVersion, { thingId }, { key: apiKey });
      expectUnknown(reply, 'and activates again, at most once in six hours');
    },
  },
  {
    id: 'unknown-version',
    title: 'the firmware of an unknown version is refused with 404',
    source: 'agent',
    check: async (run) => {
      const { thingId, apiKey } = need(run.thing, 'activation');
      const input = { thingId, versionId: `conform-${randomUUID()}` };
      const reply = await run.probe.call(operations.firmware, input, { key: apiKey });
      expectUnknown(reply, 'and activates again');
    },
  },
  {
    id: 'unknown-version-switch',
    title: 'a switch to an unknown version is refused with 404',
    source: 'agent',
    check: async (run) => {
      const { id } = need(run.current, 'current');
      const reply = await switchTo(run, `conform-${randomUUID()}`);
      if (reply.status < 300) await switchTo(run, id);
      expectUnknown(reply, 'and activates again');
    },
  },
];
