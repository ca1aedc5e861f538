/** The meaning of a color; the text always expresses it, too. */
export type Tone = 'good' | 'attention' | 'bad' | 'strong';

/** A label and its paragraphs. The texts may come from outside. */
export interface Row {
  readonly label: string;
  readonly paragraphs: readonly string[];
  readonly tone?: Tone | undefined;
}

/** A sentence and its tone. */
export interface Message {
  readonly tone: Tone;
  readonly text: string;
  /** The next command to run. */
  readonly advice?: string | undefined;
}
