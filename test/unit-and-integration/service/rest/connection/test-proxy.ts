import { createServer, request as httpRequest } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { connect } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

export interface ProxyHabits {
  /** `user:password` */
  readonly credentials?: string;
  /** Answered to every CONNECT and every whole address. */
  readonly status?: number;
  readonly silent?: boolean;
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** A small proxy: tunnels, and whole addresses. */
export class TestProxy implements AsyncDisposable {
  readonly url: string;
  /** `CONNECT host:port` or `GET http://…` */
  readonly requests: string[];
  readonly #close: () => Promise<void>;

  constructor(url: string, requests: string[], close: () => Promise<void>) {
    this.url = url;
    this.requests = requests;
    this.#close = close;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }
}

export async function startProxy(habits: ProxyHabits = {}): Promise<TestProxy> {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const server = habits.tls === undefined ? createServer() : createHttpsServer({ ...habits.tls });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  });
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    requests.push(`${request.method} ${request.url}`);
    const refused = refusal(request, habits);
    if (refused === undefined) forward(request, response);
    else response.writeHead(refused).end();
  });
  server.on('connect', (request: IncomingMessage, client: Socket, head: Buffer) => {
    requests.push(`CONNECT ${request.url}`);
    if (habits.silent === true) return;
    const refused = refusal(request, habits);
    if (refused === undefined) tunnel(request, client, head, sockets);
    else client.end(`HTTP/1.1 ${refused} No\r\nContent-Length: 2\r\n\r\nno`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return new TestProxy(`${habits.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`, requests, async () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    for (const socket of sockets) socket.destroy();
    await closed;
  });
}

function refusal(request: IncomingMessage, { credentials, status }: ProxyHabits): number | undefined {
  const expected = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`;
  return request.headers['proxy-authorization'] === expected ? status : 407;
}

function forward(request: IncomingMessage, response: ServerResponse): void {
  const headers = { ...request.headers };
  delete headers['proxy-authorization'];
  const outgoing = httpRequest(request.url ?? '', { method: request.method ?? 'GET', headers }, (reply) => {
    response.writeHead(reply.statusCode ?? 502, reply.headers);
    reply.on('error', () => response.destroy()).pipe(response);
  });
  outgoing.on('error', () => response.destroy());
  request.pipe(outgoing);
}

function tunnel(request: IncomingMessage, client: Socket, head: Buffer, sockets: Set<Socket>): void {
  const [host = '', port = ''] = (request.url ?? '').split(':');
  const upstream = connect(Number(port), host, () => {
    client.write('HTTP/1.1 200 Connection established\r\n\r\n');
    upstream.write(head);
    upstream.pipe(client).pipe(upstream);
  });
  sockets.add(upstream);
  upstream.on('error', () => client.destroy()).on('close', () => client.destroy());
  client.on('error', () => upstream.destroy()).on('close', () => upstream.destroy());
}
