import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import {
  findSerialNumber,
  type SerialNumberSources,
  serialNumberDoubt,
  usableSerialNumber,
} from '../../../../src/system/device/serial-number.ts';

const deviceTree = '/sys/firmware/devicetree/base/serial-number';
const nothingSet = { serialNumber: undefined, serialNumberFile: undefined };

/** A machine with these files and these answers of DMI. */
function machine(files: Readonly<Record<string, string>>, dmi: readonly string[] = []): SerialNumberSources {
  return { readFile: async (path) => files[path], dmi: async () => dmi };
}

async function find(settings: Partial<typeof nothingSet> | object, sources: SerialNumberSources): Promise<string> {
  return findSerialNumber({ ...nothingSet, ...settings }, AbortSignal.timeout(5_000), sources);
}

describe('findSerialNumber', () => {
  const everything = machine({ '/etc/serial': 'FILE-1\n', [deviceTree]: 'TREE-1\0' }, ['DMI-1']);

  test('takes what is configured before all else', async () => {
    expect(await find({ serialNumber: ' GW-1 ', serialNumberFile: '/etc/serial' }, everything)).toBe('GW-1');
  });

  test('takes the configured file before the hardware', async () => {
    expect(await find({ serialNumberFile: '/etc/serial' }, everything)).toBe('FILE-1');
  });

  test('takes the device tree before DMI', async () => {
    expect(await find({}, everything)).toBe('TREE-1');
  });

  test('uses the first of DMI that is not a placeholder', async () => {
    const sources = machine({ [deviceTree]: '0000000000000000\0' }, ['-', 'To Be Filled By O.E.M.', 'BOARD-7']);
    expect(await find({}, sources)).toBe('BOARD-7');
  });

  test('does not ask DMI where the device tree answers', async () => {
    const sources = { ...everything, dmi: async () => Promise.reject(new Error('DMI was asked')) };
    expect(await find({}, sources)).toBe('TREE-1');
  });

  test.each([
    ['that does not exist', undefined, '/etc/gone does not exist'],
    ['that holds a placeholder', 'None\n', '/etc/gone holds no usable serial number'],
  ])('never falls back to the hardware from a configured file %s', async (_, content, why) => {
    const sources = machine({ [deviceTree]: 'TREE-1', ...(content === undefined ? {} : { '/etc/gone': content }) });
    await expect(find({ serialNumberFile: '/etc/gone' }, sources)).rejects.toMatchObject({
      code: 'serial-number-unknown',
      exit: 'configuration',
      remedy: 'retry',
      message: expect.stringContaining(why) as string,
      advice: 'run agent setup, or set [device] serial_number or serial_number_file',
    });
  });

  test('names the setting if the hardware has none', async () => {
    await expect(find({}, machine({}, ['', '-', '0']))).rejects.toMatchObject({
      code: 'serial-number-unknown',
      remedy: 'give-up',
      advice: 'run agent setup, or set [device] serial_number or serial_number_file',
    });
  });

  test('stops waiting for DMI after an abort', async () => {
    const stop = new AbortController();
    const sources = { ...machine({}), dmi: async () => new Promise<readonly string[]>(() => {}) };
    const found = findSerialNumber(nothingSet, stop.signal, sources);
    stop.abort(new Error('stopped'));
    await expect(found).rejects.toThrow('stopped');
  });
});

describe('a serial number that is permitted', () => {
  test.each([
    ['VMware-56 4d', 'a blank'],
    ['GW 1/ü', 'a blank and a slash and a character beyond ASCII'],
  ])('%s is reported as one with %s in it', (text, kinds) => {
    expect(serialNumberDoubt(text)).toContain(` has ${kinds} in it, `);
  });

  test('is left alone where it is plain', () => {
    expect(serialNumberDoubt('GW-0001_a.b')).toBeUndefined();
  });
});

describe('usableSerialNumber', () => {
  test.each(['GW-0001', '1234', '12346', 'SerNum0117', '10000000abcdef01', 'PF2XYZ', 'VMware-56 4d 1a', '2024-0017'])(
    'accepts %s',
    (text) => {
      expect(usableSerialNumber(text)).toBe(text);
    },
  );

  test.each([
    '',
    '0',
    '-',
    '00000000',
    'FFFFFFFF',
    'xxxxxxxx',
    '................',
    'None',
    'none',
    'N/A',
    'To Be Filled By O.E.M.',
    'To be filled by O.E.M',
    'Default string',
    'System Serial Number',
    'Not Specified',
    '123456789',
    '123456',
    '12345678',
    '9876543210',
    'Chassis Serial',
    'No Asset Information',
    '[Empty]',
    '<cut out>',
    'Not Supported by CPU',
    'OEM_Define1',
    'SerNum01',
    'TBD by ODM',
    'Unknow',
    '\u0001\u0002',
    'a\nb',
    'é',
    'x1'.repeat(65),
  ])('refuses %j', (text) => {
    expect(usableSerialNumber(text)).toBeUndefined();
  });

  test('finds a serial number whatever NUL and white space is around it', () => {
    const around = fc.stringMatching(/^[\0 \n\t\r]{0,4}$/);
    fc.assert(
      fc.property(around, around, (before, after) => {
        expect(usableSerialNumber(`${before}GW-0001${after}`)).toBe('GW-0001');
      }),
    );
  });
});
