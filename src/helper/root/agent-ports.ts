import type { Config } from '../../config/config.ts';
import { giveBack } from '../../system/files/give-back.ts';
import type { HookPort } from '../../update/hooks/hooks.ts';
import type { FirmwareSource, FirmwareTransfer, ProvisioningService, WirePosition } from '../../update/ports.ts';
import { longestHealthMs } from '../../update/trial/health-gate.ts';
import type { HealthGate } from '../../update/trial/health-gate.ts';
import { HelperError } from '../errors.ts';
import { outOfTurn } from '../link/message.ts';
import type { TrayReading } from '../link/tray.ts';
import { agentVerbs } from '../verbs.ts';
import type { AskAgent } from './ask-agent.ts';

/** The deadline for an answer that the agent gets from the service, with all its retries. */
const SERVICE_MS = 30 * 60_000;
/** Added to the time that the agent itself waits. */
const GRACE_MS = 2 * 60_000;
const LOCAL_MS = 60_000;

/** The service as the helper reaches it, through the agent. Its answers are trusted no more than those of a service. */
export function remoteService(ask: AskAgent): ProvisioningService {
  const deadlineMs = SERVICE_MS;
  return {
    currentVersion: async (signal) => ask.answer(agentVerbs.currentVersion, {}, { deadlineMs }, signal),
    targetVersion: async (signal) => ask.answer(agentVerbs.targetVersion, {}, { deadlineMs }, signal),
    updates: async (from, signal) => (await ask.answer(agentVerbs.updates, { from }, { deadlineMs }, signal)).versions,
    firmware: (versionId) => remoteFirmware(ask, 'json-string', versionId),
    switchTo: async (versionId, signal) => {
      await ask.answer(agentVerbs.switchTo, { versionId }, { deadlineMs }, signal);
    },
    setProperty: async (propertyId, value, signal) => {
      await ask.answer(agentVerbs.setProperty, { propertyId, value }, { deadlineMs }, signal);
    },
  };
}

/** `versionId` undefined: the file that is to be installed. */
export function remoteFirmware(ask: AskAgent, form: FirmwareSource['form'], versionId?: string): FirmwareSource {
  return {
    form,
    open: async (from, signal) => {
      const input = { versionId, from };
      const opened = await ask.answer(agentVerbs.openFirmware, input, { deadlineMs: SERVICE_MS }, signal);
      requireOffset(opened.startOffset, from);
      return new RemoteTransfer(ask, opened, await ask.tray.open(), signal);
    },
  };
}

function requireOffset(startOffset: number, from: WirePosition | undefined): void {
  if (startOffset === 0 || startOffset === from?.offset) return;
  throw new HelperError('link-malformed', `a transfer begins at ${startOffset}, where nobody asked for it`);
}

interface Opened extends Pick<FirmwareTransfer, 'startOffset'> {
  readonly transfer: number;
  readonly totalBytes?: number | undefined;
  readonly validator?: string | undefined;
}

class RemoteTransfer implements FirmwareTransfer {
  readonly startOffset: number;
  readonly totalBytes: number | undefined;
  readonly validator: string | undefined;
  readonly chunks: AsyncIterable<Uint8Array>;
  readonly #ask: AskAgent;
  readonly #transfer: number;
  readonly #tray: TrayReading | undefined;

  constructor(ask: AskAgent, opened: Opened, tray: TrayReading | undefined, signal: AbortSignal) {
    const { transfer, startOffset, totalBytes, validator } = opened;
    this.#ask = ask;
    this.#tray = tray;
    this.#transfer = transfer;
    this.startOffset = startOffset;
    this.totalBytes = totalBytes;
    this.validator = validator;
    this.chunks = this.#read(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ask.forgetfully(agentVerbs.closeFirmware, { transfer: this.#transfer });
    await this.#tray?.[Symbol.asyncDispose]();
  }

  /** Reads chunks; the next one is requested while one is being processed. */
  async *#read(signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
    const options = { deadlineMs: SERVICE_MS };
    const read = async (): Promise<Iterable<Uint8Array> | undefined> => {
      const place = this.#tray?.nextPlace();
      const input = { transfer: this.#transfer, place };
      const { output, body } = await this.#ask.answerWithBytes(agentVerbs.readFirmware, input, options, signal);
      const { laidBytes } = output;
      if (laidBytes === undefined) return body && inMessage(body);
      if (this.#tray === undefined || place === undefined || body !== undefined) throw outOfTurn('a firmware');
      return this.#tray.read(place, laidBytes);
    };
    let next = read();
    for (;;) {
      const piece = await next;
      if (piece === undefined) return;
      next = read();
      next.catch(() => {}); // it is awaited in its turn, or nobody wants it any more
      yield* piece;
    }
  }
}

function* inMessage(body: Uint8Array): Generator<Uint8Array, void, undefined> {
  yield body;
  giveBack(body);
}

/** Asks the agent whether what runs is good enough, since health is checked without the rights of root. */
export function remoteHealth(ask: AskAgent, { update }: Config): HealthGate {
  const deadlineMs = longestHealthMs(update.health) + GRACE_MS;
  return {
    check: async (signal) => (await ask.answer(agentVerbs.checkHealth, {}, { deadlineMs }, signal)).complaint,
    reachesService: async (signal) => (await ask.answer(agentVerbs.reachesService, {}, { deadlineMs }, signal)).reached,
  };
}

/** Lets the agent run the integrator's programs. Which programs there are, the helper's own configuration says. */
export function remoteHooks(ask: AskAgent, wants: HookPort['wants'], longestMs: number): HookPort {
  const deadlineMs = longestMs + GRACE_MS;
  return {
    ask: async (hook, about, signal) => {
      if (!wants(hook)) return;
      await ask.answer(agentVerbs.askHook, { hook, inTurn: false, about }, { deadlineMs }, signal);
    },
    askInTurn: async (hook, about, signal) => {
      if (!wants(hook)) return;
      await ask.answer(agentVerbs.askHook, { hook, inTurn: true, about }, { deadlineMs }, signal);
    },
    wants,
    tell: async (owed, installed, signal) =>
      wants(owed.hook)
        ? (await ask.answer(agentVerbs.tellHook, { owed, installed }, { deadlineMs }, signal)).trouble
        : undefined,
    pause: undefined,
    trouble: undefined,
  };
}

/** Asks the agent, since that is what must come up again. */
export async function remoteConfigTrouble(ask: AskAgent, signal: AbortSignal): Promise<string | undefined> {
  return (await ask.answer(agentVerbs.configTrouble, {}, { deadlineMs: LOCAL_MS }, signal)).trouble;
}

/** Asks the agent, since the helper sees no network. */
export async function remoteMeteredLink(ask: AskAgent, signal: AbortSignal): Promise<string | undefined> {
  return (await ask.answer(agentVerbs.meteredLink, {}, { deadlineMs: LOCAL_MS }, signal)).link;
}
