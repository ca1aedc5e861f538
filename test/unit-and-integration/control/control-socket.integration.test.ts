import { execFile } from 'node:child_process';
import { lstatSync } from 'node:fs';
import { chmod, chown, lstat, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { describe, expect, test } from 'vitest';

import { socketNames } from '../../../src/control/access.ts';
import { connectToDaemon, controlClient } from '../../../src/control/client/control-client.ts';
import { listenOnSocket, isSocketServed } from '../../../src/control/server/control-socket.ts';
import { ConductedOperation, fakeAgent } from '../cli/fake-operations.ts';
import { controlRig, forever, impostor, runDirectory } from './control-rig.ts';

const run = promisify(execFile);

describe('the socket', () => {
  test.each([
    ['root', undefined, '600'],
    ['operators', undefined, '600'],
    ['operators', 64_999, '660'],
    ['members', undefined, '660'],
  ] as const)('of %s is for them alone, whatever the umask (group %s: %s)', async (caller, group, mode) => {
    const before = process.umask(0);
    await using directory = await runDirectory();
    const path = join(directory.path, socketNames[caller]);
    const server = createServer();
    try {
      if (group !== undefined) await makeOperators(directory.path, group);
      await listenOnSocket(server, path, caller);
      const found = await lstat(path);
      expect((found.mode & 0o777).toString(8)).toBe(mode);
      expect(found.gid).toBe(group ?? process.getgid?.());
    } finally {
      server.close();
      process.umask(before);
    }
  });

  test('was in a closed directory as long as it had wider permissions', async () => {
    await using directory = await runDirectory();
    const server = createServer();
    const seen: unknown[] = [];
    server.once('listening', () => {
      const nursery = join(directory.path, '.root.sock.new');
      seen.push((lstatSync(nursery).mode & 0o777).toString(8), lstatSync(join(nursery, 's')).isSocket());
      seen.push(lstatSync(directory.socket, { throwIfNoEntry: false }));
    });
    await listenOnSocket(server, directory.socket, 'root');
    expect(seen).toEqual(['700', true, undefined]);
    expect(await readdir(directory.path)).toEqual(['root.sock']);
    server.close();
  });

  test('rejects an unauthorized user, and names the remedy', async () => {
    await using rig = await controlRig();
    await chmod(dirname(rig.socket), 0o755);
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', asNobody(rig.runDirectory)]);
    expect(JSON.parse(stdout)).toEqual({
      code: 'control-not-permitted',
      exit: 'refused',
      message: `not permitted to connect to the daemon at ${join(rig.runDirectory, 'status.sock')}`,
      advice:
        'use sudo, or join the group thing-operators (thing-agent, for status and history and to send datapoints)',
    });
  });

  test('replaces one without a listener', async () => {
    await using directory = await runDirectory();
    await leaveStaleSocket(directory.socket);
    const server = createServer();
    await listenOnSocket(server, directory.socket, 'root');
    expect(await isSocketServed(directory.socket)).toBe(true);
    server.close();
  });

  test('leaves a living daemon alone', async () => {
    await using rig = await controlRig();
    await expect(listenOnSocket(createServer(), rig.socket, 'root')).rejects.toMatchObject({
      code: 'control-socket-in-use',
      exit: 'tryAgain',
    });
    expect((await rig.client.status({}, forever)).serialNumber).toBe('GW-0001');
  });

  test('leaves a file alone that is not a socket', async () => {
    await using directory = await runDirectory();
    await writeFile(directory.socket, 'precious');
    await expect(listenOnSocket(createServer(), directory.socket, 'root')).rejects.toMatchObject({
      code: 'control-socket-unavailable',
      exit: 'disk',
    });
    expect(await readFile(directory.socket, 'utf8')).toBe('precious');
  });

  test('is not made where the path is too long for one', async () => {
    await using directory = await runDirectory();
    const path = join(directory.path, 'x'.repeat(107));
    await expect(listenOnSocket(createServer(), path, 'root')).rejects.toThrow('bytes too long');
  });

  test('is not made where there is no directory', async () => {
    await expect(listenOnSocket(createServer(), '/nonexistent/root.sock', 'root')).rejects.toMatchObject({
      code: 'control-socket-unavailable',
    });
  });

  test('is gone when the daemon has stopped', async () => {
    await using rig = await controlRig();
    await rig.stop();
    expect(await readdir(dirname(rig.socket))).toEqual([]);
  });

  // Regression: if the directory had another owner by then, the server continued to listen, and the daemon was killed
  // after a minute.
  test('keeps no daemon from its end that cannot remove it', async () => {
    await using rig = await controlRig();
    await rename(rig.runDirectory, `${rig.runDirectory}.gone`);
    await writeFile(rig.runDirectory, '');
    await rig.stop();
    expect(rig.log.lines.filter((line) => line.startsWith('cannot remove the control socket'))).toHaveLength(3);
    await rm(rig.runDirectory);
    await rename(`${rig.runDirectory}.gone`, rig.runDirectory);
    expect(await isSocketServed(rig.socket)).toBe(false);
  });
});

describe('a socket that is no longer where others look for it', () => {
  const patience = { interval: 10 };

  // Regression: with its three sockets moved away the daemon was unreachable, and considered itself healthy.
  test.each([
    ['was removed', async (path: string) => rm(path)],
    ['was moved', async (path: string) => rename(path, `${path}.old`)],
    [
      'was replaced by one on which nobody listens',
      async (path: string) => rm(path).then(() => leaveStaleSocket(path)),
    ],
  ])('and %s, is made anew for each of the three', async (_name, take) => {
    await using rig = await controlRig(fakeAgent(), { checkMs: 10 });
    const paths = Object.values(socketNames).map((name) => join(rig.runDirectory, name));
    const modes = await Promise.all(paths.map(modeOf));
    await Promise.all(paths.map(take));
    for (const path of paths) await expect.poll(() => isSocketServed(path), patience).toBe(true);
    expect(await Promise.all(paths.map(modeOf))).toEqual(modes);
    expect((await rig.client.status({}, forever)).serialNumber).toBe('GW-0001');
  });

  test('interrupts no operation', async () => {
    const operation = new ConductedOperation();
    const agent = fakeAgent({ update: (_options, onEvent, signal) => operation.run(onEvent, signal) });
    await using rig = await controlRig(agent, { checkMs: 10 });
    const followed = rig.client.update({ reboot: true, force: false }, () => {}, forever);
    await operation.begun;
    await rm(rig.socket);
    await expect.poll(() => isSocketServed(rig.socket), patience).toBe(true);
    operation.end({ kind: 'installed', version: 'v1' });
    expect(await followed).toEqual({ kind: 'installed', version: 'v1' });
  });

  test('is not created over a foreign file, which is reported once; and is created when that is gone', async () => {
    await using rig = await controlRig(fakeAgent(), { checkMs: 10 });
    await rm(rig.socket);
    await writeFile(rig.socket, 'precious');
    const said = (): number =>
      rig.log.lines.filter((line) => line.startsWith('clients cannot find the control socket')).length;
    await expect.poll(said, patience).toBe(1);
    expect(await readFile(rig.socket, 'utf8')).toBe('precious');
    await rm(rig.socket);
    await expect.poll(() => isSocketServed(rig.socket), patience).toBe(true);
    expect(said()).toBe(1);
    await rig.stop();
    expect(await readdir(rig.runDirectory)).toEqual([]);
  });
});

describe('who calls', () => {
  test('gets a clear error without a socket', async () => {
    await using directory = await runDirectory();
    expect(await connectToDaemon(directory.path, {}, forever)).toBeUndefined();
  });

  test('gets a clear error after a daemon was killed', async () => {
    await using directory = await runDirectory();
    await leaveStaleSocket(directory.socket);
    expect(await connectToDaemon(directory.path, {}, forever)).toBeUndefined();
  });

  test.each([
    ['what is not HTTP', 'hello\r\n\r\n', { code: 'daemon-reply-invalid', exit: 'protocol' }],
    ['what is not JSON', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{{', { code: 'daemon-reply-invalid' }],
    ['another object', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}', { code: 'daemon-reply-invalid' }],
    ['an unknown error', 'HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n{}', { code: 'daemon-reply-invalid' }],
    ['nothing', '', { code: 'daemon-lost', exit: 'tryAgain' }],
    ['half an answer', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{', { code: 'daemon-lost' }],
    [
      'too much',
      `HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n${'x'.repeat(2_000_000)}`,
      { message: 'the reply of the daemon is invalid: its reply is too long' },
    ],
  ])('and is told %s says so', async (_name, says, failure) => {
    await using directory = await runDirectory();
    await using _other = await impostor(directory.socket, says, true);
    const client = await connectToDaemon(directory.path, {}, forever);
    await expect(client?.status({}, forever)).rejects.toMatchObject(failure);
  });

  test.each([
    ['an operation without its end', '{"kind":"alive"}\n', { code: 'daemon-lost', exit: 'tryAgain' }],
    ['a line without end', 'x'.repeat(100_000), { code: 'daemon-reply-invalid' }],
    ['lines of another language', 'hello\n', { code: 'daemon-reply-invalid' }],
  ])('and is told %s says so', async (_name, body, failure) => {
    await using directory = await runDirectory();
    const head = `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
    await using _other = await impostor(directory.socket, head + body, true);
    const client = await connectToDaemon(directory.path, {}, forever);
    await expect(client?.commit({}, () => {}, forever)).rejects.toMatchObject(failure);
  });

  test.each([0, 9])(
    'and was informed of a reboot ignores the lost connection (%i bytes are missing)',
    async (missing) => {
      await using directory = await runDirectory();
      const body = '{"kind":"event","event":{"kind":"phase","phase":"rebooting"}}\n';
      const head = `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body) + missing}\r\n\r\n`;
      await using _other = await impostor(directory.socket, head + body, true);
      const client = await connectToDaemon(directory.path, {}, forever);
      const failure = { code: 'daemon-lost', message: 'lost the connection to the daemon: the gateway is rebooting' };
      await expect(client?.commit({}, () => {}, forever)).rejects.toMatchObject(failure);
    },
  );

  // Regression: "the gateway reboots", of a reboot command that had ended with 3.
  test.each([
    ['reboot-failed', { code: 'reboot-failed', message: 'exit code 3' }],
    ['agent-stopping', { code: 'daemon-lost', message: 'lost the connection to the daemon: the gateway is rebooting' }],
  ])('and is told of a reboot and then %s says so', async (code, failure) => {
    await using directory = await runDirectory();
    const lines = [
      { kind: 'event', event: { kind: 'phase', phase: 'rebooting' } },
      { kind: 'error', error: { code, message: 'exit code 3', exit: 'failed' } },
    ];
    const body = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    const head = `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
    await using _other = await impostor(directory.socket, head + body, true);
    const client = await connectToDaemon(directory.path, {}, forever);
    await expect(client?.commit({}, () => {}, forever)).rejects.toMatchObject(failure);
  });

  test('ignores additional members of a newer daemon', async () => {
    await using directory = await runDirectory();
    const lines = [
      { kind: 'weather', sunny: true },
      { kind: 'event', event: { kind: 'phase', phase: 'dreaming' } },
      { kind: 'event', event: { kind: 'phase', phase: 'staging', colour: 'blue' } },
      { kind: 'result', outcome: { kind: 'installed', version: 'v1', mood: 'good' } },
    ];
    const body = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    const head = `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
    await using _other = await impostor(directory.socket, head + body, true);
    const events: unknown[] = [];
    const client = await connectToDaemon(directory.path, {}, forever);
    const outcome = await client?.commit({}, (event) => events.push(event), forever);
    expect(events).toEqual([{ kind: 'phase', phase: 'staging' }]);
    expect(outcome).toEqual({ kind: 'installed', version: 'v1' });
  });

  test.each([
    ['from the start', ''],
    ['in the middle', 'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n'],
  ])('does not wait for ever if the server stops responding %s', async (_name, says) => {
    await using directory = await runDirectory();
    await using _other = await impostor(directory.socket, says, false);
    const client = controlClient(directory.socket, { answerMs: 50, operationMs: 50 });
    const silent = { code: 'daemon-unresponsive', exit: 'tryAgain' };
    await expect(client.status({}, forever)).rejects.toMatchObject(silent);
    await expect(client.commit({}, () => {}, forever)).rejects.toMatchObject(silent);
  });

  // Regression: a server that never paused for long, such as a compromised agent, could block root's commands for ever.
  test.each([
    ['replies that are none', '', 'HTTP/1.1 102 Processing\r\n\r\n'],
    ['a head byte by byte', 'HTTP/1.1 200 OK\r\nx: ', 'x'],
  ])('does not wait for ever for one who gives it %s', async (_name, says, more) => {
    await using directory = await runDirectory();
    const again = { says: more, times: 100, everyMs: 10 };
    await using _other = await impostor(directory.socket, says, false, again);
    const client = controlClient(directory.socket, { answerMs: 100, operationMs: 100 });
    const silent = { code: 'daemon-unresponsive', exit: 'tryAgain' };
    await expect(client.status({}, forever)).rejects.toMatchObject(silent);
    await expect(client.commit({}, () => {}, forever)).rejects.toMatchObject(silent);
    await expect(connectToDaemon(directory.path, { greetingMs: 100 }, forever)).rejects.toMatchObject(silent);
  });

  test('does not wait for ever for a reply that arrives byte by byte, but does for an active operation', async () => {
    await using directory = await runDirectory();
    const head = 'HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n';
    await using _other = await impostor(directory.socket, head, false, { says: '\n', times: 100, everyMs: 10 });
    const client = controlClient(directory.socket, { answerMs: 100, operationMs: 30_000 });
    await expect(client.status({}, forever)).rejects.toMatchObject({ code: 'daemon-unresponsive' });
    await expect(client.commit({}, () => {}, forever)).rejects.toMatchObject({ code: 'daemon-reply-invalid' });
  });

  // Regression: a daemon stopped by a signal; its socket takes connections, and status waited for 150 s. A hold was done later.
  test('detects an unresponsive daemon immediately, before its first request', async () => {
    await using directory = await runDirectory();
    await using _other = await impostor(directory.socket, '', false);
    const connected = connectToDaemon(directory.path, { greetingMs: 50 }, forever);
    await expect(connected).rejects.toMatchObject({ code: 'daemon-unresponsive', exit: 'tryAgain' });
  });

  test('need not wait for a silent daemon who has enough of it', async () => {
    await using directory = await runDirectory();
    await using _other = await impostor(directory.socket, '', false);
    const enough = new AbortController();
    const connected = connectToDaemon(directory.path, {}, enough.signal);
    enough.abort(new Error('enough'));
    await expect(connected).rejects.toThrow('enough');
  });
});

async function modeOf(path: string): Promise<string> {
  return ((await lstat(path)).mode & 0o777).toString(8);
}

/** As tmpfiles.d makes it. */
async function makeOperators(runDirectory: string, group: number): Promise<void> {
  const path = join(runDirectory, 'operators');
  await mkdir(path);
  await chown(path, 0, group);
  await chmod(path, 0o2750);
}

/** As a killed daemon leaves it. */
async function leaveStaleSocket(path: string): Promise<void> {
  const script = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
  await run(process.execPath, ['-e', script]).catch(() => {});
}

/** A program that loads its modules as root, and then calls the daemon as an unprivileged user. */
function asNobody(runDirectory: string): string {
  const module = new URL('../../../src/control/client/control-client.ts', import.meta.url);
  return `
    const { connectToDaemon } = await import(${JSON.stringify(module.href)});
    process.setgroups([]);
    process.setegid(65534);
    process.seteuid(65534);
    const failure = await connectToDaemon(${JSON.stringify(runDirectory)}, {}, AbortSignal.timeout(60_000)).catch((error) => error);
    const { code, exit, message, advice } = failure ?? {};
    console.log(JSON.stringify({ code, exit, message, advice }));`;
}
