import process from 'node:process';

const { stdout } = process;
const colours = stdout.isTTY && process.env['NO_COLOR'] === undefined;
const paint = (code: string, text: string): string => (colours ? `\u001B[${code}m${text}\u001B[0m` : text);
/** On a terminal one line stays one line; in a file nothing is left out. */
const columns = stdout.isTTY ? stdout.columns : Number.POSITIVE_INFINITY;
const widestText = 100;

/** What happens in the demo that the agent itself does not say. */
export const narrator = {
  title: (text: string): void => say(`\n${paint('1', wrapped(text))}`),
  tell: (text: string): void => say(wrapped(text)),
  /** A command as a technician types it. A terminal is its own while it runs: it may show progress there. */
  command: async (text: string, run: () => Promise<void>): Promise<void> => {
    say(`${paint('1;36', '$')} ${paint('36', text)}`);
    if (stdout.isTTY) kept = [];
    await run();
    const told = kept ?? [];
    kept = undefined;
    for (const line of told) say(line);
  },
  /** A line of the daemon's log, without time and fields. */
  log: (line: string): void => aside(paint('2', cut(`  daemon │ ${messageOf(line)}`))),
  service: (line: string): void => aside(paint('35', cut(`  service│ ${line}`))),
};

/** What is told when the command has ended. */
let kept: string[] | undefined;

function aside(line: string): void {
  if (kept === undefined) say(line);
  else kept.push(line);
}

function say(text: string): void {
  stdout.write(`${text}\n`);
}

/** `2026-11-21T04:47:46.314Z info  checking phase=checking` */
function messageOf(line: string): string {
  const [, level = 'info', message = line] = /^\S+Z (\w+) +(.*?)(?: \w+=\S*)*$/.exec(line) ?? [];
  return level === 'info' ? message : `${level}: ${message}`;
}

function cut(line: string): string {
  return line.length <= columns ? line : `${line.slice(0, columns - 1)}…`;
}

function wrapped(text: string): string {
  const width = Math.min(columns, widestText);
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines.join('\n');
}
