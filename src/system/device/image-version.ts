import { describeError, systemErrorCode } from '../errors.ts';
import { OutsideFileError, readUntrustedFile } from '../files/untrusted-file.ts';
import type { Log } from '../log/log.ts';

export interface ImageVersionSettings {
  readonly factoryVersion: string | undefined;
  /** The file that holds the version. Omitted: os-release. */
  readonly factoryVersionFile: string | undefined;
}

/** Source: os-release(5). The first file that exists is read. */
export const OS_RELEASE = ['/etc/os-release', '/usr/lib/os-release'];

const MAX_FILE_BYTES = 65_536;
const MAX_VERSION_LENGTH = 200;

/**
 * Returns the version of the running image: the configured one, else the one in the configured file, else IMAGE_VERSION
 * of os-release, whose VERSION_ID usually belongs to a distribution. Returns undefined if the image has no version.
 */
export async function findImageVersion(
  { factoryVersion, factoryVersionFile }: ImageVersionSettings,
  log: Log,
  defaults: readonly string[] = OS_RELEASE,
): Promise<string | undefined> {
  if (factoryVersion !== undefined) return factoryVersion.trim();
  if (factoryVersionFile !== undefined) return versionInFile((await firstText([factoryVersionFile], log)) ?? '');
  return osRelease((await firstText(defaults, log)) ?? '').get('IMAGE_VERSION');
}

/** The version in a file that the operator chose: in the form of os-release, or alone in the first line. */
export function versionInFile(text: string): string | undefined {
  const variables = osRelease(text);
  if (variables.size > 0) return variables.get('IMAGE_VERSION') ?? variables.get('VERSION_ID');
  return usable(text.split('\n', 1)[0] ?? '');
}

/** The variables of an os-release file, unquoted; those without a value are left out. */
function osRelease(text: string): ReadonlyMap<string, string> {
  const variables = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [, name, value] = /^([A-Z][A-Z0-9_]*)=(.*)$/.exec(line.trim()) ?? [];
    const found = usable(unquoted(value ?? ''));
    if (name !== undefined && found !== undefined) variables.set(name, found);
  }
  return variables;
}

function unquoted(value: string): string {
  const quote = value.at(0);
  const isQuoted = value.length > 1 && (quote === '"' || quote === "'") && value.endsWith(quote);
  return (isQuoted ? value.slice(1, -1) : value).replaceAll(/\\(["'$`\\])/g, '$1');
}

function usable(version: string): string | undefined {
  const trimmed = version.trim();
  return trimmed === '' || trimmed.length > MAX_VERSION_LENGTH ? undefined : trimmed;
}

async function firstText(paths: readonly string[], log: Log): Promise<string | undefined> {
  for (const path of paths) {
    try {
      return (await readUntrustedFile(path, { maxBytes: MAX_FILE_BYTES })).toString('utf8');
    } catch (error) {
      if (!(error instanceof OutsideFileError) && systemErrorCode(error) === undefined) throw error;
      if (systemErrorCode(error) !== 'ENOENT')
        log.warn({ path }, `cannot read the version of this image: ${describeError(error)}`);
    }
  }
  return undefined;
}
