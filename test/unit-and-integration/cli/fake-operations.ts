import type { BoardReport } from '../../../src/control/api/board-report.ts';
import type { OnEvent, OperationOutcome } from '../../../src/control/events.ts';
import type { AgentOperations, OutputOf } from '../../../src/control/operations.ts';
import type { CheckReport, StatusReport } from '../../../src/control/reports.ts';
import type { TelemetryStatus } from '../../../src/control/telemetry-protocol.ts';
import type { OpenedFile } from '../../../src/system/files/opened-file.ts';

export const calmStatus: StatusReport = {
  running: { version: 'gateway-1.4.2', slot: 'A', isOnTrial: false, isFactory: false },
  agentVersion: '0.1.0',
  daemon: true,
  serialNumber: 'GW-0001',
  thingId: 'thing-1',
  installed: {
    versionId: 'v-142',
    versionName: 'gateway-1.4.2',
    digest: `sha256:${'0123456789abcdef'.repeat(4)}`,
    slot: 'A',
    signedBy: `sha256:0a1b2c3d4e5f${'0'.repeat(52)}`,
    keyName: 'release.pem',
    at: '2026-02-26T10:00:00.000Z',
  },
  previous: {
    versionId: 'v-141',
    versionName: 'gateway-1.4.1',
    digest: `sha256:${'fedcba9876543210'.repeat(4)}`,
    slot: 'B',
    signedBy: `sha256:0a1b2c3d4e5f${'0'.repeat(52)}`,
    keyName: 'release.pem',
    at: '2026-01-10T10:00:00.000Z',
  },
  phase: 'idle',
  slots: { A: 'next to boot', B: 'bootable' },
  slotStates: {
    A: { bootable: true, bootsNext: true, version: 'gateway-1.4.2' },
    B: { bootable: true, bootsNext: false, version: 'gateway-1.4.1' },
  },
  booted: 'A',
  lastOutcome: {
    attempt: 'attempt-7',
    version: 'gateway-1.4.2',
    outcome: 'installed',
    code: 'ok',
    reason: '',
    at: '2026-02-26T10:04:00.000Z',
  },
  quarantine: [],
  idleReason: 'gateway-1.4.2 is installed, as assigned by the service',
  idleCode: 'up-to-date',
  nextCheckAt: '2026-03-01T12:15:00.000Z',
  pendingSwitch: undefined,
  pendingReports: 0,
  droppedReports: 0,
  boards: [],
  warnings: [],
  telemetry: undefined,
  service: {
    url: 'https://things.example.com',
    lastError: undefined,
    lastContactAt: '2026-03-01T11:58:00.000Z',
  },
};

export const calmTelemetry: TelemetryStatus = {
  spool: {
    pointsInMemory: 3,
    pointsOnDisk: 1_200,
    bytesOnDisk: 48_000,
    fileBytes: 65_536,
    oldestAgeMs: 720_000,
    properties: 1,
    dropped: { 'too-old': 0, 'queue-full': 7, 'memory-full': 0, refused: 1, damaged: 0 },
    deadLetters: 1,
    flashBytesPerDay: 4_194_304,
    bootsWithEstimatedTime: 0,
    error: undefined,
  },
  delivery: {
    delivered: 90,
    requests: 4,
    failedRequests: 1,
    resent: 30,
    suspendedEvents: ['level'],
    error: 'the service is unavailable for now',
  },
  clock: 'set',
  sources: [
    {
      name: 'sensors[0] (temperature)',
      state: 'parsing',
      readings: 12,
      failures: 0,
      dropped: 0,
      droppedFor: {},
      lastDrop: undefined,
      lastError: undefined,
      failingForMs: undefined,
    },
    {
      name: 'sensors[1] (level)',
      state: undefined,
      readings: 0,
      failures: 3,
      dropped: 0,
      droppedFor: {},
      lastDrop: undefined,
      lastError: '/dev/ttyUSB0: is unplugged',
      failingForMs: 130_000,
    },
  ],
  watches: [{ id: 'limit', lastError: undefined }],
  deadLetters: [{ event: 'level', at: '2026-02-26T10:00:00.000Z', value: '-1', reason: 'status 422' }],
};

