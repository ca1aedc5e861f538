import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { agentProgram } from '../../../fakes/machine/built-agent.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../../fakes/machine/file-gateway.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';

const image = Buffer.alloc(4096, 'healthy');

let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  const versions = [{ id: '1.0' }, { id: '1.1', firmware: randomContent(4096) }];
  service = untilTestEnds(await startStandIn({ versions, currentVersionId: '1.0' }));
  gateway = untilTestEnds(await FileGateway.create(options()));
});

/** Returns the hour in UTC after this number of hours. */
function hour(hours: number): string {
  return new Date(Date.now() + hours * 3_600_000).toISOString().slice(11, 13);
}

/** The window is open in UTC. */
function options(more: Partial<FileGatewayOptions> = {}): FileGatewayOptions {
  return {
    serviceUrl: service.url,
    image,
    slotBytes: 1024 * 1024,
    program: agentProgram(),
    updateToml: `window = "${hour(-1)}:00-${hour(1)}:59"`,
    reports: false,
    ...more,
  };
}

// nodejs/node#4022, #11586: the runtime reads the zone once.
test('a changed time zone takes effect without a restart', async () => {
  const ownEtc = join(gateway.directory, 'own-etc');
  const overlay = 'lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work';
  await writeFile(
    ownEtc,
    `#!/bin/sh
mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work && mount -t overlay none -o ${overlay} /etc || exit
ln -sfn /usr/share/zoneinfo/Etc/UTC /etc/localtime
exec ${agentProgram()} "$@"
`,
  );
  await chmod(ownEtc, 0o755);
  const program = join(gateway.directory, 'apart');
  await writeFile(program, `#!/bin/sh\nunset TZ\nexec unshare -m ${ownEtc} "$@"\n`);
  await chmod(program, 0o755);
  const factory = 'schedule = "0 0 1 1 *"';
  // Closed in UTC and open in Tokyo, so that the daemon's own check does not install it before the zone changes.
  const updateToml = `${factory}\nwindow = "${hour(8)}:00-${hour(10)}:59"`;
  const apart = untilTestEnds(await FileGateway.create(options({ program, updateToml })));
  service.world.targetVersionId = '1.1';
  const { pid } = await apart.startDaemon();
  expect((await apart.run('--update-now')).stdout).toContain('(outside-window)');
  await tool(['nsenter', '-m', '-t', String(pid), 'ln', '-sfn', '/usr/share/zoneinfo/Asia/Tokyo', '/etc/localtime']);
  expect((await apart.run('--update-now')).stdout).toContain('1.1 is staged in slot B');
});

describe('a time zone that the runtime does not know', () => {
  // nodejs/node#46246: the runtime silently takes UTC.
  test.each(['AEST-10AEDT,M10.1.0,M4.1.0/3', 'CET-1CEST', '<+0330>-3:30'])('is refused: %s', async (zone) => {
    const TZ = { TZ: zone };
    expect((await gateway.runIn(TZ, 'doctor')).stdout).toMatch(/FAIL {2}local time +on .* local time is UTC\+/);
    expect(await gateway.runIn(TZ, 'config', 'check')).toMatchObject({ exitCode: 78 });
    expect((await gateway.runIn(TZ, '--update-now')).stdout).toContain('(config-unusable)');
    expect(await gateway.runIn(TZ, 'run')).toMatchObject({
      exitCode: 78,
      stderr: expect.stringContaining('time-zone-unsupported') as string,
    });
  });

  test.each(['Australia/Sydney', 'AEST-10', 'PST8PDT', ':/etc/localtime', ''])('is not %s', async (zone) => {
    expect((await gateway.runIn({ TZ: zone }, 'doctor')).stdout).toMatch(
      /ok {4}local time +\d\d:\d\d .*, matches the system/,
    );
    expect(await gateway.runIn({ TZ: zone }, 'config', 'check')).toMatchObject({ exitCode: 0 });
  });
});
