/** What a colour says; it is never the only thing that says it. */
export type Tone = 'good' | 'attention' | 'bad' | 'strong';

/** A label and what stands beside it, one paragraph each. Texts may be from outside. */
export interface Row {
  readonly label: string;
  readonly paragraphs: readonly string[];
  readonly tone?: Tone | undefined;
}

/** A sentence, and how it is meant. */
export interface Said {
  readonly tone: Tone;
  readonly text: string;
  /** What a person types next. */
  readonly advice?: string | undefined;
}
