import { randomUUID } from 'node:crypto';

import { changedContent } from './firmware-content.ts';
import type { FirmwareContent } from './firmware-content.ts';
import { FirmwareText, plainStyle } from './firmware-text.ts';
import type { ReadableText, TextStyle } from './firmware-text.ts';

export interface VersionSetup {
  readonly id: string;
  readonly name?: string;
  readonly description?: string | null;
  readonly firmware?: FirmwareContent;
  readonly style?: Partial<TextStyle>;
  /** The whole text, instead of `firmware` and `style`. */
  readonly text?: ReadableText;
}

export interface VersionRecord {
  readonly id: string;
  readonly name: string;
  readonly description?: string | null;
}

export interface Thing {
  readonly thingId: string;
  readonly serialNumber: string;
  apiKey: string;
  activations: number;
  currentVersionId: string | undefined;
  readonly properties: Map<string, unknown>;
  readonly datapoints: Map<string, { readonly value: unknown; readonly at: string }[]>;
}

interface StoredVersion {
  readonly record: VersionRecord;
  readonly style: TextStyle;
  content: FirmwareContent | undefined;
  text: ReadableText | undefined;
  generation: number;
}

/** The service refuses, with the status that it answers. */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The service's state and behavior by interface.md, without network. */
export class World {
  readonly things: Thing[] = [];
  /** Position of each among the things. It needs no clearing with them. */
  readonly #places = new Map<string, number>();
  readonly #versions = new Map<string, StoredVersion>();
  readonly #updates = new Map<string, readonly string[]>();
  /** The current version of a new thing. */
  currentVersionId: string | undefined;
  /** The target of all things. Default: no change. */
  targetVersionId: string | undefined;

  addVersion(setup: VersionSetup): void {
    const { id, name = id, description, firmware, style, text } = setup;
    const record = { id, name, ...(description === undefined ? {} : { description }) };
    this.#versions.set(id, { record, style: { ...plainStyle, ...style }, content: firmware, text, generation: 1 });
    this.currentVersionId ??= id;
  }

  /** The versions to which a thing can switch from one. */
  setUpdates(fromVersionId: string, toVersionIds: readonly string[]): void {
    this.#updates.set(fromVersionId, toVersionIds);
  }

  /** A thing that was activated before. */
  know(thing: Thing): void {
    this.#places.set(thing.serialNumber, this.things.length);
    this.things.push(thing);
  }

  /** States, rules 5 and 6: the thing is made, or stays and gets a new key. */
  activate(serialNumber: string): Thing {
    let thing = this.things[this.#places.get(serialNumber) ?? -1];
    if (thing?.serialNumber !== serialNumber) {
      thing = {
        thingId: `thing-${this.things.length + 1}`,
        serialNumber,
        apiKey: '',
        activations: 0,
        currentVersionId: this.currentVersionId,
        properties: new Map(),
        datapoints: new Map(),
      };
      this.know(thing);
    }
    thing.apiKey = `key-${randomUUID()}`;
    thing.activations += 1;
    return thing;
  }

  /** The service is restored from a backup that was made before any thing was activated. */
  forget(): void {
    this.things.length = 0;
  }

  thing(thingId: string): Thing {
    const thing = this.things[Number(/^thing-(\d+)$/.exec(thingId)?.[1]) - 1];
    if (thing?.thingId !== thingId) throw new Refused(404, 'no such thing');
    return thing;
  }

  currentVersion(thing: Thing): VersionRecord {
    return this.#version(thing.currentVersionId).record;
  }

  /** Rule 2: without a pending switch, the current version. */
  targetVersion(thing: Thing): VersionRecord {
    return this.#version(this.targetVersionId ?? thing.currentVersionId).record;
  }

  updates(fromVersionId: string): readonly VersionRecord[] {
    this.#version(fromVersionId);
    return (this.#updates.get(fromVersionId) ?? []).map((id) => this.#version(id).record);
  }

  /** Rule 3: sets the version, or confirms it. */
  switchTo(thing: Thing, versionId: string): void {
    thing.currentVersionId = this.#version(versionId).record.id;
  }

  firmware(versionId: string): { readonly text: ReadableText; readonly tag: string } {
    const version = this.#version(versionId);
    if (version.content !== undefined) version.text ??= new FirmwareText(version.content, version.style);
    if (version.text === undefined) throw new Refused(404, 'this version has no firmware');
    return { text: version.text, tag: `${versionId}-${version.generation}` };
  }

  /** From now on one byte is another one. */
  changeFirmware(versionId: string, at: number, keepEtag: boolean): void {
    const version = this.#version(versionId);
    if (version.content === undefined) return;
    version.content = changedContent(version.content, at);
    version.text = undefined;
    if (!keepEtag) version.generation += 1;
  }

  close(): void {
    for (const { content, text } of this.#versions.values()) {
      content?.close?.();
      text?.close?.();
    }
  }

  #version(id: string | undefined): StoredVersion {
    const version = this.#versions.get(id ?? '');
    if (version === undefined) throw new Refused(404, 'no such version');
    return version;
  }
}
