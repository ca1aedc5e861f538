import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { gpioSource } from '../../../../src/telemetry/sources/gpio.ts';
import { built } from '../../../fakes/boards/build.ts';

const timeoutMs = 20_000;
const deadline = (): AbortSignal => AbortSignal.timeout(timeoutMs);

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Debian 12 has 1, Debian 13 has 2. */
const installed = / v?2\./.test(execFileSync('gpioget', ['--version'], { encoding: 'utf8' })) ? 2 : 1;

/** The real program, with a simulated chip instead of the kernel's character device. */
describe(`gpioget of libgpiod as installed: version ${installed}`, () => {
  let programs: string;

  /** A child has nothing of our environment: the program is put behind one that knows where its chip stands. */
  beforeEach(async () => {
    const source = join(import.meta.dirname, 'gpiochip.c');
    const chip = await built('gpiochip.so', [source], `gcc -O2 -Wall -shared -fPIC ${source} -ldl -o`);
    programs = mkdtempSync(join(tmpdir(), 'gpiochip-'));
    const script = `#!/bin/sh\nLD_PRELOAD=${chip} GPIOCHIP=0010 PATH="\${PATH#*:}" exec gpioget "$@"\n`;
    writeFileSync(join(programs, 'gpioget'), script, { mode: 0o755 });
    vi.stubEnv('PATH', `${programs}:${process.env['PATH']}`);
  });
  afterEach(() => {
    rmSync(programs, { recursive: true });
  });

  test.each([
    ['gpiochip0', 2, 1],
    ['gpiochip0', 3, 0],
    ['/dev/gpiochip0', 2, 1],
    ['0', 2, 1],
  ])('reads of chip %s line %d: %d', async (chip, line, value) => {
    expect(await gpioSource(chip, line, installed, timeoutMs).read(deadline())).toBe(value);
  });

  test('reports why there is no reading: no such line, no such chip', async () => {
    await expect(gpioSource('gpiochip0', 4, installed, timeoutMs).read(deadline())).rejects.toMatchObject({
      code: 'source-failed',
      message: expect.stringMatching(/Invalid argument|out of range/) as unknown,
    });
    await expect(gpioSource('gpiochip7', 0, installed, timeoutMs).read(deadline())).rejects.toThrow(
      /No such file or directory|cannot find GPIO chip/,
    );
  });
});

/** A script that follows gpioget(1) of libgpiod 2, for a machine with version 1. */
describe('gpioget of libgpiod 2', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'gpiod-'));
    const script = `#!/bin/sh
[ "$#" = 4 ] && [ "$1 $2 $3 $4" = "--numeric --chip gpiochip0 2" ] || { echo "gpioget: $*" >&2; exit 1; }
echo 1
`;
    writeFileSync(join(folder, 'gpioget'), script, { mode: 0o755 });
    vi.stubEnv('PATH', `${folder}:${process.env['PATH']}`);
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  test('is requested as a number', async () => {
    expect(await gpioSource('gpiochip0', 2, 2, timeoutMs).read(deadline())).toBe(1);
  });
});
