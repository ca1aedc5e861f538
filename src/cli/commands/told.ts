/** What happened, for a person and for a program. */
export interface Told {
  readonly text: string;
  readonly value: object;
}
