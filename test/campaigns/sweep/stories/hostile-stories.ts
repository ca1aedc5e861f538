import { look, rest, target } from '../story.ts';
import type { Story } from '../story.ts';

const later = (version: string) => ({ do: 'target', version, after: 'a year' }) as const;
const again = (times: number): readonly string[] => Array<string>(times).fill('bad refused quarantined');

/** A service that does what none should. */
export const hostileStories: Readonly<Record<string, Story>> = {
  /** Three times, as a signature may be repaired at the service. */
  evil: {
    form: 'artifact',
    story: [target('evil'), rest, target('v2')],
    wants: 'v2',
    mayRun: ['v1'],
    ends: [...Array<string>(3).fill('evil refused signature-invalid'), 'v2 installed'],
  },
  lie: {
    form: 'artifact',
    story: [target('lie'), rest, target('v2')],
    wants: 'v2',
    mayRun: ['v1'],
    ends: [...Array<string>(3).fill('lie refused digest-mismatch'), 'v2 installed'],
  },
  /** It offers bad releases again under new ids: the gateway recognizes their content. */
  renamed: {
    story: [target('bad'), rest, target('bad#1'), rest, target('v2'), rest, target('bad#2'), rest, target('bad')],
    wants: 'v2',
    mayRun: ['v1'],
    ends: ['bad rolled-back unhealthy', ...again(1), 'v2 installed', ...again(2)],
  },
  /** However long it waits in between, it causes one trial, until an operator unblocks the release. */
  'renamed-later': {
    story: [target('bad'), rest, later('bad'), rest, later('bad#1'), rest, later('bad'), rest, target('v2')],
    wants: 'v2',
    mayRun: ['v1'],
    ends: ['bad rolled-back unhealthy', ...again(2), 'v2 installed'],
  },
  /** The card is put into other hardware: reports, history and identity of the former gateway stay behind. */
  moved: {
    story: [target('v2'), rest, { do: 'move-card' }, rest, target('v3'), look, { do: 'move-card' }, rest],
    wants: 'v3',
    mayRun: ['v1', 'v2'],
    ends: ['v2 installed', 'v3 installed'],
  },
};
