import { rest, target } from '../story.ts';
import type { Story } from '../story.ts';

/** Releases that come as deltas. */
export const deltaStories: Readonly<Record<string, Story>> = {
  delta: {
    form: 'artifact',
    story: [target('d2'), rest, target('d3')],
    wants: 'd3',
    mayRun: ['v1', 'd2'],
    ends: ['d2 installed', 'd3 installed'],
  },
  /**
   * A delta of a version that does not run, and one with another result than the signed one: the agent requests the
   * full image.
   */
  'delta-unfit': {
    form: 'artifact',
    story: [target('d3')],
    wants: 'd3',
    mayRun: ['v1'],
    ends: ['d3 refused delta-base-mismatch', 'd3 installed'],
  },
  'delta-lie': {
    form: 'artifact',
    story: [target('d-lie')],
    wants: 'd-lie',
    mayRun: ['v1'],
    ends: ['d-lie refused delta-base-mismatch', 'd-lie installed'],
  },
};
