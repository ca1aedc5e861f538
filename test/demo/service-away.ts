import { setTimeout as delay } from 'node:timers/promises';

import type { FileGateway } from '../fakes/machine/file-gateway.ts';
import type { StandIn } from '../fakes/service/stand-in.ts';
import { narrator } from './narrator.ts';

const lookMs = 250;
const manyPoints = 12;

export interface Stage {
  readonly service: StandIn;
  readonly gateway: FileGateway;
  /** Types a command. */
  readonly technician: (...args: readonly string[]) => Promise<void>;
}

interface Temperature {
  readonly value: number;
  readonly at: string;
}

/** Received datapoints, in their order of arrival. */
export function temperatures({ world }: StandIn): readonly Temperature[] {
  return (world.things[0]?.datapoints.get('temperature') ?? []) as unknown as readonly Temperature[];
}

/** A live sensor, the service going away, and the backlog arriving when it comes back. */
export async function serviceAway({ service, gateway, technician }: Stage, signal: AbortSignal): Promise<void> {
  const liveBefore = temperatures(service).length;
  while (temperatures(service).length === liveBefore) await delay(lookMs, undefined, { signal });
  narrator.tell(`${temperatures(service).length} temperatures have arrived, the last one ${described(service)}.`);

  service.fail({ operation: 'any', fault: { kind: 'reset' }, times: Number.MAX_SAFE_INTEGER });
  narrator.tell('── the service stops ── the sensor continues, and its datapoints wait');
  const arrived = temperatures(service).length;
  while ((await pointsWaiting(gateway)) < manyPoints) await delay(lookMs, undefined, { signal });
  await technician('queue', 'status');
  const waiting = await pointsWaiting(gateway);

  service.clearFaults();
  narrator.tell('── the service is back ──');
  while (temperatures(service).length < arrived + waiting) await delay(lookMs, undefined, { signal });
  const late = temperatures(service)
    .slice(arrived)
    .map(({ at }) => at)
    .sort();
  narrator.tell(
    `${late.length} more have arrived, each with the time at which it was measured: ` +
      `from ${clockTime(late[0])} to ${clockTime(late.at(-1))}, and none is missing.`,
  );
}

function described(service: StandIn): string {
  const { value = NaN, at = '' } = temperatures(service).at(-1) ?? {};
  return `${value.toFixed(1)} °C at ${clockTime(at)}`;
}

async function pointsWaiting(gateway: FileGateway): Promise<number> {
  const { spool } = (await gateway.json('queue', 'status')) as {
    readonly spool: { readonly pointsInMemory: number; readonly pointsOnDisk: number };
  };
  return spool.pointsInMemory + spool.pointsOnDisk;
}

/** `12:34:56.789` of an ISO 8601 time. */
function clockTime(at = ''): string {
  return at.slice('2026-01-01T'.length, -1);
}
