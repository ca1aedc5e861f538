import { ownFs } from './durable-file.ts';

/**
 * Replaces a file that everybody may read: a reader sees the old text or the new one. It is written again soon, and spares the
 * flash memory the flush: after a power cut it may be an older one. Throws the system's error.
 */
export async function publishFile(path: string, text: string): Promise<void> {
  const draft = `${path}.new`;
  {
    await using file = await ownFs.open(draft, 'w', 0o644);
    await file.chmod(0o644); // whatever the umask
    await file.writeFile(text);
  }
  await ownFs.rename(draft, path);
}
