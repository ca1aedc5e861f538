import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect } from 'vitest';

import type { Finished, NspawnGateway } from '../../../fakes/machine/booting/nspawn-gateway.ts';
import { GatewayRig } from '../gateway-rig.ts';
import { ReleaseDesk } from '../release-desk.ts';

const NEVER_LOGGED =
  /EACCES|EPERM|EROFS|permission denied|operation not permitted|read-only file system|\]:\s+at |PRIVATE KEY/i;

/** A desk for releases and lists, and one gateway after the other that really boots. */
export class TrustRig implements AsyncDisposable {
  readonly rig: GatewayRig;
  readonly desk: ReleaseDesk;
  readonly #opened: AsyncDisposableStack;
  #gateway: NspawnGateway | undefined;

  private constructor(rig: GatewayRig, desk: ReleaseDesk, opened: AsyncDisposableStack) {
    this.rig = rig;
    this.desk = desk;
    this.#opened = opened;
  }

  static async open(): Promise<TrustRig> {
    await using opened = new AsyncDisposableStack();
    const rig = opened.use(await GatewayRig.open());
    const desk = opened.use(await ReleaseDesk.open(rig));
    return new TrustRig(rig, desk, opened.move());
  }

  async newGateway(): Promise<NspawnGateway> {
    this.#gateway = await this.rig.gateway();
    return this.#gateway;
  }

  get gateway(): NspawnGateway {
    if (this.#gateway === undefined) throw new Error('there is no gateway');
    return this.#gateway;
  }

  async technician(...words: readonly string[]): Promise<Finished> {
    return this.gateway.exec(['agent', ...words]);
  }

  async securityEvents(): Promise<readonly { readonly id: string; readonly detail: string }[]> {
    const { stdout } = await this.technician('log', '--security', '--json');
    return (JSON.parse(stdout) as { events: { id: string; detail: string }[] }).events;
  }

  async keysOfDoctor(): Promise<string> {
    const { stdout } = await this.technician('doctor');
    return /ok +trusted keys +(.*)/.exec(stdout)?.[1] ?? stdout;
  }

  get revokesFirst(): readonly string[] {
    const { desk } = this;
    return ['--keys', desk.file('next.pem'), '--revoke-keys', desk.file('first.pem')];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#gateway?.[Symbol.asyncDispose]();
    await this.#opened.disposeAsync();
  }
}

/** Expects no errors in systemd's journal of all boots, as printed on the console. Ends the gateway. */
export async function expectQuiet({ gateway }: TrustRig): Promise<void> {
  const said = gateway.console.lines.filter((line) => /thing-agent|trial-guard|agent\[\d+\]/.test(line));
  const { apiKey } = JSON.parse(await readFile(join(gateway.state, 'identity.json'), 'utf8')) as { apiKey: string };
  await gateway[Symbol.asyncDispose]();
  expect(said.length).toBeGreaterThan(5);
  expect(said.filter((line) => line.includes(apiKey) || NEVER_LOGGED.test(line))).toEqual([]);
}
