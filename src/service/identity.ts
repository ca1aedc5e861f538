import { join } from 'node:path';

import * as z from 'zod';

import { mapError } from '../system/errors.ts';
import { nodeFs, StorageError, readTextFile, replaceFileDurably } from '../system/files/durable-file.ts';
import type { DurableFs } from '../system/files/durable-file.ts';
import { parsedJson } from '../system/json-value.ts';
import type { Log } from '../system/log/log.ts';
import { ServiceError } from './errors.ts';
import { activationShape } from './replies.ts';

/** The identity of this gateway at the service: its serial number, and the result of activation. */
export interface Identity {
  readonly serialNumber: string;
  readonly thingId: string;
  readonly apiKey: string;
  /** ISO 8601, by the gateway's clock. It is only shown. */
  readonly activatedAt: string;
}

export interface IdentityStore {
  /** Returns the identity, or undefined if none is usable, so that the gateway activates. */
  load(): Promise<Identity | undefined>;
  save(identity: Identity): Promise<void>;
}

const identitySchema = z.object({
  serialNumber: z.string(),
  ...activationShape,
  activatedAt: z.string(),
});

/**
 * Invariant 7: keeps the identity in `identity.json` in the state directory, mode 0600. A malformed file is renamed;
 * activation then yields a new identity. If the file belongs to another serial number, nothing is delivered until the
 * identity is set aside (`identity-foreign`), together with its data.
 */
export class FileIdentityStore implements IdentityStore {
  readonly #path: string;
  readonly #serialNumber: string;
  readonly #log: Log;
  readonly #fs: DurableFs;

  constructor(stateDirectory: string, serialNumber: string, log: Log, fs: DurableFs = nodeFs) {
    this.#path = join(stateDirectory, 'identity.json');
    this.#serialNumber = serialNumber;
    this.#log = log;
    this.#fs = fs;
  }

  async load(): Promise<Identity | undefined> {
    const text = await readTextFile(this.#path, this.#fs);
    if (text === undefined) return undefined;
    const identity = parse(text);
    if (identity === undefined) return this.#setAside('damaged');
    if (identity.serialNumber === this.#serialNumber) return identity;
    const why = `${this.#path} belongs to serial number ${identity.serialNumber}, and this is ${this.#serialNumber}`;
    throw new ServiceError({ code: 'identity-foreign', why });
  }

  /** Returns the serial number of the identity that is kept if it is not this gateway's. */
  async foreignOwner(): Promise<string | undefined> {
    const identity = parse((await readTextFile(this.#path, this.#fs)) ?? '');
    return identity?.serialNumber === this.#serialNumber ? undefined : identity?.serialNumber;
  }

  /** Renames the identity of another serial number, after its data was set aside. */
  async setAsideForeign(): Promise<void> {
    await this.#setAside('other-serial-number');
  }

  async save(identity: Identity): Promise<void> {
    await replaceFileDurably(this.#path, `${JSON.stringify(identity, undefined, 2)}\n`, this.#fs, 0o600);
  }

  /** Renames an unusable file. Each reason has one name, so that such files do not pile up. */
  async #setAside(reason: 'damaged' | 'other-serial-number'): Promise<undefined> {
    const aside = `${this.#path}.${reason}`;
    const moving = this.#fs.rename(this.#path, aside);
    await mapError(moving, (error) => new StorageError('set aside', this.#path, error));
    this.#log.warn({ path: this.#path, aside, reason }, 'the identity file is set aside; the gateway activates again');
    return undefined;
  }
}

function parse(text: string): Identity | undefined {
  return identitySchema.safeParse(parsedJson(text)).data;
}
