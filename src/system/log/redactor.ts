import { isSecretKey, MASK, maskAddresses } from './secrets.ts';

/** A text from which secrets were removed. */
export interface Redacted {
  readonly text: string;
  /** The number of places where something was removed. */
  readonly count: number;
}

/** A shorter secret would be found within many words: it is hidden only where it is a whole word. */
const LEAST_ANYWHERE = 4;
const MAX_SECRETS = 1_000;

/** A private key (RFC 7468); without a closing line it covers the remaining text. */
const privateKey =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|$(?![\s\S]))/g;
/** `password = "…"`, `"apiKey": "…"`, `Authorization: Bearer …`, also within a quoted text. */
const named =
  /(?<![\w-])([\w-]{0,40}(?:password|passphrase|secret|token|api[-_]?key|authorization|credential)[\w-]{0,40})(\\?["']?\s{0,4}[:=]\s{0,4})(\\?"[^"\\\n]*(?:\\[^"\n][^"\\\n]*)*\\?"|'[^'\n]*'|(?:(?:bearer|basic|digest) +)?[^\s,;"'&)}\]]+)/gi;

export interface RedactedValue {
  readonly value: unknown;
  readonly count: number;
}

/**
 * Guarantee `secrecy`: removes secrets from texts, both known ones in any spelling and everything that looks like one.
 */
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

  /**
   * Redacts each text of a value, and everything under a name that stands for a secret. The value stays well formed.
   */
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
