import { glob } from 'node:fs/promises';
import process from 'node:process';

import { readKernelText } from '../../telemetry/sources/kernel/kernel-file.ts';
import type { Warning } from './findings.ts';

/** Source: Linux drivers/md/dm-sysfs.c; systemd and veritysetup name a verified device `CRYPT-VERITY-…`. */
const MAPPED_DEVICES = '/sys/block/dm-*/dm/uuid';

/** Checks that a gateway with verified boot reuses no compiled code. Returns undefined without verified boot. */
export async function examineCompiledCode(
  signal: AbortSignal,
  pattern = MAPPED_DEVICES,
  { CODE_CACHE, NODE_COMPILE_CACHE } = process.env,
): Promise<string | Warning | undefined> {
  const paths = await Array.fromAsync(glob(pattern));
  const names = await Promise.all(paths.map(async (path) => readKernelText(path, signal)));
  if (!names.some((name) => name?.startsWith('CRYPT-VERITY-') === true)) return undefined;
  const cache = CODE_CACHE || NODE_COMPILE_CACHE;
  if (!cache) return 'none is reused, since this gateway has verified boot';
  const detail = `verified boot, but the compiled code in ${cache} is not verified`;
  return { detail, advice: 'run the agent by its own program, /usr/lib/thing-agent/agent' };
}
