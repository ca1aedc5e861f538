import { spawn } from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

export interface GrubChoice {
  /** All variables of the environment, as lines, after the first start. */
  readonly environment: string;
  /** The menu entry that GRUB would start, at each of the next starts if none of them comes up. */
  readonly starts: readonly string[];
  /** Parameters that the script adds to the kernel's command line at the first start. */
  readonly told: string;
  /** Error output of GRUB at the first start. */
  readonly complaint: string | undefined;
}

interface Start {
  readonly start: string;
  readonly told: string;
  readonly environment: string;
  readonly complaint: string | undefined;
}

/** On a machine that has no time for it: no verdict then. */
const DEADLINE_SECONDS = 300;
/** timeout(1). */
const TIMED_OUT = '*** exit 124';

/** The test's part in GRUB's own language: it loads the disk's configuration, up to its menu. */
const wrapper = `
set root=(hd0,gpt1)
set prefix=(hd0,gpt1)/grub
source $prefix/grub.cfg
echo "+++ default=$default told=$TOLD +++"
list_env
echo "+++"
halt
`;

/**
 * Debian's GRUB as a program (grub-emu): its own readers, its shell and its save_env, on the partitions of a disk in a file. A
 * small shell starts it: a process as large as ours is slow to fork.
 */
export class GrubProgram implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'grub-emu-'));
  readonly #shell: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string, undefined>;
  readonly #followers = new Map<string, readonly string[]>();
  /** Number of starts of GRUB. */
  count = 0;

  constructor(disk: string) {
    const map = join(this.#folder, 'device.map');
    writeFileSync(map, `(hd0) ${disk}\n`);
    writeFileSync(join(this.#folder, 'grub.cfg'), wrapper);
    const once = `timeout ${DEADLINE_SECONDS} grub-emu -m "$1" -d "$2" </dev/null 2>&1; code=$?; echo; echo "*** exit $code"`;
    const script = ['-c', `while read -r _; do ${once}; done`, 'sh', map, this.#folder];
    this.#shell = spawn('sh', script, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#shell.stdout.setEncoding('latin1') })[Symbol.asyncIterator]();
  }

  /**
   * Starts so many times in a row; what GRUB writes stays on the disk. The starts after the first depend on the environment
   * that the first one leaves, and on `circumstances`: where both are known, so are these starts.
   */
  async start(times: number, circumstances: string): Promise<GrubChoice> {
    const { start, environment, told, complaint } = await this.#once();
    const key = `${environment}|${circumstances}`;
    const known = this.#followers.get(key);
    if (known !== undefined) return { starts: [start, ...known], environment, told, complaint };
    const followers: string[] = [];
    while (followers.length < times - 1) followers.push((await this.#once()).start);
    if (complaint === undefined) this.#followers.set(key, followers);
    return { starts: [start, ...followers], environment, told, complaint };
  }

  async #once(): Promise<Start> {
    this.count += 1;
    this.#shell.stdin.write('\n');
    let said = '';
    let line = await this.#line();
    for (; !line.startsWith('*** exit'); line = await this.#line()) said += `${line}\n`;
    if (line === TIMED_OUT) throw new Error(`GRUB did not end within ${DEADLINE_SECONDS} s`);
    const [, start, told = ''] = /\+\+\+ default=(\S*) told=(\S*) \+\+\+/.exec(said) ?? [];
    const complaint = /error: (?!terminal `|can't find command `serial)([^\r\n]*)/.exec(said)?.[1];
    const environment = (/default=[^+]*\+\+\+([^]*)\+\+\+/.exec(said)?.[1] ?? '').replaceAll('\r', '');
    return { start: start === undefined || start === '' ? 'nothing' : start, environment, told, complaint };
  }

  async #line(): Promise<string> {
    const next: IteratorResult<string, undefined> = await this.#lines.next();
    if (next.done === true) throw new Error('the shell that starts GRUB has ended');
    return next.value;
  }

  [Symbol.dispose](): void {
    this.#shell.stdin.end();
    rmSync(this.#folder, { recursive: true });
  }
}
