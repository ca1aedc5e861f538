import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import type { NspawnGateway } from '../../fakes/machine/booting/nspawn-gateway.ts';
import { testInFull } from '../../full-run.ts';
import { GatewayRig } from './gateway-rig.ts';

/** One gateway under a systemd of its own; every test leaves it as it found it, by a new start where it had to change something. */
const SERVICE = 'thing-agent.service';
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let stack: AsyncDisposableStack;
let rig: GatewayRig;
let gateway: NspawnGateway;
let configFolder: string;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  rig = stack.use(await GatewayRig.open());
  configFolder = await mkdtemp(join(tmpdir(), 'agent-config-'));
  stack.defer(async () => rm(configFolder, { recursive: true }));
  await mkdir(join(configFolder, 'trust'));
  await writeFile(join(configFolder, 'trust/release.pem'), rig.keys.publicPem);
  await configure(rig.configText());
  gateway = stack.use(await rig.gateway({ binds: { '/etc/thing-agent': configFolder } }));
});
afterAll(async () => {
  await stack.disposeAsync();
});

async function configure(text: string): Promise<void> {
  await writeFile(join(configFolder, 'config.toml'), text);
}

/** Until the next start. */
async function dropIn(name: string, text: string): Promise<void> {
  await gateway.write(`/run/systemd/system/${SERVICE}.d/${name}.conf`, text);
  await gateway.tell('systemctl', 'daemon-reload');
}

/** Returns when the agent has reported READY to systemd. */
async function restart(): Promise<void> {
  await gateway.tell('systemctl', 'restart', SERVICE);
  await gateway.console.until(/agent started/);
}

async function property(name: string): Promise<string> {
  return gateway.tell('systemctl', 'show', '--value', '--property', name, SERVICE);
}

async function mainPid(): Promise<string> {
  return property('MainPID');
}

