import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { digestOfManifest } from '../../../src/firmware/describe-firmware.ts';
import { openFileSource } from '../../../src/firmware/file-source.ts';
import { encodeHead } from '../../../src/helper/link/frame.ts';
import type { Answer } from '../../../src/helper/link/link.ts';
import { leavePermit } from '../../../src/helper/root/permit.ts';
import { PROTOCOL } from '../../../src/helper/verbs.ts';
import { FileGateway, stop } from '../../stand-ins/machine/file-gateway.ts';
import { bufferContent } from '../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../stand-ins/service/stand-in.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';
import { Impostor, laying, reachSocket, serving } from './impostor.ts';
import type { Answers } from './impostor.ts';

/** `nobody`; without the rights of root both processes have those of the test, and the file system keeps nothing apart. */
const isRoot = process.getuid?.() === 0;
const agentUser = isRoot ? 65_534 : (process.getuid?.() ?? 0);

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
const stranger = makeKeyPair('ecdsa-p256', 'stranger.pem');
const OLD = Buffer.alloc(300_000, 'healthy 0\n', 'latin1');

async function artifact(name: string, text: string, key = keys.privateKey, securityVersion = 0): Promise<Buffer> {
  const content = Buffer.alloc(300_000, `${text}\n`, 'latin1');
  const provides = { security_version: String(securityVersion) };
  return buildArtifact({ name, devices: ['demo-gateway'], files: [{ name: 'rootfs.ext4', content }], key, provides });
}

const good = await artifact('good', 'healthy 1', keys.privateKey, 3);
const older = await artifact('older', 'healthy old', keys.privateKey, 2);
const oldest = await artifact('oldest', 'healthy oldest', keys.privateKey, 1);
const foreign = await artifact('foreign', 'healthy f', stranger.privateKey, 9);
const tampered = Buffer.from(good).fill('X', good.byteLength - 100_000, good.byteLength - 99_990);

let stack: AsyncDisposableStack;
let gateway: FileGateway;
let helper: ChildProcess;
/** What the helper logs. */
let said: string[];

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  const versions = [{ id: 'good', firmware: bufferContent(good) }];
  const service = stack.use(await startStandIn({ versions, currentVersionId: 'good' }));
  const options = { serviceUrl: service.url, image: OLD, slotBytes: 2_000_000, trustedKey: keys.publicPem, agentUser };
  gateway = stack.use(await FileGateway.create(options));
  said = [];
  helper = await gateway.startHelper((line) => said.push(line));
});
afterEach(async () => {
  await stack.disposeAsync();
});

/** While the helper winds up the connection before, it is asked again. */
async function attached(answers: Answers = {}): Promise<Impostor> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    const impostor = await connection(answers);
    const snapshot = await impostor.refusal('attach', { protocol: PROTOCOL });
    if (snapshot.startsWith('done')) return impostor;
    expect(impostor.notes).toEqual([{ topic: 'leaving', content: { why: 'busy' } }]);
  }
  throw new Error('the helper serves somebody else for ever');
}

async function connection(answers: Answers = {}): Promise<Impostor> {
  return stack.use(new Impostor(await reachSocket(join(gateway.directory, 'helper/helper.sock')), answers));
}

const order = { name: 'file', reboot: true, force: true };

async function digestOf(content: Uint8Array): Promise<string> {
  const path = join(gateway.directory, 'some.artifact');
  await writeFile(path, content);
  return (await digestOfManifest(openFileSource(path), AbortSignal.timeout(60_000))) ?? 'none';
}

/** Nothing else boots now, or at the next start, than what did. */
function expectNothingArmed(): void {
  expect(gateway.rebootRequested).toBe(false);
  expect(gateway.boot()).toBe('A');
}

