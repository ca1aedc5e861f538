/** A package of this system, for gateways whose root file system has no second slot. */
export interface PackageTargetSettings {
  readonly kind: 'package';
  readonly name: string;
  /** What dpkg calls it. */
  readonly package: string;
  /** What dpkg and the package's scripts may take. */
  readonly installMs: number;
  /** Beyond the deadline of health: so long nothing may be heard of an agent before what stood before is put back. */
  readonly patienceMs: number;
}
