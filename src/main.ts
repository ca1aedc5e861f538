import process from 'node:process';

import { program } from './program.ts';
import { describeError, exitCodes, systemErrorCode } from './system/errors.ts';

/** A defect: one line for the operator, and its location for the developer. systemd starts the daemon again. */
process.on('uncaughtException', (error) => {
  const where =
    error.stack
      ?.split('\n')
      .find((line) => line.startsWith('    at '))
      ?.trim() ?? 'at an unknown place';
  process.stderr.write(`agent: unexpected failure: ${describeError(error)} (${where})\n`);
  process.exit(70);
});

let isOutputLost = false;

/** A reader that went away is not missed; a disk that is full makes a report worth nothing. */
process.stdout.on('error', (error) => {
  if (isOutputLost || systemErrorCode(error) === 'EPIPE') return;
  isOutputLost = true;
  process.exitCode = exitCodes.disk;
  process.stderr.write(`agent: the output was lost: ${describeError(error)}\n`);
});

async function run(): Promise<void> {
  const exitCode = await program(process.argv.slice(2));
  process.exitCode = isOutputLost ? exitCodes.disk : exitCode;
}

void run(); // not awaited here, since the built file is not an ES module
