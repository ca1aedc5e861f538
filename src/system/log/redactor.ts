import { isSecretKey, MASK, maskAddresses } from './secrets.ts';

/** A text without what must not be told. */
export interface Redacted {
  readonly text: string;
  /** Places where something was taken out. */
  readonly count: number;
}

/** Shorter ones would be found in every other word: they are hidden where they are a whole word. */
const LEAST_ANYWHERE = 4;
const MAX_SECRETS = 1_000;

/** RFC 7468; one that does not end goes to the end of the text. */
const privateKey =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|$(?![\s\S]))/g;
/** `password = "…"`, `"apiKey": "…"`, `Authorization: Bearer …`, also within a text that is quoted itself. */
const named =
  /(?<![\w-])([\w-]{0,40}(?:password|passphrase|secret|token|api[-_]?key|authorization|credential)[\w-]{0,40})(\\?["']?\s{0,4}[:=]\s{0,4})(\\?"[^"\\\n]*(?:\\[^"\n][^"\\\n]*)*\\?"|'[^'\n]*'|(?:(?:bearer|basic|digest) +)?[^\s,;"'&)}\]]+)/gi;

export interface RedactedValue {
  readonly value: unknown;
  readonly count: number;
}

/** Takes secrets out of texts: those that it knows, in whatever spelling, and what looks like one. */
export class Redactor {
  readonly #spellings: readonly string[];
  readonly #words: RegExp | undefined;

  constructor(secrets: readonly string[]) {
    const known = [...new Set(secrets.map((secret) => secret.trim()))].filter((secret) => secret !== '');
    const long = known.filter(({ length }) => length >= LEAST_ANYWHERE).slice(0, MAX_SECRETS);
    const short = known.filter(({ length }) => length < LEAST_ANYWHERE).slice(0, MAX_SECRETS);
    this.#spellings = [...new Set(long.flatMap(spellingsOf))].toSorted((a, b) => b.length - a.length);
    this.#words = short.length === 0 ? undefined : wholeWords(short);
  }

  redact(text: string): Redacted {
    let left = text;
    for (const spelling of this.#spellings) left = left.replaceAll(spelling, MASK);
    if (this.#words !== undefined) left = left.replaceAll(this.#words, MASK);
    left = left.replaceAll(privateKey, MASK);
    left = left.replaceAll(named, (whole, name: string, between: string, value: string) =>
      isSecretKey(name) && !value.includes(MASK) ? `${name}${between}${quotedLike(value)}` : whole,
    );
    left = maskAddresses(left);
    return { text: left, count: Math.max(0, masksIn(left) - masksIn(text)) };
  }

  /** Each text of a value, and what stands under a name that says that it is secret; it stays as well formed as it was. */
  redactValue(value: unknown, key = ''): RedactedValue {
    if (isSecretKey(key) && value !== undefined) return { value: MASK, count: value === MASK ? 0 : 1 };
    if (typeof value === 'string') {
      const { text, count } = this.redact(value);
      return { value: text, count };
    }
    if (typeof value !== 'object' || value === null) return { value, count: 0 };
    let count = 0;
    const within = (name: string, one: unknown): unknown => {
      const redacted = this.redactValue(one, name);
      count += redacted.count;
      return redacted.value;
    };
    if (Array.isArray(value)) return { value: value.map((one) => within('', one)), count };
    const entries = Object.entries(value).map(([name, one]) => [within('', name), within(name, one)] as const);
    return { value: Object.fromEntries(entries), count };
  }
}

function quotedLike(value: string): string {
  const [quote = ''] = /^\\?["']/.exec(value) ?? [];
  return `${quote}${MASK}${quote}`;
}

function masksIn(text: string): number {
  return text.split(MASK).length - 1;
}

function wholeWords(words: readonly string[]): RegExp {
  const any = words.map((word) => word.replaceAll(/[^\w]/gu, String.raw`\$&`)).join('|');
  return new RegExp(`(?<![\\w.:-])(?:${any})(?![\\w.:-])`, 'g');
}

function spellingsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret);
  const inJson = JSON.stringify(secret).slice(1, -1);
  const encoded = (['base64', 'base64url', 'hex'] as const).map((form) => bytes.toString(form));
  return [secret, encodeURIComponent(secret.toWellFormed()), inJson, ...encoded].filter(
    ({ length }) => length >= LEAST_ANYWHERE,
  );
}
