import type { AddressInfo, Socket } from 'node:net';

import { control } from './control.ts';
import { FaultPlan } from './faults.ts';
import type { FaultRule, Operation } from './faults.ts';
import type { Habits } from './rest/answer.ts';
import { createServer } from './rest/server.ts';
import type { RecordedCall, Service, TlsSetup } from './rest/server.ts';
import { World } from './world.ts';
import type { VersionSetup } from './world.ts';

export interface StandInOptions extends Partial<Habits> {
  readonly host?: string;
  /** 0, the default: any free one. */
  readonly port?: number;
  readonly tls?: TlsSetup;
  /** Before every path, like `/api`. */
  readonly basePath?: string;
  readonly versions?: readonly VersionSetup[];
  /** The record of a new thing. Default: the first version. */
  readonly currentVersionId?: string;
  /** The target of all things. Default: none. */
  readonly targetVersionId?: string;
  readonly updates?: Readonly<Record<string, readonly string[]>>;
  /** Called for every call once its status is known. */
  readonly onCall?: (call: RecordedCall) => void;
}

interface RunningServer {
  readonly connections: readonly Socket[];
  readonly close: () => Promise<void>;
}

interface Waiting {
  readonly operation: Operation;
  readonly resolve: (call: RecordedCall) => void;
}

/**
 * A service that implements interface.md, on HTTP, with every fault on demand: for tests, for the demo, and for
 * integrators.
 *
 * ```ts
 * await using service = await startStandIn({ versions: [{ id: '1', firmware: randomContent(2 ** 20) }] });
 * service.fail({ operation: 'firmware', fault: { kind: 'truncate', afterBytes: 500_000 } });
 * ```
 */
export class StandIn implements AsyncDisposable {
  readonly url: string;
  /** The service's state: change it at any time. */
  readonly world: World;
  /** Everything that was called, oldest first. */
  readonly calls: RecordedCall[];
  readonly #faults: FaultPlan;
  readonly #service: { habits: Habits };
  readonly #waiting: Waiting[];
  readonly #server: RunningServer;

  constructor(url: string, service: Service, waiting: Waiting[], server: RunningServer) {
    this.url = url;
    this.world = service.world;
    this.calls = service.calls;
    this.#faults = service.faults;
    this.#service = service;
    this.#waiting = waiting;
    this.#server = server;
  }

  /** Spoils a call to come. */
  fail(rule: FaultRule): void {
    this.#faults.add(rule);
  }

  clearFaults(): void {
    this.#faults.clear();
  }

  /** Changes how the service behaves from now on. */
  behave(habits: Partial<Habits>): void {
    this.#service.habits = { ...this.#service.habits, ...habits };
  }

  /** Resolves as soon as the next such call has arrived. */
  async nextCall(operation: Operation): Promise<RecordedCall> {
    return new Promise((resolve) => {
      this.#waiting.push({ operation, resolve });
    });
  }

  callsOf(operation: Operation): readonly RecordedCall[] {
    return this.calls.filter((call) => call.operation === operation);
  }

  /** All bytes in both directions so far, with the heads of requests and replies. */
  get trafficBytes(): number {
    return this.#server.connections.reduce((sum, socket) => sum + socket.bytesRead + socket.bytesWritten, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close();
  }
}

export async function startStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const { host = '127.0.0.1', port = 0, basePath = '', tls } = options;
  const world = buildWorld(options);
  const faults = new FaultPlan();
  const calls: RecordedCall[] = [];
  const waiting: Waiting[] = [];
  const service: Service & { habits: Habits } = {
    world,
    faults,
    calls,
    basePath,
    habits: {
      keyRequired: options.keyRequired ?? 'values',
      etag: options.etag ?? 'strong',
      ranges: options.ranges ?? true,
      contentLength: options.contentLength ?? true,
      serialNumbers: options.serialNumbers,
    },
    onCall: (call) => {
      options.onCall?.(call);
      for (const [index, { operation, resolve }] of [...waiting.entries()].toReversed()) {
        if (operation !== call.operation) continue;
        waiting.splice(index, 1);
        resolve(call);
      }
    },
    control: (request, body, response) => control({ world, faults, calls }, request, body, response),
  };
  const server = createServer(service, tls);
  const connections: Socket[] = [];
  server.on('connection', (socket: Socket) => connections.push(socket));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const address = server.address() as AddressInfo;
  const url = `${tls === undefined ? 'http' : 'https'}://${host}:${address.port}${basePath}`;
  const close = async (): Promise<void> => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
    world.close();
  };
  return new StandIn(url, service, waiting, { connections, close });
}

function buildWorld(options: StandInOptions): World {
  const world = new World();
  for (const version of options.versions ?? []) world.addVersion(version);
  for (const [from, to] of Object.entries(options.updates ?? {})) world.setUpdates(from, to);
  world.currentVersionId = options.currentVersionId ?? world.currentVersionId;
  world.targetVersionId = options.targetVersionId;
  return world;
}
