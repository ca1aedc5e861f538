import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect } from 'vitest';

import type { NspawnGateway } from '../../../stand-ins/machine/booting/nspawn-gateway.ts';

const DROP_IN = '/run/systemd/system/thing-helper.service.d/broken.conf';
const SOCKET = '/run/thing-helper/machine.sock';

/** At once, where its rest would end it after ten seconds; it comes again when it is asked. */
export async function endHelper(gateway: NspawnGateway): Promise<void> {
  await gateway.tell('systemctl', 'stop', 'thing-helper.service');
}

/** What break-out.ts got in the helper's unit, and which sockets of all that listen on this gateway were in its reach. */
export async function breakOutOfHelper(gateway: NspawnGateway, node: string): Promise<unknown> {
  await gateway.tell('systemd-run', '--unit=victim', '--property=CapabilityBoundingSet=', 'sleep', '600');
  const victim = await gateway.tell('systemctl', 'show', '--value', '--property=MainPID', 'victim.service');
  await gateway.write('/boot/aims', JSON.stringify({ sockets: await socketsOfAll(gateway), victim }));
  const program = await readFile(join(import.meta.dirname, 'break-out.ts'), 'utf8');
  await gateway.write('/boot/break-out.mts', program);
  await gateway.write(DROP_IN, `[Service]\nExecStartPre=${node} /boot/break-out.mts /boot/aims\n`);
  await gateway.tell('systemctl', 'daemon-reload');
  await gateway.tell('systemctl', 'restart', 'thing-helper.service');
  const found = await gateway.tell('cat', '/boot/aims.found');
  await gateway.tell('rm', DROP_IN);
  await gateway.tell('systemctl', 'daemon-reload');
  await gateway.tell('systemctl', 'stop', 'victim.service');
  return JSON.parse(found) as unknown;
}

/** Paths, and abstract names. */
async function socketsOfAll(gateway: NspawnGateway): Promise<readonly string[]> {
  const lines = (await gateway.tell('cat', '/proc/1/net/unix')).split('\n');
  const names = lines.map((line) => line.split(' ').at(-1) ?? '').filter((name) => /^[/@]/.test(name));
  for (const known of ['/run/systemd/private', '/run/dbus/system_bus_socket'])
    if (!names.includes(known)) throw new Error(`nobody listens on ${known}`);
  return [...new Set(names)].toSorted();
}

/** What root is answered there to these words, and then, beside fifty who ask at once, to the last of them. */
export async function askedByRoot(gateway: NspawnGateway, node: string, words: readonly string[]): Promise<string> {
  const script = `const { connect } = require('node:net');
    const ask = (word) => new Promise((resolve) => { let said = '';
      const socket = connect('${SOCKET}').on('data', (part) => said += part);
      socket.on('error', () => {}).on('close', () => resolve(said.trim())).write(word + '\\n'); });
    (async () => {
      const words = ${JSON.stringify(words)};
      for (const word of words) console.log(await ask(word));
      await Promise.all(Array.from({ length: 50 }, () => ask('')));
      let last = '';
      while (last === '') last = await ask(words.at(-1));
      console.log(last);
    })();`;
  return (await gateway.exec([node, '-e', script], 'root')).stdout.trim();
}

/**
 * So often systemd starts a helper that cannot start, while somebody asks for this time. Seen: twice a second, and for
 * good, with six lines in the journal each time.
 */
export async function startsWhileBroken(gateway: NspawnGateway, seconds: number): Promise<number> {
  // a sandbox that cannot be made is that of each command of the unit
  await gateway.write(DROP_IN, '[Service]\nBindPaths=/nowhere\n');
  await gateway.tell('systemctl', 'daemon-reload');
  await gateway.exec(['timeout', String(seconds), 'agent', '--update-now'], 'root');
  const journal = ['journalctl', '--no-pager', '--output=cat', '--unit=thing-helper.service', `--since=-${seconds}s`];
  const lines = (await gateway.tell(...journal)).split('\n');
  await gateway.tell('rm', DROP_IN);
  await gateway.tell('systemctl', 'daemon-reload');
  return lines.filter((line) => line.startsWith('Starting ')).length;
}

/** Seen: what a reboot_command had left in the background ended with the unit of the question, and no reboot came. */
export async function rebootsLater(gateway: NspawnGateway, node: string, config: string): Promise<void> {
  const later = 'setsid sh -c "sleep 3; touch /run/rebooted" </dev/null >/dev/null 2>&1 & exit 0';
  const command = `[system]\nreboot_command = ${JSON.stringify(['sh', '-c', later])}`;
  const text = await gateway.tell('cat', config);
  await gateway.write('/run/later.toml', text.replace('[system]', command));
  await gateway.tell('mount', '--bind', '/run/later.toml', config);
  expect(await askedByRoot(gateway, node, ['own-reboot', 'net-timer'])).toMatch(/^0\n/);
  await gateway.tell('umount', config);
  await expect.poll(async () => gateway.tell('ls', '/run'), { timeout: 30_000 }).toContain('rebooted');
  expect(await gateway.tell('systemctl', 'list-units', '--no-legend', 'thing-helper-machine@*')).toBe('');
}
