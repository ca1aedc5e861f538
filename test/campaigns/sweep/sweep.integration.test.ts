import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { howMuch } from '../../full.ts';

/** Every n-th of the cases that `npm run sweep` plays in full, and as many random ones in proportion. */
const CASES = 100;
/** In part, the bootloader with the most stories: each story is rehearsed before it is interrupted. */
const SCENARIO = howMuch('', 'uboot/');
const DEADLINE_MS = 600_000;

test(
  `${CASES} histories of cuts, kills and faults end without a broken promise`,
  async () => {
    const args = [
      join(import.meta.dirname, 'sweep.ts'),
      '--cases',
      String(CASES),
      '--seed',
      '1',
      '--scenario',
      SCENARIO,
    ];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const output = child.stdout.setEncoding('utf8').toArray();
    const [exitCode] = (await once(child, 'close')) as [number | null];
    const text = (await output).join('');
    console.log(text);
    expect({ exitCode, text }).toMatchObject({ exitCode: 0 });
    expect(Number(/^(\d+) cases \(/m.exec(text)?.[1])).toBeGreaterThanOrEqual(CASES);
  },
  DEADLINE_MS,
);
