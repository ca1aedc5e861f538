import { expect, test } from 'vitest';

import { consoleLog } from '../../../../src/cli/screen/console-log.ts';
import { FakeOutput } from '../fake-context.ts';

const page = { columns: 60, paint: (_tone: unknown, text: string) => text, nowMs: 0, localOffset: () => 0 };

// Regression: "03:34:08 warn  staging starts over: … code=service-silent delayMs=1873", without a daemon.
test('the log at a terminal has sentences with their missing fields after them: no time, no level, no delays', () => {
  const err = new FakeOutput(60);
  const log = consoleLog(err, () => page);
  log.warn({ code: 'service-silent', delayMs: 1873 }, 'staging starts over: the service says nothing');
  log.warn({ code: 'service-silent', delayMs: 3901 }, 'staging starts over: the service says nothing');
  log.error({ slot: 'A', version: '2.0' }, 'slot A stays');
  log.info({}, 'unheard');
  log.debug({}, 'unheard');
  expect(err.lines).toEqual([
    'agent: staging starts over: the service says nothing',
    '(service-silent)',
    'agent: slot A stays (version: 2.0)',
  ]);
});

test('neither passwords of addresses nor what steers a terminal reach the screen, and no text is endless', () => {
  const err = new FakeOutput(60);
  const log = consoleLog(err, () => page);
  log.warn(
    { apiKey: 'secret', path: '/a\u0007' },
    `https://me:secret@example.com/?key=secret said \u001b[2J${'x'.repeat(100_000)}`,
  );
  expect(err.text).not.toContain('secret');
  expect(err.text).not.toContain('\u001b');
  expect(err.text.length).toBeLessThan(1_000);
});
