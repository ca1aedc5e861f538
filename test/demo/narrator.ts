import process from 'node:process';

const { stdout } = process;
const colours = stdout.isTTY && process.env['NO_COLOR'] === undefined;
const paint = (code: string, text: string): string => (colours ? `\u001B[${code}m${text}\u001B[0m` : text);
/** On a terminal one line stays one line; in a file nothing is left out. */
const columns = stdout.isTTY ? stdout.columns : Number.POSITIVE_INFINITY;
const widestText = 100;

/** Events of the demo outside the agent. */
export const narrator = {
  title: (text: string): void => say(`\n${paint('1', wrapped(text))}`),
  tell: (text: string): void => say(wrapped(text)),
  /** As it stands, to be copied. */
  say: (text: string): void => say(text),
  /**
   * A command as a technician types it. The screen is its own until it ends: afterwards the daemon's output resumes.
   */
  command: async (text: string, run: () => Promise<void>): Promise<void> => {
    say(`${paint('1;36', '$')} ${paint('36', text)}`);
    isQuiet = true;
    await run();
    isQuiet = false;
  },
  /** A line of the daemon's log, in the words of the commands. */
  log: (line: string): void => {
    const told = retold(line);
    if (told !== undefined) aside(paint('2', cut(`  daemon │ ${told}`)));
  },
  service: (line: string): void => aside(paint('35', cut(`  service│ ${line}`))),
};

let isQuiet = false;

function aside(line: string): void {
  if (!isQuiet) say(line);
}

function say(text: string): void {
  stdout.write(`${text}\n`);
}

/** Internal lines, and lines that any gateway without a time server prints. */
const untold =
  /^(recovering|checking(?! health)|activated|as Thing ID|no time synchronization found|No interrupted update|The download of|Nothing to do)|the gateway is rebooting/;

/** `2026-11-21T04:47:46.314Z info  checking health phase=health`; undefined for a line that the demo omits. */
function retold(line: string): string | undefined {
  const [, level = 'info', message = line] = /^\S+Z (\w+) +(.*?)(?: \w+=\S*)*$/.exec(line) ?? [];
  if (level !== 'info') return `${level}: ${message}`;
  return untold.test(message) ? undefined : message;
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
