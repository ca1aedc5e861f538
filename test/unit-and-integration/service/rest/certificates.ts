import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
}

export interface Validity {
  /** Like `20200101000000Z`. */
  readonly from: string;
  readonly until: string;
}

const now: Validity = { from: '20200101000000Z', until: '20991231000000Z' };

const caConfiguration = `
[ca]
default_ca = test
[test]
database = index.txt
rand_serial = yes
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
`;

/** An authority that issues certificates with Debian's openssl, in a directory that goes away with it. */
export class Authority implements AsyncDisposable {
  readonly #directory: string;
  readonly caFile: string;

  private constructor(directory: string) {
    this.#directory = directory;
    this.caFile = join(directory, 'ca.pem');
  }

  static async create(): Promise<Authority> {
    const directory = await mkdtemp(join(tmpdir(), 'authority-'));
    await writeFile(join(directory, 'ca.cnf'), caConfiguration);
    await writeFile(join(directory, 'index.txt'), '');
    const authority = new Authority(directory);
    await authority.#openssl('req', '-x509', ...newKey, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Test CA');
    return authority;
  }

  async issue(name: string, subjectAltName: string, { from, until }: Validity = now): Promise<Certificate> {
    const extension = `subjectAltName=${subjectAltName}`;
    const files = { certFile: join(this.#directory, `${name}.pem`), keyFile: join(this.#directory, `${name}.key`) };
    const request = ['-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`, '-addext', extension];
    await this.#openssl('req', ...newKey, ...request);
    const dates = ['-startdate', from, '-enddate', until];
    const output = ['-in', `${name}.csr`, '-out', `${name}.pem`, '-notext', '-batch'];
    await this.#openssl('ca', '-config', 'ca.cnf', '-cert', 'ca.pem', '-keyfile', 'ca.key', ...dates, ...output);
    const [cert, key] = await Promise.all([readFile(files.certFile, 'utf8'), readFile(files.keyFile, 'utf8')]);
    return { ...files, cert, key };
  }

  /** Writes a file to this directory that is not a certificate. */
  async write(name: string, text: string): Promise<string> {
    const path = join(this.#directory, name);
    await writeFile(path, text);
    return path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#directory, { recursive: true });
  }

  async #openssl(...args: readonly string[]): Promise<void> {
    await run('openssl', [...args], { cwd: this.#directory });
  }
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '3650'];