describe('the installed service', () => {
  test('reports READY to systemd, and nothing else failed', async () => {
    expect(await gateway.tell('systemctl', 'is-system-running', '--wait')).toBe('running');
    expect(await property('ActiveState')).toBe('active');
    expect(await property('NotifyAccess')).toBe('all');
    expect(await gateway.tell('systemctl', 'is-active', 'thing-agent-trial.timer')).toBe('active');
  });

  test('gives a supporter its log and how systemd sees it; to a reader what he may see, with the reasons for the rest', async () => {
    const words = (file: string): readonly string[] => ['agent', 'support-bundle', file, '--overwrite', '--json'];
    const of = async (file: string, user: string): Promise<unknown> =>
      JSON.parse((await gateway.exec(words(file), user)).stdout);
    const parts = ['status', 'doctor', 'configuration', 'journal', 'log', 'unit', 'boot-environment'];
    expect(await of('/run/gw.tar.gz', 'root')).toMatchObject({
      files: expect.arrayContaining(parts.map((part) => expect.objectContaining({ part }) as unknown)) as unknown,
    });
    expect(await gateway.tell('tar', 'xzOf', '/run/gw.tar.gz', 'gw/log.txt')).toMatch(/agent started/);
    expect(await gateway.tell('tar', 'xzOf', '/run/gw.tar.gz', 'gw/unit.txt')).toMatch(/^ActiveState=active$/m);
    expect(await of('/tmp/reader.tar.gz', 'reader')).toMatchObject({
      files: expect.arrayContaining([expect.objectContaining({ part: 'status' })]) as unknown,
      missing: expect.arrayContaining([{ part: 'security', code: 'control-not-permitted' }]) as unknown,
    });
  });

  test('shows its status to members of its group, obeys operators, and answers no other user', async () => {
    for (const user of ['root', 'technician', 'reader']) {
      expect(await gateway.exec(['agent', 'status'], user)).toMatchObject({
        exitCode: 0,
        stdout: matching(/All is well/),
      });
    }
    expect(await gateway.exec(['agent', 'check'], 'technician')).toMatchObject({ exitCode: 0 });
    const refused = { exitCode: 77, stderr: matching(/control-not-permitted/) };
    expect(await gateway.exec(['agent', 'check'], 'reader')).toMatchObject(refused);
    expect(await gateway.exec(['agent', 'reboot'], 'reader')).toMatchObject(refused);
    expect(await gateway.exec(['agent', 'status'], 'nobody')).toMatchObject(refused);
  });

  test('may write its slots, where devices are refused to a service that does not name them', async () => {
    const rules = ['systemd-run', '--quiet', '--wait', '--pipe', '--property=DevicePolicy=closed'];
    const read = ['head', '--bytes=1', '/dev/slot-b'];
    expect(await gateway.exec([...rules, ...read], 'root')).toMatchObject({ stderr: matching(/not permitted/) });
    const named = await gateway.exec([...rules, '--property=DeviceAllow=block-* r', ...read], 'root');
    expect(named.exitCode).toBe(0);
    const doctor = await gateway.exec(['agent', 'doctor']);
    expect(doctor.stdout).toMatch(/ok +boot environment/);
    expect(doctor.stdout).toMatch(/ok +users of programs +programs can run as nobody/);
    expect(doctor.stdout).toMatch(/ok +staging slot +slot B \(\/dev\/slot-b\) can be written/);
  });

  test('has a trial timer, and doctor reports it if it is missing', async () => {
    expect((await gateway.exec(['agent', 'doctor'])).stdout).toMatch(/ok +trial timer/);
    await gateway.tell('systemctl', 'stop', 'thing-agent-trial.timer');
    const missing = await gateway.exec(['agent', 'doctor']);
    await restart();
    expect(await gateway.tell('systemctl', 'is-active', 'thing-agent-trial.timer')).toBe('active');
    expect(missing).toMatchObject({ exitCode: 70, stdout: matching(/FAIL +trial timer[^]*systemctl enable --now/) });
  });

  test('has a trial timer that can write only to the state, and a doctor that tests it', async () => {
    await gateway.tell('umount', '/tmp');
    expect(await gateway.exec(['touch', '/tmp/x'], 'root')).toMatchObject({
      stderr: matching(/Read-only file system/),
    });
    await gateway.tell('systemctl', 'start', 'thing-agent-trial.service');
    expect((await gateway.exec(['agent', 'doctor'])).stdout).toMatch(/ok +trial timer[^]*its\s+program\s+runs/);
    const dropIn = '/run/systemd/system/thing-agent-trial.service.d/test.conf';
    await gateway.write(dropIn, '[Service]\nReadWritePaths=/missing\n');
    await gateway.tell('systemctl', 'daemon-reload');
    const broken = await gateway.exec(['agent', 'doctor']);
    await gateway.tell('rm', dropIn);
    await gateway.tell('systemctl', 'daemon-reload');
    await gateway.tell('systemctl', 'stop', 'thing-agent-trial.service');
    expect(broken.stdout).toMatch(/FAIL +trial timer[^]*cannot\s+run[^]*226/);
  });

  test('shows where its trial timer checks that this slot is committed', async () => {
    const bootId = await gateway.tell('cat', '/boot/boot-id');
    expect(await gateway.tell('cat', '/run/thing-agent/committed')).toBe(bootId);
  });
});

