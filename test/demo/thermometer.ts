import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const everyMs = 100;
/** A slow wave around room temperature. */
const mean = 21_500;
const swing = 1_500;
const periodMs = 20_000;

/** A file that holds a temperature in thousandths of a degree, as the kernel shows one (hwmon), and that changes. */
export class Thermometer implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'thermometer-'));
  readonly #path = join(this.#folder, 'temp1_input');
  readonly #timer: NodeJS.Timeout;

  constructor() {
    this.#measure();
    this.#timer = setInterval(() => this.#measure(), everyMs);
  }

  /** Four readings a second, sent twice a second; on disk after two seconds. */
  get toml(): string {
    return `[telemetry]
gather = "500ms"
write_interval = "2s"

[[sensors]]
event = "temperature"
every = "250ms"
scale = 0.001
source = { kind = "file", path = "${this.#path}" }
`;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    rmSync(this.#folder, { recursive: true });
  }

  #measure(): void {
    const phase = ((performance.now() % periodMs) / periodMs) * 2 * Math.PI;
    const draft = `${this.#path}.new`;
    writeFileSync(draft, `${Math.round(mean + swing * Math.sin(phase))}\n`);
    renameSync(draft, this.#path);
  }
}
