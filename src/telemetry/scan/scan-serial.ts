import { realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { valueOrUndefined } from '../../system/errors.ts';
import { listDirectory, readKernelText } from '../sources/kernel/kernel-file.ts';
import { EventNames, isPlainName, titleOf } from './scan-result.ts';
import type { ScanCandidate, ScanResult } from './scan-result.ts';

const MAX_PORTS = 64;
const BAUD = 115_200;

/** Lists serial ports below `root` without opening any, each by a name that stays with the plug if it has one. */
export async function scanSerial(signal: AbortSignal, root = '/'): Promise<ScanResult> {
  const byId = await linksIn('/dev/serial/by-id', root);
  const byPath = await linksIn('/dev/serial/by-path', root);
  const usb = [...byPath.values()].filter((path) => path.includes('-usb'));
  // adapters without a serial number have one name in by-id, which leads to any of them
  const lasting = new Map([...byPath, ...(byId.size < usb.length ? [] : byId)]);
  const consoles = await consolesOf(root, signal);
  const names = new EventNames();
  const found: ScanCandidate[] = [];
  const ports = await portsOf(root, signal);
  for (const tty of ports.slice(0, MAX_PORTS)) {
    const port = lasting.get(tty) ?? `/dev/${tty}`;
    const isConsole = consoles.has(tty);
    const problem = isConsole ? 'console' : isPlainName(port) ? undefined : 'odd-name';
    const source = { kind: 'serial', port, baud: BAUD };
    const sensor = problem === undefined ? { event: names.of(basename(port)), source } : undefined;
    found.push({ title: titleOf(port), sensor, reading: undefined, unit: undefined, problem });
  }
  return { found, isCut: ports.length > MAX_PORTS };
}

/** The ports with hardware behind them. A virtual terminal has no device, and `ttyS3` of type 0 has no UART. */
async function portsOf(root: string, signal: AbortSignal): Promise<readonly string[]> {
  const base = join(root, 'sys/class/tty');
  const found: string[] = [];
  for (const tty of await listDirectory(base)) {
    const files = await listDirectory(join(base, tty));
    if (!files.includes('device')) continue;
    const isMissing = files.includes('type') && (await readKernelText(join(base, tty, 'type'), signal)) === '0';
    if (!isMissing) found.push(tty);
  }
  return found;
}

async function consolesOf(root: string, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const text = await readKernelText(join(root, 'sys/class/tty/console/active'), signal);
  return new Set((text ?? '').split(/\s+/));
}

/** The links in a directory by the device that they lead to. */
async function linksIn(directory: string, root: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const name of (await listDirectory(join(root, directory))).slice(0, MAX_PORTS)) {
    const device = await valueOrUndefined(realpath(join(root, directory, name)));
    if (device !== undefined) found.set(basename(device), join(directory, name));
  }
  return found;
}
