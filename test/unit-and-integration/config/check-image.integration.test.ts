import { execFileSync } from 'node:child_process';
import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { checkConfig } from '../../../src/config/check/check-config.ts';
import { ImageFiles } from '../../../src/system/files/image-files.ts';
import { agentProgram } from '../../fakes/machine/built-agent.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';
import { leastConfig } from './config-texts.ts';

let root: string;
const { publicPem, privatePem } = makeKeyPair('ed25519');

beforeEach(() => {
  root = folderUntilTestEnds();
});

async function place(file: string, text = ''): Promise<void> {
  await mkdir(dirname(join(root, file)), { recursive: true });
  await writeFile(join(root, file), text);
}

const text = `${leastConfig}[trust]
keys = ["/etc/trust/release.pem"]
[service.messaging]
url = "mqtts://b"
topic_id = "a"
username = "gw"
password_file = "/etc/mqtt-password"
[update.health]
user = "app"
commands = [["/usr/lib/app/healthy"]]
units = ["app.service", "feed@1.service", "legacy", "srv.mount"]
[targets.gateway]
kind = "slots"
slots = { A = "/dev/nowhere-a", B = "/dev/nowhere-b" }
bootloader = { kind = "custom", handler = "/usr/lib/handler" }
`;

async function check(): Promise<readonly (readonly string[])[]> {
  const path = join(root, 'etc/thing-agent/config.toml');
  const { problems, warnings } = await checkConfig(path, {}, { kind: 'image', root });
  const said = (findings: typeof problems): string[] =>
    findings.map(({ message }) => message.replaceAll(root, 'ROOT')).filter((message) => !message.includes('insecure'));
  return [said(problems), said(warnings)];
}

