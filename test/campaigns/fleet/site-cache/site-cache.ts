import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { freePort } from '../../../fakes/machine/free-port.ts';
import { nginxListens } from '../../../fakes/machine/nginx.ts';

/** nginx of Debian with site-cache.conf, in front of the stand-in. */
export class SiteCache implements AsyncDisposable {
  readonly folder: string;
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(folder: string, url: string, child: ChildProcess) {
    this.folder = folder;
    this.url = url;
    this.#child = child;
  }

  static async start(serviceUrl: string): Promise<SiteCache> {
    const folder = await mkdtemp(join(tmpdir(), 'site-cache-'));
    const listen = `127.0.0.1:${await freePort()}`;
    const template = await readFile(join(import.meta.dirname, 'site-cache.conf'), 'utf8');
    const site = template.replaceAll('SERVICE', serviceUrl).replaceAll('FOLDER', folder).replaceAll('LISTEN', listen);
    const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
    const main = `daemon off; master_process off; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
events { worker_connections 256; }
http {
  ${places.map((name) => `${name}_temp_path ${folder}/${name};`).join(' ')}
  ${site}
}`;
    await writeFile(join(folder, 'nginx.conf'), main);
    const child = spawn('nginx', ['-e', join(folder, 'error.log'), '-c', join(folder, 'nginx.conf')], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const died = once(child, 'exit').then(() => {
      throw new Error('nginx did not start; Debian has it in nginx-light');
    });
    await Promise.race([nginxListens(join(folder, 'nginx.pid')), died]);
    died.catch(() => {});
    return new SiteCache(folder, `http://${listen}`, child);
  }

  /** Returns its log of each request: method, path, status, cache hit, bytes. */
  async log(): Promise<string> {
    return readFile(join(this.folder, 'access.log'), 'utf8');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
    await rm(this.folder, { recursive: true });
  }
}
