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

/** The content of a member, and how an error that occurs while it is read is to be reported. */
export interface WatchedMember {
  readonly content: AsyncIterable<Uint8Array>;
  readonly told: (error: unknown) => unknown;
}

/**
 * Watches the content of a member. Errors in the content become refusals of the artifact; errors in delivering the content
 * pass through untouched.
 */
export function watchMember(name: string, content: AsyncIterable<Uint8Array>): WatchedMember {
  let delivery: { readonly error: unknown } | undefined;
  async function* watched(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* content;
    } catch (error) {
      delivery = { error };
      throw error;
    }
  }
  const told = (error: unknown): unknown => {
    if (delivery !== undefined) return delivery.error;
    if (!(error instanceof FirmwareFormatError)) return error;
    return new VerificationError('artifact-corrupt', `artifact, inside ${name}: ${error.message}`);
  };
  return { content: watched(), told };
}
