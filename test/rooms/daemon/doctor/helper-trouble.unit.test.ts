import { expect, test } from 'vitest';

import type { Config } from '../../../../src/config/config.ts';
import { StateWatch } from '../../../../src/daemon/doctor/state-directory.ts';
import { HelperError } from '../../../../src/helper/errors.ts';
import { fromLinkError } from '../../../../src/helper/link/link-error.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { StorageError } from '../../../../src/system/files/durable-file.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import type { Journal } from '../../../../src/update/journal/journal.ts';

/** What is logged of a journal that fails in this way, and then no more. */
async function logged(trouble: AgentError): Promise<readonly string[]> {
  const lines: string[] = [];
  const note = (_fields: object, message: string): void => void lines.push(message);
  const watch = new StateWatch({ ...silentLog, info: note, error: note });
  const config = { paths: { state: '/state' } } as Config;
  const journal = { probe: async () => Promise.reject(trouble) } as Partial<Journal> as Journal;
  await watch.look(config, journal);
  await watch.look(config, journal);
  await watch.look(config, { ...journal, probe: async () => {} });
  return lines;
}

// Seen: a helper that was slow made the log blame a directory that was fine.
test.each<[string, AgentError, string]>([
  [
    'a full disk',
    new StorageError('write', '/state/j', Object.assign(new Error('full'), { code: 'ENOSPC' })),
    'the state directory',
  ],
  [
    'a directory that others may write, where there is no helper',
    new AgentError({ code: 'writable-by-others', message: 'who?', remedy: 'give-up', exit: 'configuration' }),
    'the state directory',
  ],
  [
    'a helper that does not answer',
    new HelperError('helper-lost', 'there was no answer to attach in time'),
    'the helper',
  ],
  [
    'a helper that cannot read its configuration',
    fromLinkError({
      code: 'config-syntax',
      message: 'config.toml:9: not TOML',
      remedy: 'give-up',
      exit: 'configuration',
    }),
    'the helper',
  ],
  [
    'a helper whose disk is full',
    fromLinkError({ code: 'disk-full', message: 'the disk is full', remedy: 'retry', exit: 'disk' }),
    'the state directory',
  ],
])('the log says once what cannot be used, and when it can be again: %s', async (_what, trouble, blamed) => {
  expect(await logged(trouble)).toEqual([
    `${blamed} cannot be used, so nothing is installed: ${trouble.message}`,
    `${blamed} can be used again`,
  ]);
});
