import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { freePort } from '../../../fakes/machine/free-port.ts';
import { nginxListens } from '../../../fakes/machine/nginx.ts';

export interface WebServerOptions {
  readonly folder: string;
  /** Version id → a file with what is sent for it. */
  readonly texts: Readonly<Record<string, string>>;
  readonly tls?: { readonly certFile: string; readonly keyFile: string } | undefined;
  /** Address of all other requests. */
  readonly upstream: string;
}

/**
 * nginx in front of the service simulator: it serves the images with sendfile(2), so that serving costs the machine as
 * little as possible for every client.
 */
export class WebServer implements AsyncDisposable {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  static async start(options: WebServerOptions): Promise<WebServer> {
    const folder = await mkdtemp(join(options.folder, 'nginx-'));
    await chmod(folder, 0o755);
    const port = await freePort();
    const file = join(folder, 'nginx.conf');
    await writeFile(file, configuration(options, folder, port));
    const child = spawn('nginx', ['-e', join(folder, 'error.log'), '-c', file], { stdio: 'inherit' });
    await Promise.race([
      nginxListens(join(folder, 'nginx.pid')),
      once(child, 'exit').then(() => {
        throw new Error('nginx did not start; Debian has it in nginx-light');
      }),
    ]);
    return new WebServer(`${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`, child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
  }
}

function configuration({ texts, tls, upstream }: WebServerOptions, folder: string, port: number): string {
  const files = Object.entries(texts).map(
    ([id, path]) => `location ~ ^/v1/things/[^/]+/versions/${id}/firmware\\.json$ { alias ${path}; }`,
  );
  const secure = tls === undefined ? '' : `ssl_certificate ${tls.certFile}; ssl_certificate_key ${tls.keyFile};`;
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  return `
daemon off; master_process off; pid ${folder}/nginx.pid;
events { worker_connections 64; }
http {
  access_log off; sendfile on; tcp_nopush on;
  ${places.map((name) => `${name}_temp_path ${folder}/${name};`).join(' ')}
  server {
    listen 127.0.0.1:${port}${tls === undefined ? '' : ' ssl'}; ${secure}
    ${files.join('\n    ')}
    location / { proxy_pass ${upstream}; proxy_set_header Host $host; }
  }
}
`;
}
