import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { Killing, PowerCut } from './deaths.ts';
import type { Death } from './deaths.ts';

/** Limit for the sender's lives: an unacknowledged number is pushed again by the next one, as another point. */
export const maxLives = 1_000;

const worker = join(import.meta.dirname, 'replay-worker.ts');

/** A service that fails one request in five, half of those after it has taken the points. */
export class FailingService implements AsyncDisposable {
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('error', () => {}); // the client was killed
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      this.#requests += 1;
      const fails = this.#requests % 5 === 0;
      const takes = !fails || this.#requests % 10 === 0;
      if (takes) this.#take(request.url ?? '', JSON.parse(Buffer.concat(chunks).toString('utf8')) as Datapoint[]);
      if (fails && takes) request.socket.destroy();
      else response.writeHead(fails ? 503 : 204).end();
    });
  });
  readonly received: Uint8Array;
  #requests = 0;
  duplicates = 0;
  /** Points that came again with another time. */
  changed = 0;
  readonly #times = new Map<number, number>();

  constructor(points: number) {
    this.received = new Uint8Array(points);
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  missing(acknowledged: number): number {
    return this.received.subarray(0, acknowledged).reduce((sum, count) => sum + (count === 0 ? 1 : 0), 0);
  }

  #take(url: string, datapoints: readonly Datapoint[]): void {
    for (const { value, at } of datapoints) {
      const time = Date.parse(at);
      const number = Math.floor(value / maxLives);
      if (url !== `/event-${number % 3}`) throw new Error(`${number} came to ${url}`);
      if (this.received[number] !== 0) this.duplicates += 1;
      if ((this.#times.get(value) ?? time) !== time) this.changed += 1;
      this.received[number] = 1;
      this.#times.set(value, time);
    }
  }
}

interface Datapoint {
  readonly value: number;
  readonly at: string;
}

export interface Replayed {
  readonly acknowledged: number;
  readonly deaths: number;
  readonly missing: number;
  readonly duplicates: number;
  readonly changed: number;
}

/** Limit for a life: shorter than any machine needs for all points. */
const LONGEST_LIFE_MS = 600;
const FASTEST_POINTS_PER_MS = 200;

/** Numbers through the queue of a process that dies at random, to a service that fails one request in five. */
export async function replay(points: number, death: Death, random: () => number): Promise<Replayed> {
  await using service = new FailingService(points);
  const url = await service.listen();
  const longestLifeMs = Math.min(LONGEST_LIFE_MS, points / FASTEST_POINTS_PER_MS);
  let acknowledged = 0;
  let deaths = 0;
  for (let isDone = false; !isDone;) {
    const args = [worker, death.queuePath, url, String(acknowledged), String(points), '500', String(deaths)];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    let timer: NodeJS.Timeout | undefined;
    let struck: Promise<void> | undefined;
    const strike = (): void => {
      struck = death.strike(child);
    };
    for await (const line of createInterface(child.stdout)) {
      timer ??= acknowledged < points ? setTimeout(strike, random() * longestLifeMs) : undefined;
      if (line.startsWith('done')) isDone = true;
      else acknowledged = Math.max(acknowledged, Number(line));
    }
    clearTimeout(timer);
    await exited;
    await struck;
    if (child.signalCode === 'SIGKILL') deaths += 1;
    else if (child.exitCode !== 0) throw new Error(`the worker ended with ${child.exitCode}`);
  }
  const { duplicates, changed } = service;
  return { acknowledged, deaths, missing: service.missing(acknowledged), duplicates, changed };
}

const help = `Numbers through the queue of a process that dies at random, to a service that fails one request in five.

usage: node test/unit-and-integration/telemetry/replay.ts [--power-cuts] [POINTS]

  POINTS         1000000 if not given
  --power-cuts   instead of kill -9: what had not reached the medium is gone (wants root, for a loop device)
`;

async function main(): Promise<void> {
  const options = {
    'power-cuts': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (values.help) return console.log(help);
  const directory = mkdtempSync(join(tmpdir(), 'replay-'));
  try {
    using death = values['power-cuts'] ? new PowerCut(directory) : new Killing(directory);
    const beganMs = performance.now();
    const replayed = await replay(Number(positionals[0] ?? 1_000_000), death, Math.random);
    console.log({ ...replayed, seconds: Math.round((performance.now() - beganMs) / 1_000) });
    if (replayed.missing + replayed.changed > 0) process.exitCode = 1;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

if (import.meta.main) await main();
