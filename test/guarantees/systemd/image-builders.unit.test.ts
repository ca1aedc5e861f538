import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { expect, test } from 'vitest';

import { agentVersion } from '../../../src/version.ts';
import { RUNTIME_LICENSES } from '../../../systemd/make/sbom.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';

const project = join(import.meta.dirname, '../../..');
const recipe = await text('systemd/yocto/recipes-thing-agent/thing-agent/thing-agent.bb');
const makefile = await text('systemd/buildroot/package/thing-agent/thing-agent.mk');
const builder = await text('systemd/make/build.ts');

async function text(path: string): Promise<string> {
  return readFile(join(project, path), 'utf8');
}

test('the recipe has the checksum of the license', async () => {
  const md5 = createHash('md5')
    .update(await text('LICENSE'))
    .digest('hex');
  expect(recipe).toContain(`file://LICENSE;md5=${md5}`);
});

test('recipe and Buildroot package name the licenses of the runtime, except two that not every OE-Core knows', () => {
  const [, list = ''] = /^THING_AGENT_LICENSE = (.*)$/m.exec(makefile) ?? [];
  expect(list.split(', ').toSorted()).toEqual(RUNTIME_LICENSES.split(' AND ').toSorted());
  const [, expression = ''] = /^LICENSE = "(.*)"$/m.exec(recipe) ?? [];
  expect([...expression.split(' & '), 'BlueOak-1.0.0', 'Unicode-3.0'].toSorted()).toEqual(list.split(', ').toSorted());
});

test('recipe and Buildroot package take the archive by the name that the build gives it', () => {
  expect(builder).toContain('`${root}-${debianNameOf(architectureNamed(arch))}.tar.gz`');
  expect(builder).toContain('`thing-agent-${agentVersion}`');
  expect(recipe).toContain('thing-agent-${PV}-${THING_AGENT_ARCH}.tar.gz');
  expect(makefile).toContain('thing-agent-$(THING_AGENT_VERSION)-$(if $(BR2_aarch64),arm64,amd64).tar.gz');
});

test('recipe and Buildroot package read the version from package.json, where it has a line of its own', async () => {
  expect((await text('package.json')).match(/^ {2}"version": "(.*)",$/m)?.[1]).toBe(agentVersion);
  for (const file of [recipe, makefile]) expect(file).toContain('../../package.json');
});

test('recipe and Buildroot package make the groups of sysusers.d', async () => {
  const groups = (await text('systemd/thing-agent.sysusers')).match(/(?<=^g )\S+/gm);
  expect(groups).toHaveLength(2);
  for (const group of groups ?? []) {
    expect(recipe).toContain(`--system ${group}`);
    expect(makefile).toContain(`- -1 ${group} -1`);
  }
});

test('the recipe enables each unit that the installer enables', async () => {
  const installer = await text('systemd/install');
  for (const unit of ['thing-agent.service', 'thing-agent-trial.timer', 'thing-agent-trial.service']) {
    expect(recipe).toMatch(new RegExp(`SYSTEMD_SERVICE.*\\b${unit}\\b`));
  }
  expect(installer.match(/\.wants\/\$(service|guard\.\w+)/g)).toHaveLength(6);
});

/** Runs a function of the recipe with these variables. */
async function runInRecipe(name: string, variables: Readonly<Record<string, string>>): Promise<void> {
  const [, body = ''] = new RegExp(`^python ${name}\\(\\) \\{\n([^}]*)^\\}$`, 'm').exec(recipe) ?? [];
  const program = `class d:\n    getVar = ${JSON.stringify(variables)}.get\nif True:\n${body}`;
  await promisify(execFile)('python3', ['-c', program]);
}

// Regression: the license manifest of an image had the agent's own license alone.
test.each([undefined, 'cortexa72'])('a Yocto image gets all texts, with the path component %s', async (component) => {
  const directory = folderUntilTestEnds();
  const [deployed, source] = [join(directory, 'licenses'), join(directory, 'source')];
  const place = join(deployed, component ?? '', 'thing-agent');
  for (const folder of [place, source]) await mkdir(folder, { recursive: true });
  await writeFile(join(source, 'copyright'), 'all texts');
  const parts = component === undefined ? {} : { LICENSE_DEPLOY_PATHCOMPONENT: component };
  await runInRecipe('thing_agent_copyright', { LICSSTATEDIR: deployed, PN: 'thing-agent', S: source, ...parts });
  expect(await readFile(join(place, 'copyright'), 'utf8')).toBe('all texts');
});
