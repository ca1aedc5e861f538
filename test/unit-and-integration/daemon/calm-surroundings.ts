import type { StatusInput } from '../../../src/daemon/status/gather-status.ts';

/** Status of a daemon without a check and without problems. */
export const calmSurroundings: StatusInput = {
  asItIs: {
    agentVersion: '0.1.0',
    serialNumber: 'GW-1',
    thingId: 'thing-1',
    boards: [],
    traffic: undefined,
    written: undefined,
    warnings: [],
    telemetry: undefined,
  },
  daemon: true,
  booted: 'A',
  boot: undefined,
  lastLook: undefined,
  listNumber: undefined,
  keyNames: new Map(),
  nowMs: 0,
  quarantineMs: 30 * 86_400_000,
  activity: undefined,
  throttle: undefined,
  attempts: [],
  rebootDeferral: undefined,
  hookPause: undefined,
  obstacle: undefined,
  canUpdate: true,
  distrust: [],
  isConfigUnusable: false,
  checks: undefined,
  service: { url: 'https://things.example.com', lastError: undefined, lastContactAt: undefined },
};
