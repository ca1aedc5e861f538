import { AgentError } from '../../../../src/system/errors.ts';
import type { Outcome } from '../../../../src/update/journal/state.ts';
import type { FirmwareSource, FirmwareTransfer, ProvisioningService, Version } from '../../../../src/update/ports.ts';

/** The service as one gateway sees it, in memory. Survives power cuts of the gateway. */
export class MemoryService implements ProvisioningService {
  readonly versions: readonly Version[];
  readonly #firmware: ReadonlyMap<string, Uint8Array>;
  current: string;
  target: string;
  /** Makes that many of the next calls fail. */
  failures = 0;
  /** Interrupts each transfer after this many bytes. */
  cutTransfersAfter: number | undefined;
  readonly switches: string[] = [];
  readonly reports: Outcome[] = [];

  constructor(firmware: ReadonlyMap<string, Uint8Array>, current: string) {
    this.#firmware = firmware;
    this.versions = [...firmware.keys()].map((id) => ({ id, name: id.startsWith('trust-') ? id : `version ${id}` }));
    this.current = current;
    this.target = current;
  }

  async currentVersion(): Promise<Version> {
    return this.#version(this.current);
  }

  async recordedVersion(): Promise<Version> {
    return this.currentVersion();
  }

  async targetVersion(): Promise<Version> {
    return this.#version(this.target);
  }

  async updates(fromVersionId: string): Promise<readonly Version[]> {
    this.#maybeFail();
    return this.versions.filter((version) => version.id !== fromVersionId);
  }

  async switchTo(versionId: string): Promise<void> {
    this.#maybeFail();
    this.switches.push(versionId);
    this.current = versionId;
  }

  async setProperty(_propertyId: string, value: unknown): Promise<void> {
    this.#maybeFail();
    this.reports.push(value as Outcome);
  }

  firmware(versionId: string): FirmwareSource {
    const bytes = this.#firmware.get(contentOf(versionId));
    if (bytes === undefined) throw new Error(`no version ${versionId}`);
    return {
      form: 'json-string',
      open: async (from) => this.#transfer(bytes, from?.offset ?? 0),
    };
  }

  #transfer(bytes: Uint8Array, startOffset: number): FirmwareTransfer {
    this.#maybeFail();
    const cutAfter = this.cutTransfersAfter;
    async function* chunks(): AsyncGenerator<Uint8Array> {
      for (let offset = startOffset; offset < bytes.byteLength; offset += 16) {
        if (cutAfter !== undefined && offset - startOffset >= cutAfter) throw lost('the transfer was cut');
        yield bytes.subarray(offset, offset + 16);
      }
    }
    return {
      startOffset,
      totalBytes: bytes.byteLength,
      validator: `"${bytes.byteLength}"`,
      chunks: chunks(),
      [Symbol.asyncDispose]: async () => {},
    };
  }

  #version(id: string): Version {
    this.#maybeFail();
    if (!this.#firmware.has(contentOf(id))) throw new Error(`no version ${id}`);
    return this.versions.find((known) => known.id === id) ?? { id, name: `version ${id}` };
  }

  #maybeFail(): void {
    if (this.failures === 0) return;
    this.failures -= 1;
    throw lost('no answer');
  }
}

/** A service may give the same content any id: `2#7` is what `2` is. */
function contentOf(id: string): string {
  return id.replace(/#.*/, '');
}

function lost(message: string): AgentError {
  return new AgentError({ code: 'service-silent', message, remedy: 'retry', exit: 'unreachable' });
}
