import fc from 'fast-check';

import { SecurityLog } from '../../../../src/daemon/security/security-log.ts';
import { fromFile, parseKeptListFile, type TrustListFile } from '../../../../src/firmware/trust/trust-list.ts';
import { TrustStore } from '../../../../src/firmware/trust/trust-store.ts';
import { FileIdentityStore } from '../../../../src/service/identity.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { FileJournal } from '../../../../src/update/journal/journal.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import { ForgetfulFs } from '../../../fakes/machine/memory/forgetful-fs.ts';
import { Gateway } from '../../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { Power, seededRandom } from '../../../fakes/machine/power.ts';
import { plainFirmware, openPlainFirmware } from '../../../unit-and-integration/update/plain-firmware.ts';
import { changedJson, hostile, jsonChanges } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { FuzzTarget } from '../target.ts';

/** Steps of the machine until each of them has come to rest. */
const LONGEST_LIFE = 90;
const OLD = 'old image, 20 bytes.';
const identity = {
  serialNumber: 'GW-0001',
  thingId: 'thing-1',
  apiKey: 'key-1',
  activatedAt: '2027-01-01T00:00:00.000Z',
};

const securityLog = {
  events: [
    {
      number: 7,
      id: 'activated',
      at: '2027-01-01T00:00:00.000Z',
      detail: 'as Thing ID thing-1',
      times: 2,
      lastAt: '2027-01-02',
    },
    { number: 8, id: 'force-used', at: '2027-01-01T00:00:00.000Z', detail: 'rollback', times: 1, lastAt: '2027-01-01' },
  ],
  seen: { 'keys-changed': 'sha256:1' },
};

const floors = { floor: { securityVersion: 2, name: '1.5.0' }, boardFloors: { meter: { securityVersion: 7 } } };

function trustListFile(number: number): TrustListFile {
  const revoked = { keys: [`sha256:${'a'.repeat(64)}`], releases: [`sha256:${'b'.repeat(64)}`] };
  return { format: 'thing-trust', version: 1, number, issued: '2027-01-01T00:00:00.000Z', keys: [], revoked };
}

function hostileJson(texts: readonly string[]): fc.Arbitrary<string> {
  const bytes = hostile(fc.constantFrom(...texts).map((text) => Buffer.from(text)));
  return fc.oneof(
    bytes.map((one) => one.toString('utf8')),
    fc
      .tuple(fc.constantFrom(...texts), jsonChanges)
      .map(([text, changes]) => JSON.stringify(changedJson(JSON.parse(text), changes)) ?? ''),
  );
}

/** identity.json: an identity that can be used, or none. */
export const identityFile: FuzzTarget = {
  name: 'identity-file',
  open: async () =>
    openTarget(hostileJson([JSON.stringify(identity)]), async (text) => {
      const fs = new ForgetfulFs(new Power(), seededRandom(1));
      await write(fs, '/state/identity.json', text);
      const store = new FileIdentityStore('/state', identity.serialNumber, silentLog, fs.api);
      const outcome = await outcomeOf(async () => store.load());
      if ('error' in outcome) return;
      const { serialNumber = identity.serialNumber, apiKey = 'x' } = outcome.value ?? {};
      if (serialNumber !== identity.serialNumber) throw new Error('took the identity of another');
      if (/[^\x20-\x7e]/.test(apiKey)) throw new Error('took a key that no header can carry');
      await store.save(identity);
      if ((await store.load())?.thingId !== identity.thingId) throw new Error('cannot be replaced');
    }),
};

/** journal.json with any content: the agent starts, and the gateway comes to rest on an image that it knows. */
export const journalFile: FuzzTarget = {
  name: 'journal-file',
  open: async () => {
    const texts = await journalsOfALife();
    return openTarget(hostileJson(texts), async (text) => {
      const gateway = await gatewayWith(text);
      await outcomeOf(async () => gateway.run());
      gateway.service.target = '2';
      await outcomeOf(async () => gateway.run());
      await gateway.settle(); // what fails for ever needs a visit
    });
  },
};

/** floors.json with any content: no minimum is below the journal's, nor after the next event and start. */
export const floorsFile: FuzzTarget = {
  name: 'floors-file',
  open: async () =>
    openTarget(
      hostileJson([JSON.stringify({ ...floors, boardFloors: { meter: { securityVersion: 9 } } })]),
      async (text) => {
        const fs = new ForgetfulFs(new Power(), seededRandom(1));
        await write(fs, '/state/journal.json', JSON.stringify({ ...initialState, ...floors }));
        await write(fs, '/state/floors.json', text);
        for (let start = 0; start < 2; start += 1) {
          const journal = await FileJournal.open('/state', silentLog, fs.api);
          const { floor, boardFloors } = journal.state;
          if ((floor?.securityVersion ?? 0) < 2 || (boardFloors?.['meter']?.securityVersion ?? 0) < 7)
            throw new Error('a floor has fallen');
          await journal.append({ type: 'check-deferred' });
        }
      },
    ),
};

