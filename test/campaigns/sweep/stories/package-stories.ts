import { rest, target } from '../story.ts';
import type { Story } from '../story.ts';

/** The bootloader has no part in them. */
const never = ['grub', 'tryboot', 'handler'] as const;
const common = { form: 'artifact', never } as const;

/** A package of the running system, whose scripts restart the agent. */
export const packageStories: Readonly<Record<string, Story>> = {
  package: { ...common, story: [target('app2')], wants: 'v1', ends: ['app2 installed'] },
  'package-bad': { ...common, story: [target('app-bad')], wants: 'v1', ends: ['app-bad rolled-back unhealthy'] },
  'package-dead': {
    ...common,
    story: [target('app-dead')],
    wants: 'v1',
    ends: ['app-dead rolled-back package-restored'],
  },
  'package-refused': {
    ...common,
    story: [target('app-refused')],
    wants: 'v1',
    ends: ['app-refused rolled-back package-refused'],
  },
  'package-then-bad': {
    ...common,
    story: [target('app2'), rest, target('app-bad')],
    wants: 'v1',
    ends: ['app2 installed', 'app-bad rolled-back unhealthy'],
  },
  'package-rollback': {
    ...common,
    story: [target('app2'), rest, { do: 'rollback' }],
    wants: 'v1',
    ends: ['app2 installed', 'v1 installed'],
  },
};
