import fc from 'fast-check';

import { parseArguments } from '../../../../src/cli/arguments/parse-arguments.ts';
import { anyCharacter } from '../../../any-character.ts';
import { openTarget } from '../target.ts';
import type { FuzzTarget } from '../target.ts';

const words =
  'run status activate check install commit rollback reboot mcu list probe flash restore reset property get set datapoint send queue sync config show schema doctor --update-now --json --help --version --config --at --force --no-reboot -- - -h'.split(
    ' ',
  );
const word = fc.oneof(
  { arbitrary: fc.constantFrom(...words), weight: 4 },
  {
    arbitrary: fc.constantFrom(...words).chain((one) => fc.string({ maxLength: 4 }).map((end) => `${one}${end}`)),
    weight: 1,
  },
  {
    arbitrary: fc.constantFrom(...words).chain((one) => fc.string({ maxLength: 9 }).map((end) => `${one}=${end}`)),
    weight: 1,
  },
  { arbitrary: fc.string({ unit: anyCharacter, maxLength: 12 }), weight: 1 },
  { arbitrary: fc.jsonValue().map((value) => JSON.stringify(value)), weight: 1 },
);

/** Command lines with and without errors. */
export const commandLine: FuzzTarget = {
  name: 'command-line',
  open: async () =>
    openTarget(fc.array(word, { maxLength: 7 }), (args) => {
      const { wanted } = parseArguments(args);
      if (typeof wanted.kind !== 'string') throw new Error('neither a command nor a usage error');
    }),
};