describe('the configuration of an image that is being built', () => {
  beforeEach(async () => {
    await place('etc/thing-agent/config.toml', text);
    await place('usr/lib/handler', '#!/bin/sh\n');
    await chmod(join(root, 'usr/lib/handler'), 0o755);
    await place('usr/lib/app/healthy', '#!/bin/sh\n');
    await chmod(join(root, 'usr/lib/app/healthy'), 0o755);
    await place('etc/passwd', 'root:x:0:0::/:/bin/sh\napp:x:990:990::/:/bin/sh\n');
    await place('etc/trust/release.pem', publicPem);
    await place('etc/mqtt-password', 'secret');
    await place('usr/lib/os-release', 'ID=debian\nIMAGE_VERSION=1\n');
    await place('lib/systemd/system/app.service');
    await place('usr/lib/systemd/system/feed@.service');
    await place('etc/systemd/system/legacy.service');
    for (const [target, unit] of [
      ['multi-user', 'thing-agent.service'],
      ['sysinit', 'thing-agent-trial.timer'],
    ] as const) {
      const wants = join(root, `etc/systemd/system/${target}.target.wants`);
      await mkdir(wants, { recursive: true });
      await symlink(`/usr/lib/systemd/system/${unit}`, join(wants, unit));
    }
  });

  test('is valid if keys, programs and users are in the image: no device is required', async () => {
    expect(await check()).toEqual([[], []]);
  });

  test('names what is missing; what each gateway gets is only doubtful', async () => {
    await rm(join(root, 'etc/trust'), { recursive: true });
    await rm(join(root, 'usr/lib/handler'));
    await rm(join(root, 'usr/lib/app/healthy'));
    await rm(join(root, 'etc/mqtt-password'));
    await rm(join(root, 'etc/passwd'));
    expect(await check()).toEqual([
      [
        'trust.keys[0]: /etc/trust/release.pem is not in the image',
        'targets.gateway.bootloader.handler: /usr/lib/handler is not in the image',
      ],
      [
        'service.messaging.password_file: /etc/mqtt-password is not in the image',
        'update.health.user: the image has no user app',
        'update.health.commands[0]: /usr/lib/app/healthy is not in the image',
      ],
    ]);
  });

  // Regression: the check passed without a word, and each gateway downloaded its own version or ran without an agent.
  test('warns if the image has no version, enables no agent, or lacks a unit of the health checks', async () => {
    await rm(join(root, 'usr/lib/os-release'));
    for (const unit of ['multi-user.target.wants', 'sysinit.target.wants', 'legacy.service'])
      await rm(join(root, 'etc/systemd/system', unit), { recursive: true });
    await rm(join(root, 'lib'), { recursive: true });
    await rm(join(root, 'usr/lib/systemd/system/feed@.service'));
    const enable = 'systemctl --root=ROOT enable thing-agent';
    const [problems, warnings] = await check();
    expect(problems).toEqual([]);
    expect(warnings?.toSorted()).toEqual([
      'IMAGE_VERSION is not set in /etc/os-release of the image: a new gateway downloads the version that it already runs',
      `the image does not enable thing-agent-trial.timer: ${enable}`,
      `the image does not enable thing-agent.service: ${enable}`,
      'update.health.units[0]: the image has no unit file app.service',
      'update.health.units[1]: the image has no unit file feed@1.service',
      'update.health.units[2]: the image has no unit file legacy.service',
    ]);
  });

  test('needs no IMAGE_VERSION if the configuration names the version', async () => {
    await rm(join(root, 'usr/lib/os-release'));
    await place('etc/thing-agent/config.toml', text.replace('[device]', '[device]\nfactory_version = "1"'));
    expect(await check()).toEqual([[], []]);
  });

  test('is wrong without the certificate authorities that it names: no gateway would reach its service', async () => {
    const files = 'ca_file = "/etc/ca.pem"\nclient_certificate_file = "/etc/c.pem"\nclient_key_file = "/etc/c.key"';
    await place('etc/thing-agent/config.toml', text.replace('[service]', `[service]\n${files}`));
    expect(await check()).toEqual([
      ['service.ca_file: /etc/ca.pem is not in the image'],
      [
        'service.client_certificate_file: /etc/c.pem is not in the image',
        'service.client_key_file: /etc/c.key is not in the image',
      ],
    ]);
  });

  test('and a program without permission to execute is wrong', async () => {
    await chmod(join(root, 'usr/lib/app/healthy'), 0o644);
    expect(await check()).toEqual([['update.health.commands[0]: /usr/lib/app/healthy may not be executed'], []]);
  });

  test('names a private key, and a folder that others may write', async () => {
    await place('etc/trust/release.pem', privatePem);
    await chmod(join(root, 'usr/lib'), 0o777);
    const [problems = []] = await check();
    expect(problems).toEqual([
      expect.stringContaining('/etc/trust/release.pem is refused: it is a private key'),
      expect.stringContaining('/usr/lib can be changed by anyone; fix it with: chmod go-w /usr/lib'),
    ]);
  });

  test('follows its links within the image', async () => {
    await rm(join(root, 'etc/trust'), { recursive: true });
    await place('usr/share/trust/release.pem', publicPem);
    await symlink('/usr/share/trust', join(root, 'etc/trust'));
    expect(await check()).toEqual([[], []]);
    await symlink('/etc/hostname', join(root, 'usr/share/leads-out'));
    expect(await new ImageFiles(root).locate('/usr/share/leads-out')).toBe(join(root, 'etc/hostname'));
    await symlink('../../../../etc/hostname', join(root, 'usr/share/climbs-out'));
    expect(await new ImageFiles(root).locate('/usr/share/climbs-out')).toBe(join(root, 'etc/hostname'));
  });

  // Regression: of a chain of more links than are followed, the rest was followed outside of the image.
  test('follows no more links than Linux does', async () => {
    const key = join(root, 'etc/trust/release.pem');
    await rm(key);
    await symlink('round', join(root, 'etc/trust/round'));
    for (let link = 0; link < 45; link += 1) await symlink(`link-${link + 1}`, join(root, `etc/trust/link-${link}`));
    await place('release.pem', publicPem);
    await symlink(join(root, 'release.pem'), join(root, 'etc/trust/link-45')); // as the machine that builds sees it
    await symlink('link-0', key);
    const [[problem] = []] = await check();
    expect(problem).toMatch(/^trust\.keys\[0\]: \/etc\/trust\/release\.pem cannot be used: .*links/);
    await expect(new ImageFiles(root).locate('/etc/trust/round')).rejects.toMatchObject({ code: 'ELOOP' });
  });

  test('is checked by agent config check --root, or alone with --offline', async () => {
    const run = (...options: string[]): string =>
      execFileSync(agentProgram(), ['config', 'check', ...options], { encoding: 'utf8' });
    const path = join(root, 'etc/thing-agent/config.toml');
    expect(run('--root', root)).toContain(`${path} is valid.`);
    await rm(join(root, 'etc/trust'), { recursive: true });
    expect(() => run('--root', root)).toThrow(expect.objectContaining({ status: 78 }));
    expect(run('--offline', '--config', path)).toContain(`${path} is valid.`);
    expect(run('--offline', '--root', root)).toContain(`${path} is valid.`);
    const nowhere = join(root, 'nowhere');
    expect(() => run('--root', nowhere)).toThrow(
      expect.objectContaining({
        status: 78,
        stdout: expect.stringContaining(`${nowhere}: it is not a directory`) as unknown,
      }),
    );
  });
});