describe('an agent that somebody has broken into', () => {
  test('boots nothing that was not signed by a trusted key, whatever it hands over', async () => {
    for (const [content, code] of [
      [OLD, 'image-unsigned'],
      [foreign, 'signature-invalid'],
      [tampered, 'digest-mismatch'],
    ] as const) {
      const impostor = await attached(serving(content));
      expect(await impostor.refusal('install', order)).toBe(code);
      impostor.link.close();
      expectNothingArmed();
    }
  });

  test('boots what was signed, or nothing, where it hands over another thing each time that it is asked', async () => {
    const impostor = await attached(serving(good, foreign, tampered, good));
    await impostor.refusal('install', order);
    gateway.boot();
    const booted = await gateway.imageOf(gateway.booted, 9);
    expect(['healthy 0', 'healthy 1']).toContain(booted.toString('latin1'));
  });

  test('boots what was signed, or nothing, where it changes what it has laid while the helper reads it', async () => {
    const tray = join(gateway.directory, 'helper/tray');
    for (const [before, after, code] of [
      [tampered, tampered, 'digest-mismatch'],
      [tampered, good, /digest-mismatch|rebooting/],
      [good, tampered, /digest-mismatch|rebooting/],
    ] as const) {
      const impostor = await attached(laying(tray, before, after));
      expect(await impostor.refusal('install', order)).toMatch(code);
      impostor.link.close();
      gateway.boot();
      const booted = await gateway.imageOf(gateway.booted, 9);
      expect(['healthy 0', 'healthy 1']).toContain(booted.toString('latin1'));
    }
  });

  test('boots nothing that is older than what was committed, and goes back to nothing older', async () => {
    const impostor = await attached({
      ...serving(good),
      checkHealth: () => ({ output: {} }),
      currentVersion: () => ({ output: { id: 'older', name: 'older' } }),
      targetVersion: () => ({ output: { id: 'older', name: 'older' } }),
    });
    expect(await impostor.refusal('install', order)).toMatch(/rebooting/);
    expect(gateway.boot()).toBe('B');
    expect(await impostor.refusal('settle')).toMatch(/installed/);
    impostor.link.close();
    const second = await attached(serving(older));
    expect(await second.refusal('install', order)).toBe('downgrade');
    expect(await second.refusal('rollback', { reboot: true })).toBe('helper-refused');
    expect(await second.refusal('install', { ...order, allowDowngrade: true })).toBe('helper-refused');
    expect(await second.refusal('rollback', { reboot: true, force: true })).toBe('helper-refused');
    gateway.boot();
    expect(gateway.booted).toBe('B');
  });

  test('makes, keeps and replays no permit of root, which is for one release and one way back', async () => {
    const impostor = await attached({ ...serving(good), checkHealth: () => ({ output: {} }) });
    await impostor.refusal('install', order);
    gateway.boot();
    await impostor.refusal('settle');
    impostor.link.close();
    const folder = join(gateway.directory, 'helper');
    const machine = { bootId: async () => (await readFile(join(gateway.directory, 'boot-id'), 'utf8')).trim() };
    const digest = await digestOf(older);
    const permit = async (): Promise<unknown> => leavePermit({ kind: 'downgrade', digest }, { folder, machine });
    const tries = [
      `writeFileSync('${folder}/permit.json', '{}')`,
      `renameSync('${folder}/helper.lock', '${folder}/permit.json')`,
      `unlinkSync('${folder}/permit.json')`,
      `readFileSync('${folder}/permit.json')`,
    ];
    await permit();
    expect(await asAgent(tries)).toEqual(tries.map(() => (isRoot ? 'refused' : 'not tried')));
    const forced = { ...order, allowDowngrade: true };
    const another = await attached(serving(oldest));
    expect(await another.refusal('install', forced)).toBe('downgrade'); // was for another release
    another.link.close();
    const second = await attached(serving(older));
    expect(await second.refusal('install', forced)).toBe('helper-refused'); // and is used up by that
    await permit();
    expect(await second.refusal('rollback', { reboot: true, force: true })).toBe('helper-refused'); // for another order
    expect(await second.refusal('install', forced)).toBe('helper-refused');
    await permit();
    gateway.boot();
    expect(await second.refusal('install', forced)).toBe('helper-refused'); // of the boot before
    await leavePermit({ kind: 'rollback', installed: 'sha256:0', previous: 'sha256:1' }, { folder, machine });
    expect(await second.refusal('rollback', { reboot: true, force: true })).toBe('helper-refused'); // of another state
    gateway.boot();
    expect(gateway.booted).toBe('B');
    await permit();
    expect(await second.refusal('install', forced)).toMatch(/rebooting/);
    expect(gateway.boot()).toBe('A');
  });

  test('has no word for a slot, a device, a path, a key or an event of the journal: it is hung up on', async () => {
    const words: readonly (readonly [string, unknown])[] = [
      ['openSlot', { path: '/dev/sda', slot: 'A' }], // writes another device
      ['tryOnce', { slot: 'B', evidence: { digest: 'sha256:00' } }], // arms what it likes
      ['append', { type: 'committed', slot: 'B' }], // forges the journal
      ['journal', { state: {} }], // forges it by the way it is told
      ['trustFile', { name: '../../../etc/shadow' }], // reads a file
      ['install', { ...order, name: '../../etc/cron.d/x' }], // names a path
      ['update', { reboot: true, force: true, manual: true, allowDowngrade: true }], // adds a word
      ['flashBoard', { board: 'meter', name: '../../etc/x' }], // names a path
      ['flashBoard', { board: 'meter', name: 'x', evidence: { digest: 'sha256:00' } }], // vouches for itself
      ['restoreBoard', { board: 'meter', image: { format: 'raw', segments: [] } }], // brings what was kept
      ['stepBoard', { job: 1 }], // asks what only the helper may ask
      ['reboot', { argument: '0 tryboot' }], // names another bootloader argument
      ['constructor', {}], // asks for what every object has
      ['__proto__', {}], // asks for its prototype
    ];
    for (const [verb, input] of words) {
      const impostor = await attached();
      expect([verb, await impostor.refusal(verb, input)]).toEqual([verb, 'the helper hung up']);
    }
    expectNothingArmed();
    expect(await (await attached()).say('probe')).toEqual({});
  });

  test('is answered nothing out of turn', async () => {
    expect(await (await connection()).refusal('settle')).toBe('the helper hung up');
    expect(await (await attached()).refusal('attach', { protocol: PROTOCOL })).toBe('the helper hung up');
    expect(await (await connection()).refusal('attach', { protocol: PROTOCOL + 1 })).toBe('the helper hung up');
    expect(await (await attached()).refusal('probe', {}, Buffer.alloc(10))).toBe('the helper hung up');
  });

  test('has one connection, and one order, at a time', async () => {
    const stuck = Promise.withResolvers<never>();
    const version = (): Answer => ({ output: { id: 'good', name: 'good' } });
    const answers = { currentVersion: version, targetVersion: version, openFirmware: async () => stuck.promise };
    const impostor = await attached(answers);
    const first = impostor.refusal('install', order);
    expect(await impostor.refusal('settle')).toBe('helper-busy');
    expect(await impostor.refusal('look', { manual: true, force: false })).toMatch(/^done/); // as in one process
    const second = await connection();
    expect(await second.refusal('attach', { protocol: PROTOCOL })).toBe('the helper hung up');
    expect(second.notes).toEqual([{ topic: 'leaving', content: { why: 'busy' } }]);
    impostor.link.close();
    expect(await first).toBe('the helper hung up');
  });

  test('keeps the helper from nothing by hundreds of connections, and leaves none of them open', async () => {
    const impostor = await attached();
    const open = async (): Promise<number> => (await readdir(`/proc/${helper.pid}/fd`)).length;
    const before = await open();
    // none of them hangs up by itself
    const path = join(gateway.directory, 'helper/helper.sock');
    const crowd = Array.from({ length: 300 }, () => connect({ path, allowHalfOpen: true }).on('error', () => {}));
    await Promise.all(crowd.map(async (socket) => once(socket.resume(), 'end')));
    expect(await impostor.say('probe')).toEqual({});
    await expect.poll(open, { timeout: 30_000 }).toBeLessThanOrEqual(before);
    for (const socket of crowd) socket.destroy();
  });

  test('says what is too long, is no message, or nests without an end, and is hung up on', async () => {
    const all = [
      Buffer.from('ffffffffffffffff', 'hex'),
      Buffer.from('0000000400000000deadbeef', 'hex'),
      Buffer.alloc(1_000_000),
      deeplyNested(),
    ];
    for (const bytes of all) {
      (await attached()).link.close(); // the helper is free
      await refusedBytes(bytes);
    }
    expect(await (await attached()).say('probe')).toEqual({});
  });

  test('is hung up on before it sends a head that only the helper may send, which as JSON takes 150 MiB of memory', async () => {
    const socket = await reachSocket(join(gateway.directory, 'helper/helper.sock'));
    const impostor = stack.use(new Impostor(socket));
    await impostor.say('attach', { protocol: PROTOCOL });
    socket.write(Buffer.from('0011000100000000', 'hex'));
    await expect.poll(() => said.join('\n'), { timeout: 30_000 }).toContain('a message of 1114113 and 0 bytes');
    await impostor.link.hungUp;
  });

  test('keeps no helper alive by what it has begun to say', async () => {
    const socket = await reachSocket(join(gateway.directory, 'helper/helper.sock'));
    const impostor = stack.use(new Impostor(socket));
    await impostor.say('attach', { protocol: PROTOCOL });
    // the call ends after the connection, which was closed in the middle of a message
    const call = encodeHead({ kind: 'call', id: 2, verb: 'probe', input: {} });
    socket.write(Buffer.concat([call, Buffer.from('ffffffffffffffff', 'hex')]));
    await impostor.link.hungUp;
    expect(await (await attached()).say('probe')).toEqual({});
    expect(await stop(helper)).toBe(0);
  });

  test('reads no key and no journal, and writes no slot, socket or boot environment', async () => {
    const { directory, slots } = gateway;
    await (await attached()).say('hold');
    const tries = [
      `readFileSync('${directory}/state/journal.json')`,
      `writeFileSync('${directory}/state/journal.json', '{}')`,
      `writeFileSync('${directory}/state/floors.json', '{}')`,
      `renameSync('${directory}/state/agent', '${directory}/state/other')`,
      `writeFileSync('${slots.B}', 'mine')`,
      `writeFileSync('${directory}/boot/order', 'B')`,
      `writeFileSync('${directory}/release.pem', 'mine')`,
      `writeFileSync('${directory}/config.toml', '')`,
      `unlinkSync('${directory}/helper/helper.sock')`,
      `unlinkSync('${directory}/helper/tray')`,
      `renameSync('${directory}/helper/tray', '${directory}/helper/other')`,
      `writeFileSync('${directory}/helper/helper.lock', '')`,
      `process.setuid(0)`,
    ];
    expect(await asAgent(tries)).toEqual(tries.map(() => (isRoot ? 'refused' : 'not tried')));
    expectNothingArmed();
    expect((await readFile(slots.B)).subarray(0, 4).toString()).toBe('\0\0\0\0');
  });
});

