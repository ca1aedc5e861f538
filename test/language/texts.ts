import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export type Kind = 'markdown' | 'message' | 'comment' | 'title' | 'commit';

/** A text that people read, with its place. `line` counts from 1. */
export interface Text {
  readonly kind: Kind;
  readonly module: string;
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

const project = join(import.meta.dirname, '../..');
const EXCUSED = 'language-ok:';
const SUBJECTS = 50;

/** Pages that are generated from texts of `src/`, which are counted there. */
const generated = new Set(['docs/configuration.md', 'docs/error-codes.md']);

/** Returns every text of the project that the language guide covers, except lines with `language-ok: reason`. */
export function projectTexts(): readonly Text[] {
  const paths = git('ls-files').filter((path) => /\.(?:md|ts)$/.test(path) && !path.startsWith('test/language/'));
  const written = paths.filter((path) => !generated.has(path));
  const files = written.flatMap((path) => textsOf(path, readFileSync(join(project, path), 'utf8')));
  const subjects = git('log', `-${SUBJECTS}`, '--format=%s');
  return [
    ...files,
    ...subjects.map((text): Text => ({ kind: 'commit', module: 'commits', path: 'git log', line: 0, text })),
  ];
}

function git(...words: readonly string[]): readonly string[] {
  return execFileSync('git', words, { cwd: project, encoding: 'utf8' })
    .split('\n')
    .filter((line) => line !== '');
}

function textsOf(path: string, content: string): readonly Text[] {
  const module = moduleOf(path);
  if (path.endsWith('.md'))
    return markdownTexts(content).map(({ line, text }) => ({ kind: 'markdown', module, path, line, text }));
  if (path.endsWith('.ts')) {
    const texts = sourceTexts(content);
    return texts
      .filter(({ kind }) => kind !== 'message' || path.startsWith('src/'))
      .map(({ kind, line, text }) => ({ kind, module, path, line, text }));
  }
  return [];
}

/** `src/cli`, `test/unit-and-integration/cli`, `systemd`, or `.` for the pages of the root. */
function moduleOf(path: string): string {
  const [first = '', second = '', third, fourth] = path.split('/');
  if (second === '') return '.';
  if (second === 'unit-and-integration' && fourth !== undefined) return `${first}/${second}/${third}`;
  return first === 'systemd' || third === undefined ? first : `${first}/${second}`;
}

type Found = Pick<Text, 'line' | 'text'>;

/** Returns paragraphs and tables, line by line, without code blocks, code spans and links. */
export function markdownTexts(content: string): readonly Found[] {
  let isCode = false;
  return content.split('\n').flatMap((line, index) => {
    if (/^\s*(```|~~~)/.test(line)) {
      isCode = !isCode;
      return [];
    }
    if (isCode || /^ {4}/.test(line) || line.includes(EXCUSED)) return [];
    const text = line.replaceAll(/`[^`]*`/g, '`…`').replaceAll(/\]\([^)]*\)/g, ']');
    return text.trim() === '' ? [] : [{ line: index + 1, text }];
  });
}

/** One token of TypeScript that may hold a text: a comment, a string or a template. */
const token =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[\s\S])*`|(?<=[(,=:[!&|?{};\n]\s*)\/(?![*/])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/g;
const title = /\b(?:test|it|describe|testInFull)(?:\.\w+)*(?:\((?:[^()]|\([^()]*\))*\))?\(\s*$/;

/** Returns comments, test titles, and strings with a space (messages, help, labels). */
export function sourceTexts(content: string): readonly (Found & { readonly kind: Kind })[] {
  const lines = content.split('\n');
  const found: (Found & { readonly kind: Kind })[] = [];
  let at = 0;
  let line = 1;
  for (const { 0: text, index } of content.matchAll(token)) {
    line += content.slice(at, index).split('\n').length - 1;
    at = index;
    if (lines[line - 1]?.includes(EXCUSED) === true || lines[line - 2]?.includes(EXCUSED) === true) continue;
    if (text.startsWith('/*')) {
      const words = text
        .slice(2, -2)
        .replaceAll(/^\s*\*+ ?/gm, '')
        .trim()
        .replaceAll(/\s*\n\s*/g, ' ');
      found.push({ kind: 'comment', line, text: words.replace(/^\*\s*/, '') });
    } else if (text.startsWith('//')) found.push({ kind: 'comment', line, text: text.slice(2).trim() });
    else if (!text.startsWith('/')) {
      const words = text.slice(1, -1).replaceAll(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, '…');
      const before = content.slice(Math.max(0, index - 200), index);
      if (title.test(before)) found.push({ kind: 'title', line, text: words });
      else if (words.includes(' ')) found.push({ kind: 'message', line, text: words });
    }
  }
  return found;
}
