import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import process from 'node:process';

import * as z from 'zod';

import { mebibytes, writeFigures } from './run-tool.ts';

/** `agent artifact delta` where releases are made. With `--json FILE` what it answers to programs goes there. */

const command = [join(import.meta.dirname, '../../src/main.ts'), 'artifact', 'delta'];
const answer = z.looseObject({
  path: z.string(),
  deltaBytes: z.number(),
  result: z.looseObject({ sizeBytes: z.number() }),
});

process.chdir(process.env['INIT_CWD'] ?? process.cwd());
process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  const json = args.indexOf('--json');
  const named = json === -1 ? undefined : args[json + 1];
  const file = named?.startsWith('-') === true ? undefined : named;
  const words = file === undefined ? args : args.toSpliced(json + 1, 1);
  const stdout = file === undefined ? 'inherit' : 'pipe';
  const ended = spawnSync(process.execPath, [...command, ...words], { stdio: ['inherit', stdout, 'inherit'] });
  if (file === undefined || ended.status !== 0) return ended.status ?? 1;
  const figures = answer.parse(JSON.parse(ended.stdout.toString()));
  await writeFigures(resolve(file), figures);
  const { path, deltaBytes, result } = figures;
  process.stdout.write(`${path}: ${mebibytes(deltaBytes)} for an image of ${mebibytes(result.sizeBytes)}\n`);
  return 0;
}
