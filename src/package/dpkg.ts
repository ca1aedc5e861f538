import type { runProgram } from '../system/processes/child-process.ts';
import { PackageError } from './errors.ts';

export interface PackageFields {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
}

const TIMEOUT_MS = 120_000;
/** Bounds the output of a package script. */
const MAX_OUTPUT_BYTES = 64 * 1024;

/** dpkg-deb itself would unpack the control files to read one, and change owners, which the unit may not do. */
const READ_CONTROL =
  'dpkg-deb --ctrl-tarfile "$1" | tar --extract --to-stdout --no-anchored --occurrence=1 --file=- control';

/** The fields that a package states. Throws `package-malformed`. */
export async function readFields(path: string, run: typeof runProgram, signal: AbortSignal): Promise<PackageFields> {
  const options = { timeoutMs: TIMEOUT_MS, maxOutputBytes: MAX_OUTPUT_BYTES };
  const { exitCode, stdout, stderr } = await run(['sh', '-c', READ_CONTROL, 'sh', path], options, signal);
  const field = (name: string): string | undefined => new RegExp(`^${name}: *(\\S+)$`, 'im').exec(stdout)?.[1];
  const [name, architecture, version] = [field('Package'), field('Architecture'), field('Version')];
  if (exitCode === 0 && name !== undefined && architecture !== undefined && version !== undefined)
    return { name, architecture, version };
  const [why = ''] = stderr.trim().split('\n');
  const said = why.replace(/^dpkg-deb: error: /, '').replaceAll(`'${path}'`, 'the payload');
  throw new PackageError('package-malformed', `no package that dpkg can read: ${said}`);
}

/** Refuses a package of another name or architecture, and one that dpkg cannot unpack. */
export async function requireFields(
  path: string,
  wanted: string,
  run: typeof runProgram,
  signal: AbortSignal,
): Promise<void> {
  const { name, architecture } = await readFields(path, run, signal);
  if (name !== wanted) throw new PackageError('package-mismatch', `the package is ${name}, not ${wanted}`);
  const own = (await run(['dpkg', '--print-architecture'], { timeoutMs: TIMEOUT_MS }, signal)).stdout.trim();
  if (architecture !== 'all' && architecture !== own)
    throw new PackageError('package-architecture', `${name} is for ${architecture}, and this system is ${own}`);
}

/** Returns the version that is completely installed, if any. */
export async function describeInstalled(
  name: string,
  run: typeof runProgram,
  signal: AbortSignal,
): Promise<string | undefined> {
  const format = '${db:Status-Status} ${Version}';
  const command = ['dpkg-query', '--show', `--showformat=${format}`, name] as const;
  const { exitCode, stdout } = await run(command, { timeoutMs: TIMEOUT_MS }, signal);
  const [status, version] = stdout.trim().split(' ');
  return exitCode === 0 && status === 'installed' ? version : undefined;
}
