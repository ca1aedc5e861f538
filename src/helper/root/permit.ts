import { rm } from 'node:fs/promises';
import { uptime } from 'node:os';
import { join } from 'node:path';

import * as z from 'zod';

import { systemErrorCode } from '../../system/errors.ts';
import { draftOf, openDraft, ownFs, StorageError } from '../../system/files/durable-file.ts';
import { readGuardedFile } from '../../system/files/guarded-file.ts';
import { OutsideFileError } from '../../system/files/outside-file.ts';
import { parsedJson } from '../../system/json-value.ts';
import type { UpdateState } from '../../update/journal/state.ts';
import type { Machine } from '../../update/ports.ts';

const digest = z.string().max(256);

const permitted = z.discriminatedUnion('kind', [
  /** To install this release, though it is below the floor. */
  z.strictObject({ kind: z.literal('downgrade'), digest }),
  /** To flash this file onto this board, though it is older. */
  z.strictObject({ kind: z.literal('board'), board: digest, digest }),
  /** To go back by force from the one to the other. */
  z.strictObject({ kind: z.literal('rollback'), installed: digest.optional(), previous: digest.optional() }),
]);
/** What a person as root lets the helper do, once. */
export type Permitted = z.infer<typeof permitted>;

const permitFile = z.strictObject({ bootId: z.string().max(256), untilS: z.number(), permitted });

export interface PermitPlace {
  /** The folder of the helper's socket, in which only root may write. */
  readonly folder: string;
  readonly machine: Pick<Machine, 'bootId'>;
  /** Seconds since the start of the system, the same for each process. */
  readonly uptimeS?: () => number;
}

const NAME = 'permit.json';
const MAX_BYTES = 4_096;
/** The folder is not there, or not for this user. */
const notForRoot: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOENT']);
/** More than the agent waits for a helper that has to be started. */
const LASTS_S = 180;

/**
 * Leaves the permit where only root may write, and takes it away when it is disposed. Returns undefined, and leaves
 * none, if this process may not write there: then it does not run for root.
 */
export async function leavePermit(permit: Permitted, place: PermitPlace): Promise<AsyncDisposable | undefined> {
  const { folder, machine, uptimeS = uptime } = place;
  const path = join(folder, NAME);
  const text = JSON.stringify({ bootId: await machine.bootId(), untilS: uptimeS() + LASTS_S, permitted: permit });
  try {
    {
      await using file = await openDraft(path, {});
      await file.writeFile(text);
    }
    await ownFs.rename(draftOf(path), path);
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === undefined || !notForRoot.has(code)) throw new StorageError('write', path, error);
    return undefined;
  }
  return { [Symbol.asyncDispose]: async () => withdraw(path) };
}

/** A command that has become the agent's user since cannot take it away: it ends by itself. */
async function withdraw(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
  }
}

/**
 * Promise `helper`: takes the permit that root has left, which is gone then, whatever it is used for. Undefined: there
 * is none, or it is of another boot, or too old. Throws `writable-by-others` if others than root could have left it.
 */
export async function takePermit(place: PermitPlace): Promise<Permitted | undefined> {
  const { folder, machine, uptimeS = uptime } = place;
  const path = join(folder, NAME);
  const text = await read(path);
  if (text === undefined) return undefined;
  await remove(path);
  const { data } = permitFile.safeParse(parsedJson(text));
  if (data === undefined || data.bootId !== (await machine.bootId())) return undefined;
  const leftS = data.untilS - uptimeS();
  return leftS > 0 && leftS <= LASTS_S ? data.permitted : undefined;
}

/** What a way back by force is permitted for: for this state alone. */
export function permitToGoBack({ installed, previous }: UpdateState): Permitted {
  return {
    kind: 'rollback',
    ...(installed !== undefined && { installed: installed.digest }),
    ...(previous !== undefined && { previous: previous.digest }),
  };
}

async function remove(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    throw new StorageError('remove', path, error);
  }
}

async function read(path: string): Promise<string | undefined> {
  try {
    return (await readGuardedFile(path, { maxBytes: MAX_BYTES })).toString('utf8');
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT' || error instanceof OutsideFileError) return undefined;
    throw error;
  }
}
