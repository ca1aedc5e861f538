import type { Socket } from 'node:net';

import { Dialing } from '../../../system/dialing.ts';
import { hostOf, waitForEvent, wrapInTls } from '../../../system/socket.ts';
import type { Clock } from '../../../system/time/clock.ts';
import { Deadline } from '../../../system/time/deadline.ts';
import { readTlsFiles, TlsFilesError } from '../../../system/tls-files.ts';
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
    try {
      return await this.#open(signal);
    } catch (error) {
      throw error instanceof TlsFilesError ? translateTransportError(error, this.servicePeer, this.#clock) : error;
    }
  }

  async #open(signal: AbortSignal): Promise<Socket> {
    const files = await readTlsFiles(this.#settings.tls, signal);
    const first = this.#proxy === undefined ? this.servicePeer : proxyPeer(this.#proxy);
    const dialing = this.#dialing(this.#proxy ?? this.#service);
    using deadline = new Deadline(this.#settings.deadlines.connectMs, () => silent(first, dialing), signal);
    const socket = await this.#dial(dialing, first, deadline.signal);
    const inner =
      this.#proxy === undefined ? socket : await this.#passProxy(socket, this.#proxy, files, deadline.signal);
    return this.#service.protocol === 'https:' ? await this.#secureService(inner, files, deadline.signal) : inner;
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

  async #dial(dialing: Dialing, peer: Peer, signal: AbortSignal): Promise<Socket> {
    try {
      return await dialing.open(signal);
    } catch (error) {
      signal.throwIfAborted();
      throw translateTransportError(error, peer, this.#clock);
    }
  }

  /** Opens TLS to an https proxy, and a tunnel to an https service. */
  async #passProxy(socket: Socket, proxy: URL, files: TlsMaterial, signal: AbortSignal): Promise<Socket> {
    const peer = proxyPeer(proxy);
    const { ca } = files;
    const inner = proxy.protocol === 'https:' ? wrapInTls(socket, proxy, ca === undefined ? {} : { ca }) : socket;
    if (inner !== socket) await this.#established(inner, 'secureConnect', peer, signal);
    if (this.#service.protocol === 'http:') return inner;
    await this.#guarded(inner, openTunnel(inner, authorityOf(this.#service), proxy, signal), peer, signal);
    return inner;
  }

  async #secureService(socket: Socket, files: TlsMaterial, signal: AbortSignal): Promise<Socket> {
    const session = this.#session === undefined ? {} : { session: this.#session };
    const tls = wrapInTls(socket, this.#service, { ...files, ...session, ALPNProtocols: ['http/1.1'] });
    tls.on('session', (renewed: Buffer) => {
      this.#session = renewed;
    });
    await this.#established(tls, 'secureConnect', this.servicePeer, signal);
    return tls;
  }

  async #established(socket: Socket, event: string, peer: Peer, signal: AbortSignal): Promise<void> {
    await this.#guarded(socket, waitForEvent(socket, event, signal), peer, signal);
  }

  /** Runs one step of opening; destroys the socket if it fails. */
  async #guarded(socket: Socket, step: Promise<void>, peer: Peer, signal: AbortSignal): Promise<void> {
    // keeps an alert that arrives between the handshake and the first request: the destroyed socket still has it
    socket.on('error', (error) => socket.destroy(error));
    try {
      await step;
    } catch (error) {
      socket.destroy();
      signal.throwIfAborted();
      throw translateTransportError(error, peer, this.#clock);
    }
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
