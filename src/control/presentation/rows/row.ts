/** What a colour expresses; the text always says the same. */
export type Tone = 'good' | 'attention' | 'bad' | 'strong';

/** A label and the paragraphs beside it. The texts may come from outside. */
export interface Row {
  readonly label: string;
  readonly paragraphs: readonly string[];
  readonly tone?: Tone | undefined;
}

/** A sentence and its tone. */
export interface Message {
  readonly tone: Tone;
  readonly text: string;
  /** What a person should type next. */
  readonly advice?: string | undefined;
}
