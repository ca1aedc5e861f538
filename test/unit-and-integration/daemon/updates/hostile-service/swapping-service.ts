import { AgentError, describeError } from '../../../../../src/system/errors.ts';
import type { Outcome } from '../../../../../src/update/outcome.ts';
import type { FirmwareTransfer, Version } from '../../../../../src/update/ports.ts';
import type { OpenFirmware } from '../../../../../src/update/ports/incoming.ts';
import { Updater } from '../../../../../src/update/updater.ts';
import type { UpdaterDeps } from '../../../../../src/update/updater.ts';
import { Gateway } from '../../../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../../../fakes/machine/memory/memory-service.ts';
import { LIST, digestOfPlain, plainFirmware, plainFirmwareOpener } from '../../../update/plain-firmware.ts';

const none = new AbortController().signal;
export const byHand = { reboot: true, force: false, manual: true };
const bySchedule = { ...byHand, manual: false };

/**
 * The content of an offer: `NAME|IMAGE` is a release with this signed name, `LIST|NUMBER` a trust list, and `FORGED`
 * has no valid signature.
 */
interface Offer {
  readonly name: string;
  readonly content: string;
}

/** A gateway, and a service that may change what is behind a version ID at any time. */
export class SwappingService {
  readonly offers = new Map<string, Offer>([['1', { name: '1.0', content: '1.0|first image' }]]);
  /** The IDs in the service's list of updates. */
  list: string[] = [];
  target = '1';
  follow: UpdaterDeps['settings']['follow'] = { kind: 'target' };
  /** The IDs whose firmware was requested. */
  readonly opened: string[] = [];
  /** The IDs whose transfers are interrupted, and garbled, after the header. */
  readonly cut = new Set<string>();
  readonly garbled = new Set<string>();
  /** No transfer begins. */
  isSilent = false;
  listNumber: number | undefined;
  isUnreachable = false;
  readonly gateway: Gateway;
  #opened = '1';

  constructor() {
    const service = new MemoryService(new Map([['1', plainFirmware('')]]), '1');
    service.currentVersion = async () => this.#version(service.current);
    service.recordedVersion = async () => this.#version(service.current);
    service.targetVersion = async () => this.#version(this.target);
    service.updates = async () => this.list.map((id) => this.#version(id));
    service.firmware = (id) => ({ form: 'json-string', open: async (from) => this.#transfer(id, from?.offset ?? 0) });
    const complaint = (content: string): string | undefined => (content.includes('bad') ? 'not well' : undefined);
    const reaches = (): boolean => !this.isUnreachable;
    const slots = { A: '1.0|first image', B: '' };
    this.gateway = new Gateway({ service, openFirmware: this.#open, slots, complaint, reaches });
    this.gateway.start();
  }

  offer(id: string, content: string, name = content.split('|')[0] ?? ''): void {
    this.offers.set(id, { name, content });
  }

  /** Returns how an update cycle ends, as one line. */
  async once(flags = bySchedule): Promise<string> {
    try {
      const updater = await this.updater();
      return this.#ended(await updater.updateNow(flags, () => {}, none));
    } catch (error) {
      if (error instanceof AgentError) return `${error.code}: ${describeError(error)}`;
      throw error;
    }
  }

  async cycles(count: number): Promise<string[]> {
    const ends: string[] = [];
    for (let cycle = 0; cycle < count; cycle += 1) ends.push(await this.once());
    return ends;
  }

  async rollBack(): Promise<string> {
    return this.#ended(await (await this.updater()).rollback(byHand, () => {}, none));
  }

  async installFile(content: string): Promise<void> {
    this.offer('file', content);
    const source = this.gateway.service.firmware('file');
    const updater = await this.updater();
    this.#ended(await updater.installFile(source, 'file', byHand, { onEvent: () => {}, signal: none }));
    await this.cycles(1);
  }

  async state(): Promise<Updater['journal']['state']> {
    return (await this.updater()).journal.state;
  }

  async updater(): Promise<Updater> {
    const ports = await this.gateway.ports();
    return new Updater({
      ports: {
        ...ports,
        openFirmware: this.#open,
        clock: { ...ports.clock, nowMs: () => 0 },
        listInEffect: async () => this.listNumber,
        machine: { ...ports.machine, reboot: async () => {} },
      },
      service: this.gateway.service,
      settings: {
        follow: this.follow,
        policy: { attempts: 3, window: undefined },
        outcomeProperty: undefined,
      },
      minuteOfDay: () => 0,
      hooks: undefined,
    });
  }

  #ended(outcome: Outcome | { readonly kind: string }): string {
    if (outcome.kind === 'rebooting') this.gateway.start();
    return [outcome.kind, 'code' in outcome && outcome.code, 'version' in outcome && outcome.version]
      .filter(Boolean)
      .join(' ');
  }

  #contentOf(id: string): string {
    return this.offers.get(id)?.content ?? '';
  }

  #version(id: string): Version {
    return { id, name: this.offers.get(id)?.name ?? id };
  }

  #transfer(id: string, startOffset: number): FirmwareTransfer {
    if (this.isSilent)
      throw new AgentError({ code: 'service-silent', message: 'silent', remedy: 'retry', exit: 'unreachable' });
    this.#opened = id;
    this.opened.push(id);
    const content = this.#contentOf(id);
    const word = content.startsWith('FORGED') ? 'forged: ' : 'trusted:';
    const bytes = content.startsWith('LIST') ? plainFirmware('', LIST) : plainFirmware(content, word);
    const [isCut, isGarbled] = [this.cut.has(id), this.garbled.has(id)];
    async function* chunks(): AsyncGenerator<Uint8Array> {
      for (let offset = startOffset; offset < bytes.byteLength; offset += 16) {
        if (isGarbled && offset - startOffset >= 32)
          throw new AgentError({
            code: 'text-illegal-character',
            message: 'garbled',
            remedy: 'give-up',
            exit: 'protocol',
          });
        if (isCut && offset - startOffset >= 16)
          throw new AgentError({ code: 'service-silent', message: 'cut', remedy: 'retry', exit: 'unreachable' });
        yield bytes.subarray(offset, offset + 16);
      }
    }
    const validator = `"${digestOfPlain(content)}"`;
    return {
      startOffset,
      totalBytes: bytes.byteLength,
      validator,
      chunks: chunks(),
      [Symbol.asyncDispose]: async () => {},
    };
  }

  readonly #open: OpenFirmware = async (request, signal) => {
    const applyList = (): void => {
      this.listNumber = Number(this.#contentOf(this.#opened).split('|')[1]);
    };
    const incoming = await plainFirmwareOpener(applyList)(request, signal);
    const content = this.#contentOf(this.#opened);
    const isList = incoming.header.kind === 'trust-list';
    const name = content.replace('LIST|', 'trust-').split('|')[0];
    const header = { ...incoming.header, digest: digestOfPlain(content), name, ...(!isList && { provides: {} }) };
    return {
      header,
      payloads: incoming.payloads,
      [Symbol.asyncDispose]: async () => incoming[Symbol.asyncDispose](),
    };
  };
}
