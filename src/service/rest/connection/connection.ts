import type { Socket } from 'node:net';

import { Dialing } from '../../../system/dialing.ts';
import { guarded, hostOf, openTls } from '../../../system/socket.ts';
import type { Clock } from '../../../system/time/clock.ts';
import { Deadline } from '../../../system/time/deadline.ts';
import { readTlsFiles } from '../../../system/tls-files.ts';
import type { TlsMaterial } from '../../../system/tls-files.ts';
import type { TransportDeps } from '../../contract.ts';
import { ServiceError } from '../../errors.ts';
import { connectReceiving } from '../receiving/receiving-socket.ts';
import type { RestSettings } from '../settings.ts';
import { chooseProxy } from './proxy.ts';
import { translateTransportError } from './transport-errors.ts';
import type { Peer } from './transport-errors.ts';
import { openTunnel } from './tunnel.ts';

/**
 * Opens sockets to the service, directly or through a proxy. For http, the requests to the proxy contain whole
 * addresses (RFC 9112, section 3.2.2); for https, the proxy provides a tunnel (RFC 9110, section 9.3.6).
 */
export class Connector {
  readonly #service: URL;
  readonly #proxy: URL | undefined;
  readonly #settings: Pick<RestSettings, 'tls' | 'deadlines'>;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #traffic: TransportDeps['traffic'];
  /** A TLS session that shortens the next handshake. The service has only one origin, so one session is enough. */
  #session: Buffer | undefined;

  constructor(service: URL, settings: RestSettings, { clock, traffic }: Pick<TransportDeps, 'clock' | 'traffic'>) {
    this.#service = service;
    this.#proxy = chooseProxy(service, settings.proxy);
    this.#settings = settings;
    this.#clock = clock;
    this.#traffic = traffic;
  }

  /** The proxy that needs whole addresses in the requests, if any. */
  get forwardingProxy(): URL | undefined {
    return this.#service.protocol === 'http:' ? this.#proxy : undefined;
  }

  /** The peer that is named if something fails on an open connection. */
  get servicePeer(): Peer {
    return { kind: 'service', name: authorityOf(this.#service) };
  }

  /** Opens a socket for HTTP/1.1. Throws ServiceErrors without an operation, or the signal's reason. */
  async open(signal: AbortSignal): Promise<Socket> {
    const target = this.#proxy ?? this.#service;
    const first = this.#proxy === undefined ? this.servicePeer : proxyPeer(this.#proxy);
    const dialing = this.#dialing(target);
    using deadline = new Deadline(this.#settings.deadlines.connectMs, () => silent(first, dialing), signal);
    let peer = first;
    let socket: Socket | undefined;
    try {
      const files = await readTlsFiles(this.#settings.tls, deadline.signal);
      socket = guarded(await dialing.open(deadline.signal));
      if (this.#proxy !== undefined) socket = await this.#passProxy(socket, this.#proxy, files, deadline.signal);
      peer = this.servicePeer;
      return this.#service.protocol === 'https:' ? await this.#openTls(socket, files, deadline.signal) : socket;
    } catch (error) {
      socket?.destroy();
      deadline.signal.throwIfAborted();
      throw translateTransportError(error, peer, this.#clock);
    }
  }

  #dialing(target: URL): Dialing {
    const isForUndici = this.#service.protocol === 'http:' && target.protocol === 'http:';
    return new Dialing(
      { host: hostOf(target), port: Number(portOf(target)) },
      {
        ...(isForUndici ? { open: connectReceiving } : {}),
        onSocket: (socket) => this.#traffic?.watch(socket),
      },
    );
  }

  /** Opens TLS to an https proxy, and a tunnel to an https service. */
  async #passProxy(socket: Socket, proxy: URL, { ca }: TlsMaterial, signal: AbortSignal): Promise<Socket> {
    const inner =
      proxy.protocol === 'https:' ? await openTls(socket, proxy, ca === undefined ? {} : { ca }, signal) : socket;
    if (this.#service.protocol === 'https:') await openTunnel(inner, authorityOf(this.#service), proxy, signal);
    return inner;
  }

  async #openTls(socket: Socket, files: TlsMaterial, signal: AbortSignal): Promise<Socket> {
    const session = this.#session === undefined ? {} : { session: this.#session };
    const onSession = (renewed: Buffer): void => {
      this.#session = renewed;
    };
    return openTls(socket, this.#service, { ...files, ...session, onSession, ALPNProtocols: ['http/1.1'] }, signal);
  }
}

function silent(peer: Peer, { answers }: Dialing): ServiceError {
  const code = peer.kind === 'proxy' ? 'proxy-unreachable' : 'connect-timeout';
  return new ServiceError({ code, why: `${peer.name} did not let us connect within the deadline${answers}` });
}

function proxyPeer(proxy: URL): Peer {
  return { kind: 'proxy', name: `the proxy ${authorityOf(proxy)}` };
}

function portOf(url: URL): string {
  if (url.port !== '') return url.port;
  return url.protocol === 'https:' ? '443' : '80';
}

function authorityOf(url: URL): string {
  return `${url.hostname}:${portOf(url)}`;
}