/** Resolves when the helper has hung up; where it was busy still, it did so before it read anything, which is as good. */
async function refusedBytes(bytes: Buffer): Promise<void> {
  const socket = await reachSocket(join(gateway.directory, 'helper/helper.sock'));
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => {}); // the helper does not wait for the rest of it
  socket.resume().write(bytes);
  await ended;
}

function deeplyNested(): Buffer {
  const text = Buffer.alloc(1_000_000, '[');
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32BE(text.byteLength, 0);
  return Buffer.concat([prefix, text]);
}

/** Each in a program with the agent's rights. Where the test has no rights of root nothing is tried. */
async function asAgent(tries: readonly string[]): Promise<readonly string[]> {
  if (!isRoot) return tries.map(() => 'not tried');
  const script = `const {readFileSync,writeFileSync,renameSync,unlinkSync} = require('node:fs');
    const tries = [${tries.map((one) => `() => ${one}`).join(', ')}];
    console.log(JSON.stringify(tries.map((one) => { try { one(); return 'done'; } catch (error) { return /^(EACCES|EPERM)$/.test(error.code) ? 'refused' : error.message; } })));`;
  const child = spawn(process.execPath, ['-e', script], { uid: agentUser, gid: agentUser, cwd: '/', env: {} });
  const said = await child.stdout.setEncoding('utf8').toArray();
  return JSON.parse(said.join('')) as readonly string[];
}
