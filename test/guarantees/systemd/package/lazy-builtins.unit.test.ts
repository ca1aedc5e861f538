import { compileFunction } from 'node:vm';

import { expect, test } from 'vitest';

import { lazyBuiltins } from '../../../../systemd/make/lazy-builtins.ts';

/** Runs what esbuild made of a module, and returns what it required, in order, before and after `use` was called. */
function play(code: string): readonly string[] {
  const required: string[] = [];
  const require = (name: string): unknown => {
    required.push(name);
    return { isIP: () => 4, connect: () => 'connected', default: () => 'asserted' };
  };
  const use = compileFunction(`${lazyBuiltins(code)};return use`, ['require', '__toESM']) as (
    ...parts: readonly unknown[]
  ) => () => unknown;
  const run = use(require, (module: unknown) => module);
  return [...required, '–', String(run()), String(run()), ...required];
}

test('loads a built-in module of the runtime once, at the first use of a member', () => {
  const code =
    'var import_node_net=require("node:net"),other=1;function use(){return(0,import_node_net.isIP)("a")+(0,import_node_net.isIP)("b")}';
  expect(play(code)).toEqual(['–', '8', '8', 'node:net']);
});

test('so is the default export', () => {
  const code =
    'var import_node_assert=__toESM(require("node:assert"));function use(){return(0,import_node_assert.default)()}';
  expect(play(code)).toEqual(['–', 'asserted', 'asserted', 'node:assert']);
});

test.each([
  [
    'is used as a whole',
    'var import_node_net=require("node:net");function use(){return Object.keys(import_node_net).length}',
    '3',
  ],
  ['is loaded anyway', 'var import_node_path=require("node:path");function use(){return import_node_path.isIP()}', '4'],
])('a module that %s is asked for at once', (_, code, result) => {
  const [name, ...more] = play(code);
  expect(name).toMatch(/^node:/);
  expect(more).toEqual(['–', result, result, name]);
});

test('a variable whose name begins as another one is left alone', () => {
  const code =
    'var import_node_net=require("node:net"),import_node_net2=1;function use(){return import_node_net2+import_node_net.isIP()}';
  expect(play(code)).toEqual(['–', '5', '5', 'node:net']);
});
