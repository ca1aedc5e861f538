import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';

import type { KeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import { builtTree } from '../built-agent.ts';
import { tool } from '../tool.ts';
import { debianRootFileSystem } from './debian.ts';
import type { DebianRecipe } from './debian.ts';

const project = resolve(import.meta.dirname, '../../../..');
const MIB = 1024 * 1024;

/** Differences between images: file contents by path; undefined removes a file. */
export type Difference = Readonly<Record<string, string | undefined>>;

export interface SlotImagesOptions {
  /** In every image. What begins with `#!` is a program. */
  readonly files: Readonly<Record<string, string>>;
  /** The same, but not in what all are made from, which others may use. */
  readonly ownFiles?: Difference;
  readonly keys: Pick<KeyPair, 'privatePem' | 'publicPem'>;
  readonly deviceType: string;
  /** Compression of artifacts. Default: none. */
  readonly compression?: 'none' | 'gzip';
  /** Recipe of the root file system. Default: for a container. */
  readonly debian?: DebianRecipe;
  /** The runtime's directory on the machines that boot the images. Default: in the images. */
  readonly runtime?: string;
  /** Makes the image of a root file system that is ready; as for a container, if not given. */
  readonly makeImage?: (root: string, image: string) => Promise<void>;
  /** The image that all others are made from, where it was kept from an earlier time: see `base`. */
  readonly kept?: string;
}

/**
 * Root file systems with the agent installed according to README.md, and their signed artifacts. A user `technician` is
 * a member of the agent's group.
 */
export class SlotImages implements AsyncDisposable {
  readonly #folder: string;
  readonly #options: SlotImagesOptions;
  readonly #base: string;
  #count = 0;

  private constructor(folder: string, options: SlotImagesOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#base = options.kept ?? join(folder, 'base.ext4');
  }

  /** The root file system that all images derive from. */
  get base(): string {
    return this.#base;
  }

  static async open(options: SlotImagesOptions): Promise<SlotImages> {
    const images = new SlotImages(await mkdtemp(join(tmpdir(), 'slot-images-')), options);
    try {
      await writeFile(join(images.#folder, 'private.pem'), options.keys.privatePem);
      if (options.kept === undefined) await images.#makeBase();
      return images;
    } catch (error) {
      await images[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** An ext4 image of its own, to be kept as long as this object lives. */
  async image(difference: Difference = {}): Promise<string> {
    const image = this.#path('ext4');
    await tool(['cp', '--sparse=always', '--reflink=auto', this.#base, image]);
    const removals: string[] = [];
    const writes: string[] = [];
    for (const [path, text] of Object.entries({ ...this.#options.ownFiles, ...difference })) {
      if (text === undefined) removals.push(`rm ${path}`);
      else writes.push(`rm ${path}`, ...(await this.#writing(path, text)));
    }
    await changeImage(image, removals, /^$|^debugfs /);
    await changeImage(image, writes, /^$|^debugfs |File not found|directory already exists/);
    return image;
  }

  /** Makes a signed artifact with such an image, with options of mender-artifact. */
  async artifact(name: string, difference: Difference = {}, options: readonly string[] = []): Promise<string> {
    const image = await this.image(difference);
    const output = await this.sign(name, image, options);
    await rm(image);
    return output;
  }

  /** A signed artifact with this image. */
  async sign(name: string, image: string, options: readonly string[] = []): Promise<string> {
    return this.#write('rootfs-image', name, ['--file', image, ...options]);
  }

  /** A signed artifact with a file for each of several targets: target → file. Boards among them come in the order given. */
  async signParts(name: string, parts: Readonly<Record<string, string>>, boards: readonly string[]): Promise<string> {
    const targets = Object.fromEntries(Object.entries(parts).map(([target, file]) => [basename(file), target]));
    const description = this.#path('json');
    await writeFile(description, JSON.stringify({ targets, order: boards }));
    const files = Object.values(parts).flatMap((file) => ['--file', file]);
    return this.#write('module-image', name, ['--type', 'thing-firmware', ...files, '--meta-data', description]);
  }

  async #write(kind: string, name: string, contents: readonly string[]): Promise<string> {
    const output = this.#path('mender');
    const { deviceType, compression = 'none' } = this.#options;
    const key = join(this.#folder, 'private.pem');
    const common = ['--artifact-name', name, '--device-type', deviceType, '--compression', compression, '--key', key];
    await tool(['mender-artifact', 'write', kind, ...common, ...contents, '--output-path', output]);
    return output;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }

  #path(ending: string): string {
    this.#count += 1;
    return join(this.#folder, `${this.#count}.${ending}`);
  }

  async #writing(path: string, text: string): Promise<readonly string[]> {
    const file = this.#path('file');
    await writeFile(file, text);
    await chmod(file, text.startsWith('#!') ? 0o755 : 0o644);
    const parents = parentsOf(path).map((parent) => `mkdir ${parent}`);
    return [...parents, `write ${file} ${path}`];
  }

  async #makeBase(): Promise<void> {
    const { keys, files, runtime } = this.#options;
    const root = join(this.#folder, 'root');
    // the pinned runtime belongs to an image that has one
    const tree = (runtime === undefined ? undefined : builtTree()) ?? (await this.#build());
    await mkdir(root);
    await tool(['tar', '-xf', await debianRootFileSystem(this.#options.debian), '-C', root]);
    await tool([join(tree, 'systemd/install'), '--root', root, '--enable']);
    await tool(['chroot', root, 'useradd', '--no-create-home', '--groups', 'thing-operators', 'technician']);
    await tool(['chroot', root, 'useradd', '--no-create-home', '--groups', 'thing-agent', 'reader']);
    const all = {
      ...files,
      '/etc/thing-agent/trust/release.pem': keys.publicPem,
      '/etc/machine-id': '',
      '/etc/hosts': '127.0.0.1 localhost\n',
      // Masked: a login prompt hangs up the console first, and takes words of the journal with it.
      '/etc/systemd/system/console-getty.service': '',
      // It fails in a container of Debian 13.
      '/etc/systemd/system/systemd-modules-load.service': '',
    };
    for (const [path, text] of Object.entries(all)) await this.#put(join(root, path), text);
    if (runtime !== undefined) await leaveOut(root, runtime);
    await (this.#options.makeImage ?? makeContainerImage)(root, this.#base);
    await rm(root, { recursive: true });
  }

  async #build(): Promise<string> {
    const tree = join(this.#folder, 'tree');
    await tool(['npm', 'run', '--silent', '--prefix', project, 'build', '--', '--out', tree]);
    return tree;
  }

  async #put(path: string, text: string): Promise<void> {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text, { flag: 'w' });
    await chmod(path, text.startsWith('#!') ? 0o755 : 0o644);
  }
}

/**
 * Removes three quarters of 280 MiB, and of each update's cost: the runtime, and files that these machines never use.
 */
async function leaveOut(root: string, runtime: string): Promise<void> {
  const unused = 'usr/bin/perl* usr/share/perl* usr/lib/*/perl* usr/lib/*/libperl* usr/lib/*/gconv var/lib/dpkg/info';
  await tool(['sh', '-c', `cd "$1" && rm -rf ${unused}`, 'sh', root]);
  const place = join(root, 'usr/lib/thing-agent/tree.a/bin/node');
  await rm(place);
  await symlink(join(runtime, 'node'), place);
  await mkdir(join(root, runtime), { recursive: true });
}

async function makeContainerImage(root: string, image: string): Promise<void> {
  const sizeBytes = Number.parseInt(await tool(['du', '-s', '--block-size=1', root]), 10);
  const size = `${Math.ceil((sizeBytes * 1.05) / MIB) + 16}M`;
  await tool(['mkfs.ext4', '-q', '-F', '-b', '4096', '-m', '0', '-O', '^has_journal', '-d', root, image, size]);
}

/** debugfs continues after an error and exits with 0: its output shows the result. */
async function changeImage(image: string, commands: readonly string[], harmless: RegExp): Promise<void> {
  const said = await tool(['sh', '-c', `debugfs -w -f - '${image}' 2>&1 >/dev/null`], { input: commands.join('\n') });
  const complaints = said.split('\n').filter((line) => !harmless.test(line));
  if (complaints.length > 0) throw new Error(`debugfs: ${complaints.join('; ')}`);
}

function parentsOf(path: string): readonly string[] {
  const parent = dirname(path);
  return parent === '/' ? [] : [...parentsOf(parent), parent];
}
