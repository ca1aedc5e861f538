import { FirmwareFormatError, VerificationError } from '../errors.ts';

const SHOWN_CHARACTERS = 80;

/** A name from an artifact in a form for messages: on one line, printable, bounded. */
export function quoted(name: string): string {
  const shown = name.length > SHOWN_CHARACTERS ? `${name.slice(0, SHOWN_CHARACTERS)}...` : name;
  return JSON.stringify(shown).replaceAll(
    /[^\x20-\x7e]/gu,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

/**
 * Passes the content of a member to `use`. Errors in the content become refusals of the artifact; errors in delivering
 * the content pass through untouched.
 */
export async function insideMember<T>(
  name: string,
  content: AsyncIterable<Uint8Array>,
  use: (content: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<T> {
  let delivery: { readonly error: unknown } | undefined;
  async function* watched(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* content;
    } catch (error) {
      delivery = { error };
      throw error;
    }
  }
  try {
    return await use(watched());
  } catch (error) {
    if (delivery !== undefined) throw delivery.error;
    if (!(error instanceof FirmwareFormatError)) throw error;
    throw new VerificationError('artifact-corrupt', `artifact, inside ${name}: ${error.message}`);
  }
}
