/** Faults in addition to power loss. Each is counted over the whole history, with or without interruptions. */
export const faultKinds = [
  /** A call of the service does not arrive. */
  'request-lost',
  /** A call of the service is done, but the gateway does not hear of it. */
  'reply-lost',
  /** Something else answers a call of the service with a web page. */
  'page',
  /** The service was restored from a backup, just before a call: its current version is an old one. */
  'service-forgot',
  /** Another device activated with the same serial number, just before a call. */
  'key-dropped',
  /** A transfer breaks off in its middle. */
  'transfer-cut',
  /** A change in the state directory fails. */
  'disk-full',
  'disk-error',
  /** A write to the staging slot fails. */
  'slot-error',
  /** A write of the boot environment fails; it may have been made all the same. */
  'boot-write',
  /** At a start: the bootloader cannot save what it chose and counted. */
  'boot-save',
  /** Before a check: the gateway's time zone changes. */
  'zone-changed',
  'reboot-refused',
  /** The board falls silent while it is being flashed. */
  'board-timeout',
  /** dpkg does nothing, since another one is at work, or the disk is full. */
  'dpkg-failed',
  /** At a start: a bit of a slot that is being staged is another one. */
  'rot',
  /** At a start: the journal's file is garbage. */
  'journal-lost',
  /** At a start: the journal was written by a newer agent, in a phase that is unknown here. */
  'journal-newer',
  /** At a start: a directory replaces the journal's file. */
  'journal-no-file',
  /** At a start: the state partition is not mounted, and its directory in memory; later it is. */
  'state-in-memory',
] as const;
export type FaultKind = (typeof faultKinds)[number];

/** From the `at`-th time (counted from 1) on, so many times. */
export interface Fault {
  readonly kind: FaultKind;
  readonly at: number;
  readonly times: number;
}

export type FaultCounts = Readonly<Partial<Record<FaultKind, number>>>;

export class Faults {
  #planned: readonly Fault[];
  readonly #seen: Partial<Record<FaultKind, number>>;

  constructor(planned: readonly Fault[], seen: FaultCounts = {}) {
    this.#planned = planned;
    this.#seen = { ...seen };
  }

  /** Asked each time that this could go wrong. */
  strikes(kind: FaultKind): boolean {
    const count = (this.#seen[kind] ?? 0) + 1;
    this.#seen[kind] = count;
    return this.#planned.some((fault) => fault.kind === kind && count >= fault.at && count < fault.at + fault.times);
  }

  end(): void {
    this.#planned = [];
  }

  /** Number of opportunities for each fault. */
  get seen(): FaultCounts {
    return { ...this.#seen };
  }
}
