import { access } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const LOOKS = 250;
const LOOK_MS = 20;

/** nginx writes its process id once it listens. */
export async function nginxListens(pidFile: string): Promise<void> {
  for (let look = 0; look < LOOKS; look += 1) {
    const isThere = await access(pidFile).then(
      () => true,
      () => false,
    );
    if (isThere) return;
    await sleep(LOOK_MS);
  }
  throw new Error('nginx does not listen');
}
