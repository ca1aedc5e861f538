import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly sessionId?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string };
}

type Listener = (params: Readonly<Record<string, unknown>>) => void;

/** A real Chromium without a window, spoken to by the DevTools protocol through a pipe; no package in between. */
export class Browser implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #pending = new Map<number, PromiseWithResolvers<Readonly<Record<string, unknown>>>>();
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly tabs: Tab[] = [];
  #lastId = 0;

  private constructor(child: ChildProcess, folder: string) {
    this.#child = child;
    this.#folder = folder;
    let rest = '';
    (child.stdio[4] as Readable).setEncoding('utf8').on('data', (text: string) => {
      const messages = `${rest}${text}`.split('\0');
      rest = messages.pop() ?? '';
      for (const message of messages) this.#take(JSON.parse(message) as Message);
    });
  }

  static async start(): Promise<Browser> {
    const folder = await mkdtemp(join(tmpdir(), 'browser-'));
    const quiet = ['--disable-background-networking', '--disable-component-update', '--no-first-run', '--disable-gpu'];
    const child = spawn(
      '/usr/lib/chromium/chromium-headless-shell', // what Debian's script of that name starts
      ['--remote-debugging-pipe', '--no-sandbox', '--no-proxy-server', ...quiet, `--user-data-dir=${folder}`],
      { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] },
    );
    return new Browser(child, folder);
  }

  /** A tab with cookies of its own. */
  async open(): Promise<Tab> {
    const { browserContextId } = await this.send('Target.createBrowserContext', {});
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank', browserContextId });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const tab = new Tab(this, String(sessionId), String(targetId));
    this.tabs.push(tab);
    for (const domain of ['Page', 'Network', 'Runtime', 'Log', 'DOM']) await tab.send(`${domain}.enable`, {});
    return tab;
  }

  async send(method: string, params: object, sessionId?: string): Promise<Readonly<Record<string, unknown>>> {
    const id = (this.#lastId += 1);
    const reply = Promise.withResolvers<Readonly<Record<string, unknown>>>();
    this.#pending.set(id, reply);
    (this.#child.stdio[3] as Writable).write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return reply.promise;
  }

  on(sessionId: string, method: string, listener: Listener): Disposable {
    const key = `${sessionId} ${method}`;
    const listeners = this.#listeners.get(key) ?? new Set();
    this.#listeners.set(key, listeners.add(listener));
    return { [Symbol.dispose]: () => void listeners.delete(listener) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #take({ id, method, sessionId = '', params = {}, result = {}, error }: Message): void {
    if (id !== undefined) {
      const reply = this.#pending.get(id);
      this.#pending.delete(id);
      if (error === undefined) reply?.resolve(result);
      else reply?.reject(new Error(error.message));
      return;
    }
    for (const listener of this.#listeners.get(`${sessionId} ${method}`) ?? []) listener(params);
  }
}

/** A page in a browser. */
export class Tab implements AsyncDisposable {
  readonly #browser: Browser;
  readonly #session: string;
  readonly #target: string;
  /** Every requested address, and all messages of the console. */
  readonly requests: string[] = [];
  readonly complaints: string[] = [];

  constructor(browser: Browser, session: string, target: string) {
    this.#target = target;
    this.#browser = browser;
    this.#session = session;
    browser.on(session, 'Network.requestWillBeSent', ({ request }) => {
      this.requests.push((request as { readonly url: string }).url);
    });
    browser.on(session, 'Log.entryAdded', ({ entry }) => {
      this.complaints.push((entry as { readonly text: string }).text);
    });
    browser.on(session, 'Runtime.exceptionThrown', ({ exceptionDetails }) => {
      this.complaints.push(JSON.stringify(exceptionDetails));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.send('Target.closeTarget', { targetId: this.#target });
  }

  async send(method: string, params: object): Promise<Readonly<Record<string, unknown>>> {
    return this.#browser.send(method, params, this.#session);
  }

  /** Resolves when what is done has led to a page that is loaded. */
  async loaded(act: () => Promise<unknown>): Promise<void> {
    const loaded = Promise.withResolvers<void>();
    using _listener = this.#browser.on(this.#session, 'Page.loadEventFired', () => loaded.resolve());
    await act();
    await loaded.promise;
  }

  async visit(url: string): Promise<void> {
    await this.loaded(async () => this.send('Page.navigate', { url }));
  }

  /** The value of an expression, which may be a promise, in the page. */
  async evaluate<T>(expression: string): Promise<T> {
    const options = { expression, awaitPromise: true, returnByValue: true, userGesture: true };
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', options);
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { readonly value: T }).value;
  }

  /** Resolves when the expression is true; it is looked at whenever the page changes. */
  async until(expression: string): Promise<void> {
    await this.evaluate(`new Promise((resolve) => {
      const look = () => { if (${expression}) { watcher.disconnect(); resolve(); } };
      const watcher = new MutationObserver(look);
      watcher.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
      look();
    })`);
  }

  async screen(width: number, height: number, scheme: 'light' | 'dark' = 'light'): Promise<void> {
    const metrics = { width, height, deviceScaleFactor: 1, mobile: width < 600 };
    await this.send('Emulation.setDeviceMetricsOverride', metrics);
    await this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  }

  async press(key: string, code: string = key, text?: string): Promise<void> {
    const virtual = { Tab: 9, Enter: 13, Space: 32 }[code];
    const event = { key, code, windowsVirtualKeyCode: virtual, ...(text === undefined ? {} : { text }) };
    await this.send('Input.dispatchKeyEvent', { type: text === undefined ? 'rawKeyDown' : 'keyDown', ...event });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
  }

  /** Into this field. */
  async type(selector: string, text: string): Promise<void> {
    await this.evaluate(`document.querySelector(${JSON.stringify(selector)}).focus()`);
    await this.send('Input.insertText', { text });
  }

  /** PNG, of the whole page. */
  async screenshot(): Promise<Buffer> {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true });
    return Buffer.from(String(data), 'base64');
  }
}