const silentSensor = {
  everyMs: 10_000,
  readings: 0,
  failures: 0,
  state: undefined,
  dropped: 0,
  droppedFor: {},
  lastReading: undefined,
  lastReadingAgeMs: undefined,
  perMinute: undefined,
  unit: undefined,
  lastDrop: undefined,
  lastError: undefined,
  lastErrorCode: undefined,
  failingForMs: undefined,
  notice: undefined,
} as const;

/** A working source, a failing one, and a push source. */
export const calmSensors: OutputOf<'sensors'> = {
  isLive: true,
  sensors: [
    {
      ...silentSensor,
      name: 'sensors[0] (temperature)',
      kind: 'hwmon',
      mode: 'polled',
      place: 'cpu_thermal temp1',
      outputs: [{ kind: 'event', id: 'temperature', pointer: '', scale: 1, offset: 0, value: '48.312', unit: '°C' }],
      readings: 12,
      lastReading: '48.312',
      lastReadingAgeMs: 5_000,
      perMinute: 6,
      unit: '°C',
    },
    {
      ...silentSensor,
      name: 'sensors[1] (level)',
      kind: 'modbus-rtu',
      mode: 'polled',
      place: '/dev/ttyUSB0 unit 7 holding 3',
      outputs: [
        { kind: 'event', id: 'level', pointer: '/l', scale: 0.1, offset: -5, value: undefined, unit: undefined },
        { kind: 'property', id: 'level', pointer: '', scale: 1, offset: 0, value: undefined, unit: undefined },
      ],
      failures: 3,
      dropped: 2,
      droppedFor: { malformed: 2 },
      lastDrop: 'it is nested too deep',
      lastError: '/dev/ttyUSB0: is unplugged',
      lastErrorCode: 'source-failed',
      failingForMs: 130_000,
    },
    {
      ...silentSensor,
      name: 'sensors[2]',
      kind: 'mqtt',
      mode: 'pushed',
      place: 'mqtt://127.0.0.1 plant/#',
      everyMs: undefined,
      outputs: [{ kind: 'event', id: 'plant', pointer: '', scale: 1, offset: 0, value: undefined, unit: undefined }],
    },
  ],
};

const board: BoardReport = {
  name: 'meter',
  port: '/dev/serial/by-id/usb-meter',
  protocol: 'stk500v1',
  connected: false,
  chip: 'ATmega328P',
  imageDigest: `sha256:${'b'.repeat(64)}`,
  imageName: 'meter-2.hex',
  flashedAt: '2026-02-26T10:03:00.000Z',
  known: 'read-back',
  attempts: 2,
  roundTripMs: 1.25,
};

/** Everything that a page can show, together. */
export const troubledStatus: StatusReport = {
  ...calmStatus,
  lastOutcome: {
    attempt: 'attempt-8',
    version: 'gateway-1.5.0',
    outcome: 'rolled-back',
    code: 'health-failed',
    reason: 'app.service did not become active within 5 min',
    at: '2026-03-01T09:30:00.000Z',
  },
  quarantine: [
    {
      version: 'gateway-1.5.0',
      digest: `sha256:${'a'.repeat(64)}`,
      versionId: 'v-150',
      code: 'unhealthy',
      reason: 'app.service did not become active within 5 min',
      at: '2026-03-01T09:30:00.000Z',
      until: '2026-03-31T09:30:00.000Z',
    },
  ],
  idleReason: 'gateway-1.5.0 is deferred: it is blocked (app.service did not become active within 5 min)',
  idleCode: 'quarantined',
  pendingSwitch: 'v-142',
  pendingReports: 2,
  droppedReports: 0,
  boards: [board],
  warnings: ['unsigned firmware may be installed: [trust] allow_unsigned = true'],
  service: {
    url: 'https://things.example.com',
    lastError: 'cannot reach https://things.example.com: connection refused',
    lastContactAt: '2026-03-01T09:31:00.000Z',
  },
};

export const installCheck: CheckReport = {
  installed: calmStatus.installed,
  offered: { id: 'v-150', name: 'gateway-1.5.0', description: 'New radio firmware.' },
  plan: 'install',
  reason: 'the service names another version than the installed one',
};

