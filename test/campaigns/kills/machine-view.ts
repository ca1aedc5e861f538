import { createHash } from 'node:crypto';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';

import { updateState } from '../../../src/update/journal/state.ts';
import type { UpdateState } from '../../../src/update/journal/state.ts';
import type { SlotName } from '../../../src/update/ports.ts';
import type { FileGateway } from '../../fakes/machine/file-gateway.ts';

/** An image that a trusted key signed, or that the factory wrote. */
export interface Image {
  readonly label: string;
  readonly bytes: Buffer;
  /** The gateway may keep it. */
  readonly isGood: boolean;
}

export interface Identity {
  readonly thingId: string;
  readonly apiKey: string;
}

/** The machine's content, read without the agent. */
export class MachineView {
  readonly #gateway: FileGateway;
  readonly #imageBytes: number;
  readonly #images = new Map<string, Image>();

  constructor(gateway: FileGateway, imageBytes: number) {
    this.#gateway = gateway;
    this.#imageBytes = imageBytes;
  }

  add(image: Image): void {
    this.#images.set(digestOf(image.bytes), image);
  }

  /** Returns the known image that the slot completely holds, if any. */
  imageIn(slot: SlotName): Image | undefined {
    const descriptor = openSync(this.#gateway.slots[slot], 'r');
    try {
      const bytes = Buffer.alloc(this.#imageBytes);
      readSync(descriptor, bytes, 0, bytes.byteLength, 0);
      return this.#images.get(digestOf(bytes));
    } finally {
      closeSync(descriptor);
    }
  }

  get booted(): SlotName {
    return this.#gateway.booted;
  }

  /** Slots with boots left by the file of test/fakes/machine/boot-handler, or all slots if none has any. */
  get bootable(): readonly SlotName[] {
    const path = join(this.#gateway.directory, 'boot/environment');
    const text = existsSync(path) ? readFileSync(path, 'utf8') : 'ORDER="A B" A_LEFT=3 B_LEFT=0';
    const left = (slot: SlotName): number => Number(new RegExp(`${slot}_LEFT=(-?\\d+)`).exec(text)?.[1]);
    const order = /ORDER="([AB ]+)"/.exec(text)?.[1]?.split(' ') ?? [];
    const listed = (['A', 'B'] as const).filter((slot) => order.includes(slot));
    const withBoots = listed.filter((slot) => left(slot) > 0);
    return withBoots.length > 0 ? withBoots : listed;
  }

  /** Returns the journal, if there is one. Throws for an invalid format. */
  get journal(): UpdateState | undefined {
    const text = this.#stateFile('journal.json');
    return text === undefined ? undefined : updateState.parse(JSON.parse(text));
  }

  /** Bytes of a staged image up to its last checkpoint. */
  get arrivedBytes(): number | undefined {
    const phase = this.journal?.phase;
    return phase?.kind === 'staging' ? phase.checkpoint?.wire.offset : undefined;
  }

  get identity(): Identity | undefined {
    const text = this.#stateFile('identity.json');
    return text === undefined ? undefined : (JSON.parse(text) as Identity);
  }

  /** Names in the state directory. */
  get stateFiles(): readonly string[] {
    const path = join(this.#gateway.directory, 'state');
    return existsSync(path) ? readdirSync(path) : [];
  }

  #stateFile(name: string): string | undefined {
    const path = join(this.#gateway.directory, 'state', name);
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }
}

function digestOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
