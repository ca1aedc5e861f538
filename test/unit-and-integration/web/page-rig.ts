import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { AgentOperations } from '../../../src/control/operations.ts';
import { OperationRunner } from '../../../src/control/server/operation-runner.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import type { PageLimits } from '../../../src/web/page-limits.ts';
import { startPage } from '../../../src/web/page-server.ts';
import { parseListenAddress } from '../../../src/web/settings.ts';
import type { PageSettings } from '../../../src/web/settings.ts';
import { freePort } from '../../fakes/machine/free-port.ts';
import { fakeAgent } from '../cli/fake-operations.ts';
import type { FakeAgent } from '../cli/fake-operations.ts';
import { forever, KeptLog } from '../control/control-rig.ts';
import { PASSWORD } from './page-gateway.ts';

const nothing: PageSettings = {
  place: undefined,
  passwordFile: undefined,
  certificateFile: undefined,
  keyFile: undefined,
  clientCaFile: undefined,
  hosts: [],
  allowOperations: false,
};

export interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

export interface Asked {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer;
  readonly tls?: object;
  readonly socketPath?: string;
  readonly localAddress?: string;
}

/** The page alone, in front of operations that a test wants. */
export class PageRig implements AsyncDisposable {
  readonly directory: string;
  readonly port: number;
  readonly log = new KeptLog();
  readonly refusedLogins: string[] = [];
  readonly stack = new AsyncDisposableStack();
  agent: FakeAgent = fakeAgent();

  private constructor(directory: string, port: number) {
    this.directory = directory;
    this.port = port;
    this.stack.defer(async () => rm(directory, { recursive: true, force: true }));
  }

  static async create(): Promise<PageRig> {
    const directory = await mkdtemp(join(tmpdir(), 'page-'));
    await writeFile(join(directory, 'password'), `${PASSWORD}\n`, { mode: 0o600 });
    return new PageRig(directory, await freePort());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stack.disposeAsync();
  }

  get withPassword(): Partial<PageSettings> {
    return { passwordFile: join(this.directory, 'password'), allowOperations: true };
  }

  answerWith(wanted: Partial<AgentOperations>): void {
    this.agent = fakeAgent(wanted);
  }

  get asked(): readonly string[] {
    return this.agent.calls.map(([name]) => name);
  }

  async serve(
    settings: Partial<PageSettings> = {},
    limits: Partial<PageLimits> = {},
    listen = `127.0.0.1:${this.port}`,
  ): Promise<void> {
    const place = parseListenAddress(listen);
    if (place === undefined) throw new Error(`${listen} is no place`);
    const parts = {
      operations: this.agent,
      runner: new OperationRunner(systemClock, forever),
      settings: { ...nothing, place, ...settings },
      stateDirectory: this.directory,
      log: this.log,
      clock: systemClock,
      localOffset: () => 0,
      onLoginRefused: (why: string) => void this.refusedLogins.push(why),
      supportBundle: async () => ({ name: 'bundle.tar.gz', content: Buffer.from('a bundle') }),
      limits: { closingMs: 200, quickMs: 50, ...limits },
    };
    this.stack.use(await startPage(parts, place));
  }

  async ask(path: string, asked: Asked = {}): Promise<Answer> {
    const { method = 'GET', headers = {}, body, tls, socketPath, localAddress = '127.0.0.1' } = asked;
    const send = tls === undefined ? httpRequest : httpsRequest;
    const where = socketPath === undefined ? { host: '127.0.0.1', port: this.port, localAddress } : { socketPath };
    const request = send({ ...where, path, method, headers: { host: `127.0.0.1:${this.port}`, ...headers }, ...tls });
    request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    const text = (await response.setEncoding('utf8').toArray()).join('');
    return { status: response.statusCode, headers: response.headers, text };
  }

  /** As a browser sends a form of the page. */
  get own(): OutgoingHttpHeaders {
    return {
      host: `127.0.0.1:${this.port}`,
      origin: `http://127.0.0.1:${this.port}`,
      'sec-fetch-site': 'same-origin',
      'content-type': 'application/x-www-form-urlencoded',
    };
  }

  async post(path: string, body: string | Buffer, headers: OutgoingHttpHeaders = {}): Promise<Answer> {
    return this.ask(path, { method: 'POST', headers: { ...this.own, ...headers }, body });
  }

  async login(): Promise<{ readonly cookie: string; readonly token: string }> {
    const { headers } = await this.post('/login', `password=${PASSWORD}`);
    const cookie = headers['set-cookie']?.[0]?.split(';')[0] ?? '';
    const { text } = await this.ask('/', { headers: { cookie } });
    return { cookie, token: /name="token" value="([\w-]+)"/.exec(text)?.[1] ?? '' };
  }
}
