import { describe, expect, test } from 'vitest';

import { rebootCommand } from '../../../../src/system/processes/machine.ts';

describe('rebootCommand', () => {
  test.each([
    [['systemctl', 'reboot'], undefined, ['systemctl', 'reboot']],
    [['systemctl', 'reboot'], '0 tryboot', ['systemctl', 'reboot', '--reboot-argument=0 tryboot']],
    [['/bin/systemctl', 'reboot'], '0 tryboot', ['/bin/systemctl', 'reboot', '--reboot-argument=0 tryboot']],
    [['reboot'], '0 tryboot', ['reboot', '0 tryboot']],
    [['/sbin/reboot', '-f'], undefined, ['/sbin/reboot', '-f']],
    [['restart', '--with={argument}', 'now'], '0 tryboot', ['restart', '--with=0 tryboot', 'now']],
    [['restart', '--with={argument}', 'now'], undefined, ['restart', 'now']],
    [['systemctl', 'kexec', '{argument}'], '$&', ['systemctl', 'kexec', '$&']],
  ] as const)('makes of %j and the argument %j: %j', (command, argument, expected) => {
    expect(rebootCommand(command, argument)).toEqual(expected);
  });
});
