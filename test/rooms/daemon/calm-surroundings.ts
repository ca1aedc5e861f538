import type { Surroundings } from '../../../src/daemon/status-report.ts';

const nothing = { sentBytes: 0, receivedBytes: 0 };

/** Of a daemon that has not looked yet, and of which nothing is to be told. */
export const calmSurroundings: Surroundings = {
  agentVersion: '0.1.0',
  daemon: true,
  serialNumber: 'GW-1',
  thingId: 'thing-1',
  boards: [],
  booted: 'A',
  boot: undefined,
  lastLook: undefined,
  listNumber: undefined,
  nowMs: 0,
  quarantineMs: 30 * 86_400_000,
  activity: undefined,
  throttle: undefined,
  traffic: { lastHour: nothing, lastDay: nothing, sinceStart: nothing },
  attempts: [],
  rebootWait: undefined,
  hookPause: undefined,
  obstacle: undefined,
  canUpdate: true,
  distrust: [],
  looks: undefined,
  warnings: [],
  telemetry: undefined,
  service: { url: 'https://things.example.com', lastError: undefined, lastContactAt: undefined },
};
