export interface HealthComplaint {
  /**
   * `unhealthy`: its own commands or units failed. `service-down`: the service says that it is down.
   * `service-unreached`: the service could not be reached.
   */
  readonly code: 'unhealthy' | 'service-down' | 'service-unreached';
  readonly reason: string;
}

/** Decides whether the running firmware is good enough to keep. */
export interface HealthGate {
  /** Resolves with undefined as soon as everything is healthy, or with the complaint at the deadline. */
  check(signal: AbortSignal): Promise<HealthComplaint | undefined>;
  /** Resolves with true as soon as the service answers, or with false at the deadline. */
  reachesService(signal: AbortSignal): Promise<boolean>;
}

/** How long a judgement may take: what was well at the last moment before the deadline is watched beyond it. */
export function longestHealthMs(health: {
  readonly deadlineMs: number;
  readonly units: readonly string[];
  readonly stableForMs: number;
}): number {
  return health.deadlineMs + (health.units.length === 0 ? 0 : health.stableForMs);
}
