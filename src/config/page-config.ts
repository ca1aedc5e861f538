/** The settings of src/page/ as the program uses them. */
import type { PagePlace } from './schema/page-schema.ts';

export interface PageSettings {
  /** Undefined: there is no page. */
  readonly place: PagePlace | undefined;
  readonly passwordFile: string | undefined;
  /** Both files or none. */
  readonly certificateFile: string | undefined;
  readonly keyFile: string | undefined;
  readonly clientCaFile: string | undefined;
  readonly hosts: readonly string[];
  readonly operate: boolean;
}

export type { PagePlace };
