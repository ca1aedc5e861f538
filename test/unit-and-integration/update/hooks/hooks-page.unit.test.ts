import { expect, test } from 'vitest';

import { resolveConfig } from '../../../../src/config/config.ts';
import { parseConfig } from '../../../../src/config/read-config.ts';
import { hookInput, hookNames } from '../../../../src/update/hooks/hooks.ts';
import { readPage } from '../../../page-examples.ts';
import { leastConfig } from '../../config/config-texts.ts';

test('the page about hooks has a configuration that is one, and names each hook and each member of the input', async () => {
  const page = await readPage('hooks.md');
  const toml = /```toml\n(.*?)```/s.exec(page)?.[1] ?? '';
  const { hooks } = resolveConfig(parseConfig('config.toml', leastConfig + toml));
  expect(Object.values(hooks).filter((program) => program !== undefined)).toHaveLength(hookNames.length);
  for (const name of [...hookNames, ...Object.keys(hookInput.shape)]) expect(page).toContain(`\`${name}\``);
});
