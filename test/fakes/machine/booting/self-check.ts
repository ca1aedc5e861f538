import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const script = readFileSync(join(import.meta.dirname, 'self-check.sh'), 'utf8');
const program = '/usr/lib/app/self-check';

/** Files of an image that checks itself after each start, and prints the result on its console. */
export const selfCheckFiles: Readonly<Record<string, string>> = {
  [program]: script,
  '/etc/systemd/system/multi-user.target.d/self-check.conf': '[Unit]\nWants=self-check.service\n',
  '/etc/systemd/system/self-check.service': `[Service]\nType=exec\nExecStart=${program}\nStandardOutput=tty\nTTYPath=/dev/console\n`,
};

export const selfCheckPassed = /\*\*\* self-check: ok/;

/** Checks a system through a function that runs a command in it as root and returns the output. */
export async function selfCheck(tell: (...command: readonly string[]) => Promise<string>): Promise<void> {
  const said = await tell('sh', '-c', script);
  if (!selfCheckPassed.test(said)) throw new Error(said);
}
