import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { tool } from '../tool.ts';

/**
 * A control group for one container. nspawn puts the control group of its systemd below its own. Two containers started
 * in the same group would share one `system.slice/thing-agent.service`, and with it the devices that the other's unit
 * may not open.
 */
export class OwnCgroup implements AsyncDisposable {
  readonly path = join(ownPlace(), `container-${randomUUID()}`);
  /** Shell commands: this shell is in it from then on. */
  readonly enter = `echo 0 >'${this.path}/cgroup.procs'`;

  constructor() {
    mkdirSync(this.path);
  }

  /** Processes that were killed with the container disappear a moment later. */
  async [Symbol.asyncDispose](): Promise<void> {
    const gone =
      'cd "$1" && while grep -q "^populated 1" cgroup.events; do :; done; find "$1" -depth -type d -exec rmdir {} +';
    await tool(['timeout', '30', 'sh', '-c', gone, 'sh', this.path]);
  }
}

/** The control group of this process: proc(5), /proc/self/cgroup, hierarchy 0. */
function ownPlace(): string {
  const mounted = /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/self/mounts', 'utf8'))?.[1];
  const own = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1];
  if (mounted === undefined || own === undefined) throw new Error('this machine has no cgroup2 to start containers in');
  return join(mounted, own);
}
