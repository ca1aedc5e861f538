import { describe, expect, test } from 'vitest';

import { documents } from '../../../../systemd/pages/documents.ts';

describe('documents of the package', () => {
  test('are there, and name nothing that only the source tree has', async () => {
    const texts = await documents();
    const made = [
      'error-codes.md',
      'guarantees.md',
      'README.md',
      'SECURITY.md',
      'bootloaders/README.md',
      'bootloaders/grub.md',
    ];
    expect(Object.keys(texts)).toEqual(expect.arrayContaining([...made, 'hooks.md', 'monitoring.md', 'api.md']));
    for (const text of Object.entries(texts).flatMap(([name, it]) => (name.endsWith('.md') ? [it] : []))) {
      expect(text.length).toBeGreaterThan(1000);
      expect(text).not.toMatch(/(?:src|test|systemd)\/[\w.-]+\)|npm run/);
    }
    expect(texts['guarantees.md']).toContain('| `kill -9` at any moment costs only time | `kill` |\n');
    expect(Object.keys(texts)).toContain('images/slots.svg');
  });
});
