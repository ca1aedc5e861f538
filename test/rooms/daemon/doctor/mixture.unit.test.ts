import { describe, expect, test } from 'vitest';

import { causeFirst } from '../../../../src/daemon/doctor/mixture.ts';

const mixture = { why: '10-two.conf gives the agent a user of its own', advice: 'set [system] helper', hinders: true };
const findings = [
  { name: 'serial number', ok: true, detail: 'GW-1' },
  { name: 'state directory', ok: false, detail: 'EACCES' },
  { name: 'clock', ok: false, detail: '1970' },
  { name: 'boot environment', ok: true, detail: 'slot A runs' },
  { name: 'safety net', ok: false, detail: 'thing-agent-trial.service cannot run' },
];

// Seen: eight failures of an agent without rights, of which the one that caused them was not the first.
describe('where unit and configuration do not agree on two processes', () => {
  test('doctor says so first, and names what follows from it without judging it', () => {
    const [cause, ...others] = causeFirst(mixture, findings);
    expect(cause).toEqual({
      name: 'two processes',
      ok: false,
      detail: mixture.why,
      advice: 'set [system] helper. Not looked at until then: state directory, safety net',
    });
    expect(others.map(({ name }) => name)).toEqual(['serial number', 'clock', 'boot environment']);
  });

  test('a process with the rights of root has found out all of it', () => {
    const [cause, ...others] = causeFirst({ ...mixture, hinders: false }, findings);
    expect(cause).toMatchObject({ name: 'two processes', advice: 'set [system] helper' });
    expect(others).toEqual(findings);
  });

  test('elsewhere nothing is left out', () => {
    expect(causeFirst(undefined, findings)).toEqual(findings);
  });
});
