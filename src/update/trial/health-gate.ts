/** Who is to blame that a trial ends: the firmware, the world around the gateway, or a person who wanted it so. */
export type Fault = 'firmware' | 'world' | 'person';

export interface HealthComplaint {
  /** `unhealthy`: its own commands or units. `service-down`: it says that it is. `service-unreached`: it was not to be had. */
  readonly code: 'unhealthy' | 'service-down' | 'service-unreached';
  readonly reason: string;
}

/** Is what runs now good enough to keep? */
export interface HealthGate {
  /** Resolves with undefined as soon as everything is healthy, else with the reason at the deadline. */
  check(signal: AbortSignal): Promise<HealthComplaint | undefined>;
  /** Resolves with true as soon as the service answers, with false at the deadline. */
  reachesService(signal: AbortSignal): Promise<boolean>;
}