/** A file that needs no disk. It is sent in pieces of this size. */
export function fakeFile(content: Uint8Array | string = 'firmware', pieceBytes = 65_536): OpenedFile {
  const bytes = Buffer.from(content);
  const file = {
    isRead: false,
    sizeBytes: bytes.byteLength,
    read: async function* (): AsyncGenerator<Uint8Array> {
      for (let at = 0; at < bytes.byteLength; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
      file.isRead = true;
    },
    [Symbol.asyncDispose]: async () => {},
  };
  return file;
}

/** Replies for a test; every other operation succeeds. All calls are recorded with their input. */
export type FakeAgent = AgentOperations & { readonly calls: readonly (readonly [string, object])[] };

const upToDate: OperationOutcome = { kind: 'up-to-date', version: 'gateway-1.4.2' };

const peaceful: AgentOperations = {
  status: async () => calmStatus,
  check: async () => installCheck,
  update: async () => upToDate,
  install: async () => upToDate,
  activate: async () => ({ serialNumber: 'GW-0001', thingId: 'thing-1' }),
  commit: async () => ({ kind: 'installed', version: 'gateway-1.5.0' }),
  rollback: async () => ({ kind: 'rolled-back', version: 'gateway-1.5.0', reason: 'a person asked for it' }),
  cancel: async () => ({ kind: 'cancelled', version: 'gateway-1.5.0' }),
  reboot: async () => ({}),
  unblock: async ({ version }) => ({ versions: [version] }),
  property: async () => ({ value: 21.5 }),
  setProperty: async () => ({}),
  sendDatapoint: async () => ({}),
  sendDatapoints: async () => ({}),
  sensors: async () => calmSensors,
  trySensor: async () => ({ reading: '48.3', unit: '°C', outputs: [] }),
  queue: async () => calmTelemetry,
  syncQueue: async () => ({ onDisk: true }),
  boards: async () => ({ boards: [board] }),
  probeBoard: async ({ board: name }) => ({
    name,
    chip: 'ATmega328P',
    capabilities: ['read', 'write'],
    roundTripMs: undefined,
  }),
  planBoard: async ({ board: name }) => ({ name, chip: 'ATmega328P', unitsTotal: 256, unitsDifferent: 3 }),
  resetBoard: async () => ({}),
  flash: async ({ board: name }) => ({ kind: 'flashed', version: 'meter-2.hex', board: name }),
  restore: async ({ board: name }) => ({ kind: 'flashed', version: 'what it held before', board: name }),
  hold: async ({ reason }) => ({ since: '2026-03-01T12:00:00.000Z', until: '2026-03-01T16:00:00.000Z', reason }),
  resume: async () => ({ wasHeld: true }),
  history: async () => ({ attempts: [], discarded: 0 }),
  inspect: async ({ path: file }) => ({ file, kind: 'image', signature: 'none', payloads: [], obstacles: [] }),
  securityLog: async () => ({ events: [], discarded: 0 }),
  doctor: async () => ({ findings: [{ name: 'clock', ok: true, detail: 'it is set' }] }),
};

export function fakeAgent(wanted: Partial<AgentOperations> = {}): FakeAgent {
  const calls: [string, object][] = [];
  const noting = Object.entries<(...input: unknown[]) => Promise<unknown>>({ ...peaceful, ...wanted } as never).map(
    ([name, call]) => [
      name,
      (input: object, ...more: unknown[]) => {
        const { file: _, ...said }: object & { readonly file?: unknown } = input;
        calls.push([name, said]);
        return call(input, ...more);
      },
    ],
  );
  return { ...(Object.fromEntries(noting) as AgentOperations), calls };
}

/** An operation controlled by a test: it reports progress and ends on request. */
export class ConductedOperation {
  readonly #ending = Promise.withResolvers<OperationOutcome>();
  readonly #begun = Promise.withResolvers<OnEvent>();
  begunTimes = 0;
  /** The reason, if its signal was aborted. */
  aborted: unknown;

  readonly run = async (onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> => {
    this.begunTimes += 1;
    signal.addEventListener('abort', () => {
      this.aborted = signal.reason;
      this.#ending.reject(signal.reason);
    });
    this.#begun.resolve(onEvent);
    return this.#ending.promise;
  };

  /** Resolves when it runs, with the callback for its progress. */
  get begun(): Promise<OnEvent> {
    return this.#begun.promise;
  }

  end(outcome: OperationOutcome): void {
    this.#ending.resolve(outcome);
  }

  fail(error: unknown): void {
    this.#ending.reject(error);
  }
}
