import { describe, expect, test } from 'vitest';

import { silentLog } from '../../../../src/system/log/log.ts';
import { UpdateError } from '../../../../src/update/errors.ts';
import { advance } from '../../../../src/update/journal/reducer.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import type { Attempt, UpdateState } from '../../../../src/update/journal/state.ts';
import { deliverOutbox } from '../../../../src/update/outbox.ts';
import { findCandidate } from '../../../../src/update/policy/choose.ts';
import type { Follow } from '../../../../src/update/policy/choose.ts';
import type { ProvisioningService, Version } from '../../../../src/update/ports.ts';
import { blockedIn } from '../version-entries.ts';

const signal = new AbortController().signal;
const at = '2026-11-23T00:00:00Z';

interface Refusal {
  readonly code?: string;
  readonly by?: Attempt['by'];
}

function refusing(
  state: UpdateState,
  id: string,
  { code = 'delta-base-mismatch', by = 'service' }: Refusal = {},
): UpdateState {
  const attempt: Attempt = { id: `attempt at ${id}`, version: { id, name: '3' }, by, startedAt: at };
  const begun = advance(state, { type: 'staging-started', attempt, slot: 'B', at });
  return advance(begun, {
    type: 'failed',
    at,
    failure: { outcome: 'refused', code, reason: 'of no use', curable: true },
  });
}

/** It names one version, and lists some. */
class Service {
  readonly listed: Version[] = [];
  fault: Error | undefined;
  asked: string[] = [];

  get ports(): ProvisioningService {
    const answers: Pick<ProvisioningService, 'currentVersion' | 'targetVersion' | 'updates'> = {
      currentVersion: async () => ({ id: 'current', name: '1' }),
      targetVersion: async () => ({ id: 'delta', name: '3' }),
      updates: async (from) => {
        this.asked.push(from);
        if (this.fault !== undefined) throw this.fault;
        return this.listed;
      },
    };
    return answers as ProvisioningService;
  }
}

async function look(service: Service, state: UpdateState, follow: Follow = { kind: 'target' }): Promise<unknown> {
  return (await findCandidate(follow, { state, wholeImage: 'updates' }, service.ports, signal))?.id;
}

function listing(...ids: readonly string[]): Service {
  const service = new Service();
  service.listed.push({ id: 'older', name: '2' }, ...ids.map((id) => ({ id, name: '3' })));
  return service;
}

describe('after a delta with another base', () => {
  test('another version of its name is looked for, also where there are deltas for others', async () => {
    const service = listing('delta', 'another delta', 'whole');
    expect(await look(service, initialState)).toBe('delta');
    expect(service.asked).toEqual([]);
    const once = refusing(initialState, 'delta');
    expect(await look(service, once)).toBe('another delta');
    expect(await look(service, refusing(once, 'another delta'))).toBe('whole');
    expect(service.asked).toEqual(['current', 'current']);
  });

  test('the same version is offered if the service lists no other, has no list, or the integrator configures it', async () => {
    const state = refusing(initialState, 'delta');
    expect(await look(listing('delta'), state)).toBe('delta');
    const service = listing('whole');
    expect((await findCandidate({ kind: 'target' }, { state }, service.ports, signal))?.id).toBe('delta');
    service.fault = new UpdateError('no-payload', 'no such operation');
    expect(await look(service, state)).toBe('delta');
  });

  test('an unavailable service is contacted again at the next check', async () => {
    const service = listing('whole');
    service.fault = new UpdateError('hook-deferred', 'away');
    await expect(look(service, refusing(initialState, 'delta'))).rejects.toBe(service.fault);
  });

  test('a choice among updates prefers the next one with its name', async () => {
    const service = listing('whole', 'delta');
    const state = refusing({ ...initialState, installed: installed() }, 'delta');
    const follow: Follow = { kind: 'updates', choice: { kind: 'last' } };
    expect(await look(service, { ...initialState, installed: installed() }, follow)).toBe('delta');
    expect(await look(service, state, follow)).toBe('whole');
    expect(new Set(service.asked)).toEqual(new Set(['one']));
  });

  test('only what the service named, and only deltas, are passed over, and no more than a few are remembered', () => {
    expect(refusing(initialState, 'x', { code: 'digest-mismatch' }).unfit).toBeUndefined();
    expect(refusing(initialState, 'x', { by: 'file' }).unfit).toBeUndefined();
    let state: UpdateState = initialState;
    for (let number = 0; number < 20; number += 1) state = refusing(state, `delta ${number}`);
    expect(state.unfit?.versions).toHaveLength(8);
    expect(state.unfit?.versions.at(-1)).toBe('delta 19');
  });

  test('is requested again and again without being blocked, since waiting may help', () => {
    let state: UpdateState = initialState;
    for (let times = 0; times < 10; times += 1) state = refusing(state, 'delta');
    expect(state.versions).toMatchObject([{ failed: 10, gaveUp: 0 }]);
    expect(blockedIn(state)).toEqual([]);
  });
});

describe('the property for versions that are wanted as full images', () => {
  test('is set once, again when that changes, and is empty when something else runs', async () => {
    const told: unknown[] = [];
    let state = refusing(initialState, 'delta');
    const deliver = async (wholeImageProperty: string | undefined): Promise<void> => {
      await deliverOutbox(
        {
          journal: {
            get state() {
              return state;
            },
            append: async (event: Parameters<typeof advance>[1]) => {
              state = advance(state, event);
            },
          } as never,
          service: {
            switchTo: async () => {},
            setProperty: async (id, value) => {
              told.push([id, value]);
            },
          },
          outcomeProperty: undefined,
          wholeImageProperty,
          log: silentLog,
          onProgress: () => {},
        },
        signal,
      );
    };
    await deliver(undefined);
    expect(told).toEqual([]);
    await deliver('whole');
    await deliver('whole');
    expect(told).toEqual([['whole', { versions: ['delta'] }]]);
    state = refusing(state, 'other');
    await deliver('whole');
    expect(told.at(-1)).toEqual(['whole', { versions: ['delta', 'other'] }]);
    const attempt: Attempt = { id: 'a', version: { id: 'w', name: '3' }, by: 'service', startedAt: at };
    state = advance({ ...state, installed: installed() }, { type: 'staging-started', attempt, slot: 'B', at });
    state = advance(state, { type: 'found-installed', at });
    await deliver('whole');
    await deliver('whole');
    expect(told.slice(2)).toEqual([['whole', { versions: [] }]]);
    expect(state.unfit).toBeUndefined();
  });
});

function installed(): NonNullable<UpdateState['installed']> {
  return { digest: 'sha256:1', provides: {}, payloads: [], version: { id: 'one', name: '1' }, slot: 'A', at };
}
