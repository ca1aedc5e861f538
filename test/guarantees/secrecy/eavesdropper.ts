/** Records all output of the agent, and knows its secrets. */
export class Eavesdropper {
  readonly #heard: { readonly where: string; readonly text: string }[] = [];
  readonly #secrets = new Map<string, string>();

  /** `name` stands for the secret in a report. */
  keep(name: string, secret: string): void {
    this.#secrets.set(secret, name);
  }

  /** Each line of a PEM file is one. */
  keepPem(name: string, pem: string): void {
    for (const line of pem.split('\n')) if (/^[A-Za-z0-9+/=]{20,}$/.test(line)) this.keep(name, line);
  }

  hear(where: string, text: string): void {
    this.#heard.push({ where, text });
  }

  get secrets(): readonly string[] {
    return [...this.#secrets.values()];
  }

  /** Each recorded secret with its location, in any spelling. */
  get leaks(): readonly string[] {
    return [...this.#secrets].flatMap(([secret, name]) => this.placesOf(secret).map((where) => `${name} in ${where}`));
  }

  placesOf(text: string): readonly string[] {
    const spellings = spellingsOf(text);
    const found = this.#heard.filter((one) => spellings.some((spelling) => one.text.includes(spelling)));
    return found.map(({ where }) => where);
  }
}

function spellingsOf(text: string): readonly string[] {
  const bytes = Buffer.from(text);
  const spellings = [text, encodeURIComponent(text), JSON.stringify(text).slice(1, -1)];
  return [...new Set([...spellings, ...(['base64', 'base64url', 'hex'] as const).map((form) => bytes.toString(form))])];
}
