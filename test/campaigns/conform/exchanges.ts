/** A request and its response, with the API keys replaced by their numbers. */
export interface Exchange {
  readonly request: string;
  readonly requestHeaders: Readonly<Record<string, string>>;
  readonly requestBody?: string | undefined;
  readonly status?: number;
  readonly responseHeaders?: Readonly<Record<string, string>>;
  /** The beginning of the body. */
  readonly responseBody?: string;
  /** The reason if there is no complete response. */
  readonly error?: string;
}

export type Draft = { -readonly [Member in keyof Exchange]: Exchange[Member] };

export const EXCERPT_CHARACTERS = 400;
/** A rule with more exchanges keeps the unsuccessful ones. */
const MAX_EXCHANGES = 12;

/** The key in a reply of the wrong shape, which no rule could read. */
const API_KEY = /("apiKey"\s*:\s*")(?!<key )[^"]*/g;

/** The requests and responses since the last rule, without secrets. */
export class Exchanges {
  #drafts: Draft[] = [];
  readonly #keys: string[] = [];

  /** Keeps a key out of what is recorded from now on. */
  hide(key: string): void {
    if (!this.#keys.includes(key)) this.#keys.push(key);
  }

  add(draft: Draft): void {
    this.#drafts.push(draft);
  }

  /** Returns the exchanges since the last call of this method. */
  take(): readonly Exchange[] {
    const all = this.#drafts;
    const kept = all.length <= MAX_EXCHANGES ? all : all.filter(isUnsuccessful);
    this.#drafts = [];
    return kept.slice(0, MAX_EXCHANGES).map((exchange) => this.#withoutKeys(exchange));
  }

  #withoutKeys(exchange: Exchange): Exchange {
    let text = JSON.stringify(exchange);
    for (const [index, key] of this.#keys.entries()) {
      text = text.replaceAll(JSON.stringify(key).slice(1, -1), `<key ${index + 1}>`);
    }
    const shown = JSON.parse(text) as Exchange;
    const { responseBody } = shown;
    return responseBody === undefined ? shown : { ...shown, responseBody: responseBody.replaceAll(API_KEY, '$1<key>') };
  }
}

function isUnsuccessful({ status, error }: Exchange): boolean {
  return error !== undefined || (status !== undefined && (status < 200 || status >= 300));
}
