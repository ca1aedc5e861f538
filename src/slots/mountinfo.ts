/**
 * A mount, from /proc/self/mountinfo. Source: Linux Documentation/filesystems/proc.rst, section 3.5, and
 * Documentation/filesystems/overlayfs.rst for the layers.
 */
export interface Mount {
  /** `MAJOR:MINOR` of the file system. Major 0 means that it has no block device of its own (overlay, btrfs, nfs). */
  readonly device: string;
  readonly mountPoint: string;
  /** The part of the file system that is seen there; `/`: all of it. */
  readonly root: string;
  readonly fileSystem: string;
  /** The mounted source: often the path of a device, sometimes a word. */
  readonly source: string;
  /** The options of the file system, as `name` or `name=value`. */
  readonly options: readonly string[];
}

/**
 * Parses mounts in the kernel's order, in which later ones lie over earlier ones. Lines of another form are left out.
 */
export function parseMountinfo(text: string): readonly Mount[] {
  return text.split('\n').flatMap((line) => {
    const mount = parseLine(line);
    return mount === undefined ? [] : [mount];
  });
}

function parseLine(line: string): Mount | undefined {
  const fields = line.split(' ');
  // A lone hyphen ends the optional fields, of which there may be none.
  const separator = fields.indexOf('-', 6);
  const [device, root, mountPoint] = fields.slice(2);
  const [fileSystem, source, options] = fields.slice(separator + 1);
  if (separator === -1 || device === undefined || root === undefined || mountPoint === undefined) return undefined;
  if (!/^\d+:\d+$/u.test(device)) return undefined;
  if (fileSystem === undefined || source === undefined) return undefined;
  return {
    device,
    mountPoint: unescapeOctal(mountPoint),
    root: unescapeOctal(root),
    fileSystem,
    source: unescapeOctal(source),
    options: (options ?? '').split(',').map(unescapeOctal),
  };
}

/**
 * Parses the paths in /proc/swaps. Source: proc(5): a heading, then one area per line with its path first, escaped as
 * in mountinfo.
 */
export function parseSwaps(text: string): readonly string[] {
  const lines = text.split('\n').slice(1);
  return lines.flatMap((line) => /^\S+/u.exec(line) ?? []).map(unescapeOctal);
}

/** The mount that holds a path: the one with the longest mount point above it, and of several the last one. */
export function coveringMount(path: string, mounts: readonly Mount[]): Mount | undefined {
  const above = mounts.filter(({ mountPoint }) => leadsTo(mountPoint, path));
  return above.toSorted((a, b) => a.mountPoint.length - b.mountPoint.length).at(-1);
}

/** The layer of an overlay that is written to. */
export function upperLayer({ options }: Mount): string | undefined {
  return options.find((option) => option.startsWith('upperdir='))?.slice('upperdir='.length);
}

/**
 * Returns the read-only layers of an overlay (`lowerdir=a:b`, `lowerdir+=a`), which contain an image; empty for other
 * mounts.
 */
export function lowerLayers(mount: Mount): readonly string[] {
  if (mount.fileSystem !== 'overlay') return [];
  return mount.options.flatMap((option) => {
    const value = /^lowerdir\+?=(.*)$/su.exec(option)?.[1];
    const layers = value?.split(/(?<!\\):/u).map((layer) => layer.replaceAll(/\\(.)/gsu, '$1')) ?? [];
    return layers.filter((layer) => layer.startsWith('/'));
  });
}

function leadsTo(mountPoint: string, path: string): boolean {
  return mountPoint === '/' || path === mountPoint || path.startsWith(`${mountPoint}/`);
}

function unescapeOctal(field: string): string {
  return field.replaceAll(/\\([0-3][0-7]{2})/gu, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
