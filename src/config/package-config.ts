/** A package of this system as a target, for gateways without a second slot for the root file system. */
export interface PackageTargetSettings {
  readonly kind: 'package';
  readonly name: string;
  /** The name that dpkg uses. */
  readonly package: string;
  /** The time that dpkg and the scripts of the package may take. */
  readonly installMs: number;
  /**
   * If nothing is heard of an agent for so long after the deadline of health, what was installed before is put back.
   */
  readonly patienceMs: number;
}