/** security.json with any content: an event is recorded, and is the last one after a start. */
export const securityFile: FuzzTarget = {
  name: 'security-file',
  open: async () =>
    openTarget(hostileJson([JSON.stringify(securityLog)]), async (text) => {
      const fs = new ForgetfulFs(new Power(), seededRandom(1));
      await write(fs, '/state/security.json', text);
      const clock = { nowMs: () => 0, monotonicMs: () => 0 };
      const started = (): SecurityLog =>
        new SecurityLog({ stateDirectory: '/state', clock, log: silentLog, fs: fs.api });
      const before = (await started().report()).events.at(-1)?.number ?? 0;
      await started().record('force-used', 'by the fuzzer');
      const { events } = await started().report();
      const last = events.at(-1);
      if (last?.detail !== 'by the fuzzer') throw new Error('an event was lost');
      if (last.number <= before && before < Number.MAX_SAFE_INTEGER) throw new Error('numbers do not rise');
    }),
};

/** trust.json alone: a list that parses to the same value after a start, or a damaged file that can be replaced. */
export const trustFile: FuzzTarget = {
  name: 'trust-file',
  open: async () =>
    openTarget(hostileJson([JSON.stringify(trustListFile(1)), JSON.stringify(trustListFile(2))]), async (text) => {
      const fs = new ForgetfulFs(new Power(), seededRandom(1));
      await write(fs, '/state/trust.json', text);
      const store = new TrustStore('/state', fs.api);
      const before = await outcomeOf(async () => store.read());
      const taken = await outcomeOf(async () => store.take(trustListFile(2)));
      const after = await outcomeOf(async () => new TrustStore('/state', fs.api).read());
      if ('error' in after || after.value === undefined) throw new Error('no list can be taken any more');
      if ('error' in taken && 'error' in before) throw new Error('what is damaged cannot be replaced');
      const [known, now] = ['value' in before ? before.value : undefined, after.value];
      if (known !== undefined && now.number < known.number) throw new Error('an older list was taken');
      const forgotten = known?.revoked.keys.filter((key) => !now.revoked.keys.includes(key)) ?? [];
      if (forgotten.length > 0) throw new Error('a revoked key is believed again');
      for (const intact of LIST_FILES) await loseAllBut(intact, text);
    }),
};

const LIST_FILES = ['trust.json', 'trust-copy.json', 'trust-revoked.json'] as const;

/** A list survives the loss of any two of its three files, unless they hold another list. */
async function loseAllBut(intact: (typeof LIST_FILES)[number], text: string): Promise<void> {
  const other = await outcomeOf(async () => fromFile(parseKeptListFile(Buffer.from(text))));
  if ('value' in other) return;
  const fs = new ForgetfulFs(new Power(), seededRandom(1));
  const store = new TrustStore('/state', fs.api);
  await store.take(trustListFile(2));
  for (const name of LIST_FILES) if (name !== intact) await write(fs, `/state/${name}`, text);
  const older = await outcomeOf(async () => store.take(trustListFile(1)));
  if ('value' in older) throw new Error(`an older list was taken, though ${intact} was intact`);
  if ((await store.lastKnown())?.number !== 2) throw new Error(`${intact} was forgotten`);
}

function newGateway(): Gateway {
  const images = { 1: OLD, 2: 'new image, which is longer than the old', bad: 'bad image', dead: 'dead image' };
  const firmware = new Map(Object.entries(images).map(([id, image]) => [id, plainFirmware(image)]));
  const complaint = (content: string): string | undefined => {
    if (content.startsWith('dead')) return 'hang';
    return content.startsWith('bad') ? 'it is bad' : undefined;
  };
  const service = new MemoryService(firmware, '1');
  return new Gateway({ service, openFirmware: openPlainFirmware, slots: { A: OLD, B: '' }, complaint });
}

async function gatewayWith(journal: string): Promise<Gateway> {
  const gateway = newGateway();
  await write(gateway.fs, '/state/journal.json', journal);
  gateway.start();
  return gateway;
}

/** Each journal that good, bad and dead firmware leave behind, wherever the power fails. */
async function journalsOfALife(): Promise<readonly string[]> {
  const texts = new Set<string>();
  for (const target of ['2', 'bad', 'dead']) {
    for (let step = 1; step < LONGEST_LIFE; step += 1) texts.add(await journalAfter(target, step));
  }
  return [...texts];
}

async function journalAfter(target: string, step: number): Promise<string> {
  const gateway = newGateway();
  gateway.start();
  gateway.service.target = target;
  gateway.power.cutAfter(step);
  try {
    await gateway.run();
  } catch (error) {
    if (!gateway.power.isOut) throw error;
  }
  return gateway.fs.read('/state/journal.json') ?? '{}';
}

async function write(fs: ForgetfulFs, path: string, text: string): Promise<void> {
  await using file = await fs.api.open(path, 'w');
  await file.writeFile(text);
  await file.sync();
}