describe('the service after a stop, a kill or a new configuration', () => {
  beforeAll(async () => {
    // Slow is a failure here, not a matter of patience.
    await dropIn('quick', '[Service]\nTimeoutStopSec=5s\nRestartSec=100ms\n');
  });
  afterEach(async () => {
    rig.service.clearFaults();
    await configure(rig.configText());
    await restart();
  });

  testInFull('is started again however often it dies', async () => {
    const pids = [await mainPid()];
    for (let death = 0; death < 7; death += 1) {
      await gateway.tell('sh', '-c', `kill -KILL ${pids.at(-1)}`);
      await gateway.console.until(/agent started/);
      pids.push(await mainPid());
    }
    expect(new Set(pids).size).toBe(8);
    expect((await gateway.exec(['agent', 'check'])).exitCode).toBe(0);
  });

  test('feeds the watchdog while it waits for the next check, is killed by it after a hang, and restarts', async () => {
    await dropIn('watchdog', '[Service]\nWatchdogSec=3s\n');
    await restart();
    const fed = new Set<string>();
    const look = async (): Promise<number> => fed.add(await property('WatchdogTimestampMonotonic')).size;
    await expect.poll(look, { interval: 750 }).toBeGreaterThanOrEqual(4);
    const hung = await mainPid();
    await gateway.tell('sh', '-c', `kill -STOP ${hung}`);
    await gateway.console.until(/thing-agent.service: Watchdog timeout/);
    await gateway.console.until(/agent started/);
    expect(await mainPid()).not.toBe(hung);
    expect(await property('Result')).toBe('success');
    expect((await gateway.exec(['agent', 'check'])).exitCode).toBe(0);
    await gateway.tell('rm', `/run/systemd/system/${SERVICE}.d/watchdog.conf`);
    await gateway.tell('systemctl', 'daemon-reload');
  });

  testInFull('takes a new configuration without a restart', async () => {
    const pid = await mainPid();
    await configure(
      rig.configText({ extra: '[log]\nlevel = "debug"\n' }).replace('[trust]', '[trust]\nallow_unsigned = true'),
    );
    await gateway.tell('systemctl', 'reload', SERVICE);
    await gateway.console.until(/the configuration was read again/);
    expect((await gateway.exec(['agent', 'status'])).stdout).toMatch(/allow_unsigned = true/);
    expect(await mainPid()).toBe(pid);
  });

  // Regression: a program with `user` reported a failure to systemd in the agent's name, which then killed the agent.
  test('is the only process of its unit that systemd listens to, except programs of root', async () => {
    const pid = await mainPid();
    const send = 'NOTIFY_SOCKET=$socket systemd-notify WATCHDOG=trigger';
    const script = `for socket in /run/systemd/notify /run/agent-notify/socket; do ${send} && exit 9; done; echo 1`;
    const source = `source = { kind = "exec", command = ["sh", "-c", "${script}"], user = "nobody" }`;
    await configure(rig.configText({ extra: `[[sensors]]\nevent = "spoken"\nevery = "1s"\n${source}\n` }));
    await gateway.tell('systemctl', 'reload', SERVICE);
    const sensors = async (): Promise<string> => (await gateway.exec(['agent', 'sensors', '--json'])).stdout;
    await expect.poll(sensors, { interval: 500 }).toMatch(/"readings":[1-9]/);
    expect(await mainPid()).toBe(pid);
  });

  // Regression: without CAP_KILL the daemon could not end a program of another user, and died.
  test('ends a program of another user at its deadline, and lives on', async () => {
    const pid = await mainPid();
    const source = 'source = { kind = "exec", command = ["sleep", "3600"], user = "nobody" }';
    await configure(
      rig.configText({ extra: `[[sensors]]\nevent = "stuck"\nevery = "1s"\ntimeout = "1s"\n${source}\n` }),
    );
    await gateway.tell('systemctl', 'reload', SERVICE);
    const sensors = async (): Promise<string> => (await gateway.exec(['agent', 'sensors', '--json'])).stdout;
    await expect.poll(sensors, { interval: 500 }).toMatch(/"failures":[1-9]/);
    expect(await mainPid()).toBe(pid);
    await configure(rig.configText());
    await gateway.tell('systemctl', 'reload', SERVICE);
    const count = 'cat /proc/[0-9]*/comm 2> /dev/null | grep -cx sleep';
    const left = async (): Promise<string> => (await gateway.exec(['sh', '-c', count], 'root')).stdout;
    await expect.poll(left, { interval: 250 }).toBe('0\n');
  });

  test('serves the page on a socket of its group, from within its unit', async () => {
    const extra = '[web]\nlisten = "/run/thing-agent/page.sock"\nhosts = ["gw.example.com"]\n';
    await configure(rig.configText({ extra }));
    await gateway.tell('systemctl', 'reload', SERVICE);
    await gateway.console.until(/web UI available/);
    expect(await gateway.tell('stat', '-c', '%a %G', '/run/thing-agent/page.sock')).toBe('660 thing-agent');
    const ask = `require('http').get({ socketPath: '/run/thing-agent/page.sock', headers: { host: 'gw.example.com' } }, async (reply) => {
      console.log(reply.statusCode, (await reply.toArray()).join('').includes('All is well')); })`;
    const node = ['/usr/lib/thing-agent/tree.a/bin/node', '-e', ask];
    // The web UI may respond before the check after the reload is over.
    const served = { exitCode: 0, stdout: '200 true\n' };
    await expect.poll(async () => gateway.exec(node, 'reader')).toMatchObject(served);
    expect((await gateway.exec(node, 'nobody')).exitCode).not.toBe(0);
  });

  testInFull('continues with the old configuration while the new one is invalid, and reports it', async () => {
    const pid = await mainPid();
    await configure(rig.configText({ extra: 'schedule = 7' }));
    await gateway.tell('systemctl', 'reload', SERVICE);
    await gateway.console.until(/the configuration in use is an older one: .*config\.toml/);
    const status = await gateway.exec(['agent', 'status']);
    expect(status).toMatchObject({ exitCode: 0, stdout: matching(/an\s+older\s+one/) });
    expect((await gateway.exec(['agent', '--update-now'])).exitCode).toBe(0);
    await configure(rig.configText());
    await gateway.tell('systemctl', 'reload', SERVICE);
    await gateway.console.until(/the configuration was read again/);
    expect((await gateway.exec(['agent', 'status'])).stdout).not.toMatch(/an\s+older\s+one/);
    expect(await mainPid()).toBe(pid);
  });

  test('that cannot start for its configuration tries on, and starts when that is repaired', async () => {
    await configure(rig.configText({ extra: 'schedule = 7' }));
    await gateway.exec(['systemctl', 'restart', SERVICE], 'root');
    for (let tries = 0; tries < 7; tries += 1)
      await gateway.console.until(/Main process exited, code=exited, status=78/);
    expect(await gateway.exec(['agent', 'status'])).toMatchObject({ exitCode: 78, stderr: matching(/schedule/) });
    await configure(rig.configText());
    await gateway.console.until(/agent started/);
  });

  test('stops in order and immediately', async () => {
    const said = gateway.console.mark;
    await gateway.tell('systemctl', 'stop', SERVICE);
    await gateway.console.until(/Stopped thing-agent.service/);
    expect(await property('Result')).toBe('success');
    expect(await property('ExecMainStatus')).toBe('0');
    expect(said().filter((line) => /timed out|Killing|unexpected/.test(line))).toEqual([]);
  });

  testInFull(
    'stops in order and immediately while the service does not respond, and informs waiting clients',
    async () => {
      rig.service.fail({ operation: 'targetVersion', times: 'always', fault: { kind: 'silence' } });
      const called = rig.service.nextCall('targetVersion');
      const waiting = gateway.exec(['agent', '--update-now']);
      // Not a check of the daemon's own: no client would be waiting.
      await gateway.console.until(/request on the control socket/);
      await called;
      await gateway.tell('systemctl', 'stop', SERVICE);
      expect(await property('Result')).toBe('success');
      expect(await property('ExecMainStatus')).toBe('0');
      expect(await waiting).toMatchObject({ exitCode: 75, stderr: matching(/daemon/) });
    },
  );

  test('is the same thing after the plug was pulled', async () => {
    await gateway.powerOff();
    gateway.powerOn();
    await gateway.console.until(/agent started/);
    await gateway.console.until(/Nothing to do: v0 is installed/);
    expect(rig.service.world.things).toMatchObject([{ serialNumber: 'GW-0001', activations: 1 }]);
    expect((await gateway.exec(['agent', 'status'])).stdout).toMatch(/thing-1/);
  });
});
