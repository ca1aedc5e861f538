import { readdir, stat } from 'node:fs/promises';
import { extname, isAbsolute } from 'node:path';

import { findImageVersion, OS_RELEASE } from '../../system/device/image-version.ts';
import { valueOrUndefined } from '../../system/errors.ts';
import { ImageFiles } from '../../system/files/image-files.ts';
import { describeExposures } from '../../system/files/protected-file.ts';
import { readUntrustedFile } from '../../system/files/untrusted-file.ts';
import { silentLog } from '../../system/log/log.ts';
import type { RequiredFileKind } from '../../system/settings/values.ts';
import type { Finding } from '../cross-check.ts';
import { ConfigError } from '../errors.ts';
import { findingAt } from '../file/problems.ts';
import { DEFAULT_CONFIG_PATH } from '../read-config.ts';
import { findFileProblem, guarded, MISSING, secrets } from './referenced-file.ts';
import { checkReferences } from './references.ts';
import type { CheckedReferences } from './references.ts';
import type { ValidSubset } from './valid-subset.ts';

/** Paths that are not in the image: other partitions, and files of the running kernel. */
const OF_THE_GATEWAY = /^\/(boot|data|dev|mnt|proc|run|srv|sys|var)(\/|$)/;
const MAX_PASSWD_BYTES = 1024 * 1024;

/** Files that each gateway may get for itself, and programs that may come with an application. */
const mayAppearLater: ReadonlySet<RequiredFileKind | 'user'> = new Set([
  ...secrets,
  'certificates',
  'own program',
  'program',
]);

/**
 * Returns the path of the configuration of an image, unless another one was named. Throws `config-unreadable` if there
 * is no image.
 */
export async function pathInImage(root: string, path: string): Promise<string> {
  if (!(await isFolder(root)))
    throw new ConfigError('config-unreadable', root, [
      { line: undefined, message: 'it is not a directory with an image' },
    ]);
  return path === DEFAULT_CONFIG_PATH ? new ImageFiles(root).locate(path) : path;
}

/** Checks the image to which a configuration belongs, and the files, users and units that it names. Devices are not checked. */
export async function findInImage(right: ValidSubset, root: string): Promise<CheckedReferences> {
  const image = new ImageFiles(root);
  const users = await usersIn(image);
  const { wrong, doubtful } = await checkReferences(right, async ({ name, need }) => {
    if (need === 'user') {
      const isKnown = /^\d+$/.test(name) || users.has(name);
      return isKnown ? undefined : { why: `the image has no user ${name}`, isDoubtful: true };
    }
    const why = await examine(name, need, image);
    if (why === MISSING) return { why: `${name} is not in the image`, isDoubtful: mayAppearLater.has(need) };
    return why === undefined ? undefined : { why: `${name} ${why}`, isDoubtful: false };
  });
  return {
    wrong,
    doubtful: [...doubtful, ...(await versionFindings(right, image)), ...(await unitFindings(right, image))],
  };
}

async function versionFindings({ tables: { device } }: ValidSubset, image: ImageFiles): Promise<readonly Finding[]> {
  if (device?.factory_version_file !== undefined) return [];
  const settings = { factoryVersion: device?.factory_version, factoryVersionFile: undefined };
  const places = await Promise.all(OS_RELEASE.map(async (path) => valueOrUndefined(image.locate(path))));
  const readable = places.filter((place) => place !== undefined);
  if ((await findImageVersion(settings, silentLog, readable)) !== undefined) return [];
  const message =
    'IMAGE_VERSION is not set in /etc/os-release of the image: a new gateway downloads the version that it already runs';
  return [{ path: ['device'], message }];
}

/** Source: systemd.unit(5). */
const unitFolders = ['/etc', '/usr/local/lib', '/usr/lib', '/lib'].map((folder) => `${folder}/systemd/system`);
/** Types of units that often have no file: generators and devices create them. */
const WITHOUT_FILE = /\.(?:automount|device|mount|scope|slice|swap)$/;

async function unitFindings(
  { tables: { update }, placeOf }: ValidSubset,
  image: ImageFiles,
): Promise<readonly Finding[]> {
  const folders = await Promise.all(unitFolders.map(async (folder) => valueOrUndefined(namesBelow(folder, image))));
  const names = folders.flatMap((found) => found ?? []);
  const disabled = ['thing-agent.service', 'thing-agent-trial.timer'].filter(
    (unit) => !names.some((name) => name.endsWith(`.wants/${unit}`)),
  );
  const enable = `systemctl --root=${image.root} enable thing-agent`;
  const found = disabled.map((unit) => ({ path: [], message: `the image does not enable ${unit}: ${enable}` }));
  const missing = (update?.health.units ?? []).flatMap((unit, index) => {
    const path = placeOf(['update', 'health', 'units', index]);
    const file = unit.includes('.') ? unit : `${unit}.service`;
    const [template] = file.split('@', 1);
    const files = [file, `${template}@${extname(file)}`];
    if (path === undefined || WITHOUT_FILE.test(file) || files.some((name) => names.includes(name))) return [];
    return [findingAt(path, `: the image has no unit file ${file}`)];
  });
  return [...found, ...missing];
}

async function namesBelow(folder: string, image: ImageFiles): Promise<readonly string[]> {
  return readdir(await image.locate(folder), { recursive: true });
}

async function examine(file: string, need: RequiredFileKind, image: ImageFiles): Promise<string | undefined> {
  if (need === 'slot' || need === 'device' || !isAbsolute(file) || OF_THE_GATEWAY.test(file)) return undefined;
  if (guarded.has(need) || need === 'handler' || need === 'own program') {
    const exposures = await image.exposuresOf(file);
    if (exposures.length > 0) return `is not trusted: ${describeExposures(exposures)}`;
  }
  return findFileProblem(file, need, async (path) => image.locate(path));
}

async function isFolder(path: string): Promise<boolean> {
  return (await valueOrUndefined(stat(path)))?.isDirectory() ?? false;
}

async function usersIn(image: ImageFiles): Promise<ReadonlySet<string>> {
  const read = async (): Promise<Buffer> =>
    readUntrustedFile(await image.locate('/etc/passwd'), { maxBytes: MAX_PASSWD_BYTES });
  const lines = String((await valueOrUndefined(read())) ?? '').split('\n');
  return new Set(lines.map((line) => line.split(':', 1)[0] ?? ''));
}
