import { connectToDaemon } from '../../../src/control/client/control-client.ts';
import { AgentError } from '../../../src/system/errors.ts';
import type { FaultRule } from '../../fakes/service/faults.ts';
import type { Order } from './service-process.ts';
import type { SoakService } from './service.ts';
import type { SoakGateway } from './soak-gateway.ts';

/** Actions of the scenario on the running daemon. */
export interface RunningDaemon {
  /** SIGHUP. */
  readonly hangUp: () => void;
  /** SIGTERM, and a start afterwards. */
  readonly restart: () => void;
}

type Happening = () => Promise<void>;
type Possibility = readonly [share: number, what: string, happening: Happening];

const never = new AbortController().signal;

const faults: readonly FaultRule[] = [
  { operation: 'any', times: 3, fault: { kind: 'status', status: 503 } },
  { operation: 'any', times: 8, fault: { kind: 'reset' } },
  { operation: 'targetVersion', times: 2, fault: { kind: 'body', text: '{"id":7}' } },
  { operation: 'firmware', times: 3, fault: { kind: 'truncate', afterBytes: 20_000 } },
  { operation: 'firmware', times: 6, fault: { kind: 'status', status: 404 } },
  { operation: 'firmware', times: 1, fault: { kind: 'change-firmware', at: 30_000, keepEtag: false } },
  { operation: 'setProperty', times: 5, fault: { kind: 'status', status: 500 } },
  { operation: 'any', times: 1, fault: { kind: 'drop-key' } },
];

/** Events of a gateway's weeks, drawn from a seed. */
export class Scenario {
  readonly counts = new Map<string, number>();
  readonly #service: SoakService;
  readonly #gateway: SoakGateway;
  readonly #random: () => number;
  #daemon: RunningDaemon | undefined;
  #offers = 0;

  constructor(service: SoakService, gateway: SoakGateway, random: () => number) {
    this.#service = service;
    this.#gateway = gateway;
    this.#random = random;
  }

  /** The daemon that runs from now on, if any. */
  set daemon(daemon: RunningDaemon | undefined) {
    this.#daemon = daemon;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  /** Lets an event happen. In a quiet period, none that restarts the machine or the daemon. */
  async happen(isQuiet: boolean): Promise<void> {
    if (this.#daemon === undefined) return;
    let draw = this.#random();
    for (const [share, what, happening] of [...this.#harmless, ...this.#unsettling]) {
      draw -= share;
      if (draw >= 0) continue;
      if (isQuiet && this.#unsettling.some(([, other]) => other === what)) return;
      this.count(what);
      await happening();
      return;
    }
  }

  /** Shares of the occasions. */
  get #unsettling(): readonly Possibility[] {
    const options = { reboot: true, force: false };
    return [
      [0.03, 'good firmware offered', this.#offering('healthy', true)],
      [0.01, 'unhealthy firmware offered', this.#offering('unhealthy', true)],
      [0.006, 'firmware offered that does not boot', this.#offering('dead', true)],
      [0.006, 'firmware offered that nobody signed', this.#offering('healthy', false)],
      [0.006, 'daemon restarted', async () => this.#daemon?.restart()],
      [0.003, 'agent rollback', this.#asking((agent) => agent.rollback(options, () => {}, never))],
    ];
  }

  get #harmless(): readonly Possibility[] {
    const options = { reboot: true, force: false };
    return [
      [0.01, 'offer withdrawn', this.#ordering({ kind: 'withdraw' })],
      [0.04, 'fault of the service', async () => this.#fail()],
      [0.02, 'faults of the service cleared', this.#ordering({ kind: 'clear-faults' })],
      [0.01, 'configuration reloaded', async () => this.#reload('')],
      [0.004, 'broken configuration reloaded', async () => this.#reload('schedule = 7')],
      [0.02, 'agent status', this.#asking((agent) => agent.status({}, never))],
      [0.01, 'agent check', this.#asking((agent) => agent.check({}, never))],
      [0.005, 'agent doctor', this.#asking((agent) => agent.doctor({}, never))],
      [0.01, 'agent --update-now', this.#asking((agent) => agent.update(options, () => {}, never))],
      [
        0.01,
        'agent property set',
        this.#asking((agent) => agent.setProperty({ id: 'colour', value: { red: 1 } }, never)),
      ],
    ];
  }

  #offering(content: 'healthy' | 'unhealthy' | 'dead', signed: boolean): Happening {
    return async () => {
      this.#offers += 1;
      await this.#service.tell({ kind: 'offer', id: `v${this.#offers}`, content, signed });
    };
  }

  #ordering(order: Order): Happening {
    return () => this.#service.tell(order);
  }

  async #fail(): Promise<void> {
    const rule = faults[Math.floor(this.#random() * faults.length)];
    if (rule !== undefined) await this.#service.tell({ kind: 'fail', rule });
  }

  async #reload(line: string): Promise<void> {
    await this.#gateway.configure(line);
    this.#daemon?.hangUp();
  }

  /** Uses the control socket as an operator does. */
  #asking(ask: (agent: NonNullable<Awaited<ReturnType<typeof connectToDaemon>>>) => Promise<unknown>): Happening {
    return async () => {
      try {
        const agent = await connectToDaemon(this.#gateway.runDirectory, {}, never);
        if (agent === undefined) throw new Error('no daemon answers');
        await ask(agent);
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        this.count(`answered with ${error.code}`);
      }
    };
  }
}
