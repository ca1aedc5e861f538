import { mapError, systemErrorCode, undefinedIf } from '../system/errors.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import { alignDown, alignmentBytes, alignUp } from './blocks/block-pool.ts';
import type { DeviceFile, OpenDevice } from './device-file.ts';
import { SlotError, slotError } from './errors.ts';

/** Longer than the kernel itself tries before it reports an error (SCSI: five times 30 s). */
const operationDeadlineMs = 300_000;

/** The number of bytes that may wait in the page cache if it cannot be bypassed. */
const unsyncedBytes = 32 * 1024 * 1024;

/**
 * Ends a deadline that is no longer needed. It is shared, since an error for each read would cost more than the read.
 */
const inTime = new Error('answered in time');

export interface MediumPlace {
  /** The name of the slot in messages: `slot B (/dev/…)`. */
  readonly where: string;
  readonly path: string;
  readonly isBlockDevice: boolean;
}

export interface MediumDeps {
  readonly openDevice: OpenDevice;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly log: Log;
}

/**
 * The bytes of one slot. Positions and buffers are page-aligned; lengths need not be. The page cache is bypassed
 * (O_DIRECT), except for the bytes behind the last whole page. A medium that refuses O_DIRECT is flushed every 32 MiB,
 * and reads may then come from the cache.
 */
export class SlotMedium implements AsyncDisposable {
  readonly #place: MediumPlace;
  readonly #deps: MediumDeps;
  readonly #buffered: DeviceFile;
  readonly #opened: readonly DeviceFile[];
  readonly #pending = new Set<Promise<unknown>>();
  #direct: DeviceFile | undefined;
  #unsynced = 0;
  #closed = false;

  private constructor(place: MediumPlace, deps: MediumDeps, buffered: DeviceFile, direct: DeviceFile | undefined) {
    this.#place = place;
    this.#deps = deps;
    this.#buffered = buffered;
    this.#direct = direct;
    this.#opened = direct === undefined ? [buffered] : [buffered, direct];
    if (direct === undefined) this.#logBuffered();
  }

  static async open(place: MediumPlace, access: 'read' | 'write', deps: MediumDeps): Promise<SlotMedium> {
    const write = access === 'write';
    try {
      const exclusive = write && place.isBlockDevice;
      const buffered = await deps.openDevice(place.path, { write, direct: false, exclusive });
      try {
        return new SlotMedium(place, deps, buffered, await openDirect(place.path, write, deps));
      } catch (error) {
        await buffered.close();
        throw error;
      }
    } catch (error) {
      throw slotError(place.where, 'open it', error);
    }
  }

  /** Fills the first `length` bytes of `into`, and perhaps some behind them. */
  async read(into: Uint8Array, length: number, position: number): Promise<void> {
    for (let done = 0; done < length;) {
      const part = into.subarray(done, alignUp(length));
      const count = await this.#transfer('read', part, position + done);
      if (count === 0) throw new SlotError('slot-io-error', this.#place.where, `ends at byte ${position + done}`);
      done += count;
    }
  }

  async write(from: Uint8Array, position: number): Promise<void> {
    const pages = alignDown(from.byteLength);
    for (let done = 0; done < from.byteLength;) {
      const part = done < pages ? from.subarray(done, pages) : from.subarray(done);
      const count = await this.#transfer('write', part, position + done);
      if (count === 0) throw new SlotError('slot-io-error', this.#place.where, `takes no byte at ${position + done}`);
      done += count;
      await this.#countUnsynced(count);
    }
  }

  /** Returns when everything written is on the medium. */
  async sync(): Promise<void> {
    await this.#guarded('flush it', async () => this.#buffered.sync());
  }

  /** Waits for pending accesses, starts no more, and closes. A medium that is not responding is abandoned. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await Promise.allSettled(this.#pending);
    await Promise.allSettled(this.#opened.map(async (file) => this.#withDeadline('close it', file.close())));
  }

  async #transfer(action: 'read' | 'write', part: Uint8Array, position: number): Promise<number> {
    const name = `${action} at byte ${position}`;
    const direct = part.byteLength % alignmentBytes === 0 ? this.#direct : undefined;
    if (direct !== undefined) {
      const count = await this.#guarded(name, async () =>
        undefinedIf(isRefusalOfDirect, direct[action](part, position)),
      );
      if (count !== undefined) return count;
      if (this.#direct !== undefined) this.#logBuffered();
      this.#direct = undefined;
    }
    return this.#guarded(name, async () => this.#buffered[action](part, position));
  }

  async #countUnsynced(count: number): Promise<void> {
    if (this.#direct !== undefined) return;
    this.#unsynced += count;
    if (this.#unsynced < unsyncedBytes) return;
    this.#unsynced = 0;
    await this.#guarded('flush it', async () => this.#buffered.datasync());
  }

  async #guarded<T>(action: string, operation: () => Promise<T>): Promise<T> {
    if (this.#closed) throw new SlotError('slot-io-error', this.#place.where, 'closed while it was being used');
    const running = this.#withDeadline(action, operation());
    this.#pending.add(running);
    const done = running.finally(() => this.#pending.delete(running));
    return mapError(done, (error) => slotError(this.#place.where, action, error));
  }

  async #withDeadline<T>(action: string, operation: Promise<T>): Promise<T> {
    const timer = new AbortController();
    const expired = this.#deps.clock.sleep(operationDeadlineMs, timer.signal).then(() => {
      const seconds = operationDeadlineMs / 1000;
      throw new SlotError('slot-stalled', this.#place.where, `cannot ${action}: no answer within ${seconds} s`);
    });
    try {
      return await Promise.race([operation, expired]);
    } finally {
      timer.abort(inTime);
    }
  }

  #logBuffered(): void {
    this.#deps.log.info({ slot: this.#place.where }, 'the page cache cannot be bypassed here');
  }
}

async function openDirect(path: string, write: boolean, deps: MediumDeps): Promise<DeviceFile | undefined> {
  return undefinedIf(isRefusalOfDirect, deps.openDevice(path, { write, direct: true, exclusive: false }));
}

/** True if a file system refuses O_DIRECT or its alignment, which it does with EINVAL (open(2)). */
function isRefusalOfDirect(error: unknown): boolean {
  return ['EINVAL', 'EOPNOTSUPP'].includes(systemErrorCode(error) ?? '');
}
