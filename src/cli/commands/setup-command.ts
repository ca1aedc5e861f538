import { ConfigError } from '../../config/errors.ts';
import { isUnresponsive } from '../../control/control-errors.ts';
import type { DoctorFinding } from '../../control/reports.ts';
import type { Answers, Question } from '../../setup/propose.ts';
import type { WrittenConfig } from '../../setup/setup.ts';
import { exitCodes } from '../../system/errors.ts';
import { printable } from '../../system/log/printable.ts';
import { ArgumentError } from '../arguments/command.ts';
import type { Command, ParsedCommand } from '../arguments/command.ts';
import { shellWord } from '../arguments/shell-word.ts';
import type { CliContext, ConfigSetup, Prompter } from '../context.ts';
import { pageFor } from '../screen/page.ts';
import { renderDoctor } from '../screen/pages/render-reports.ts';
import { printProblems } from './config-commands.ts';
import { examine } from './inspect-commands.ts';
import { wholePath } from './named-file.ts';
import { singleParagraph, printResult } from './print.ts';

export const setupCommand: Command = {
  name: 'setup',
  operands: [],
  options: ['yes', 'from'],
  meanings: { from: 'a configuration, or a part of one: what it says is not asked' },
  group: 'Configuration',
  summary: 'make the configuration of this gateway',
  details: [
    'Looks for slots, bootloader and serial ports, asks for the rest, checks what follows on this gateway, and writes it. What was ' +
      'there before is kept beside it (.before, then .before.2 and so on). Then it does what agent doctor does; or, where a daemon runs, which still has the ' +
      'configuration from before, it says how that takes the new one.',
    'Before it asks anything, it looks whether the state directory outlasts the power and the slots.',
    'With --yes nobody is asked: what cannot be found must stand in --from, which is how a factory does it. Where the agent came as a ' +
      'package and nothing here was made for slots, releases bring that package.',
    'Ends with 78 if the configuration cannot be used here: nothing is written then. What doctor says changes nothing, since a ' +
      'service may not be reached yet.',
  ],
  run: setUp,
};

async function setUp(typed: ParsedCommand, context: CliContext): Promise<number> {
  try {
    return await makeConfig(typed, context);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return printProblems(error, typed, context);
  }
}

async function makeConfig(typed: ParsedCommand, context: CliContext): Promise<number> {
  const from = typed.values.get('from');
  const setup = await context.setup(from === undefined ? undefined : wholePath(from, context));
  for (const note of setup.notes) context.err.write(`Note: ${printable(note)}\n`);
  const written = typed.flags.has('yes')
    ? await setup.write(nonInteractiveConfig(setup, context))
    : await writeAsked(setup, context);
  if (written === undefined) {
    context.err.write('agent: nothing was written\n');
    return exitCodes.failed;
  }
  if (!typed.json) {
    const kept = written.before === undefined ? '' : `; what was there before is ${printable(written.before)} now`;
    context.err.write(`${printable(written.path)} is written${kept}.\n\n`);
  }
  const { isOfUnit, ...told } = written;
  if (await isDaemonRunning(context)) {
    const how = isOfUnit ? TAKEN_BY_RELOAD : `A daemon runs. ${elsewhere(written)}`;
    return printResult({ ...told, takenBy: 'reload' }, singleParagraph(how), typed, context);
  }
  const examined = await examine(context);
  const isLater = (finding: DoctorFinding): boolean => isOfUnit && startsWithAgent(finding);
  // `daemon` is left out: whether a daemon runs says nothing about the configuration.
  const findings = examined.filter((finding) => finding.name !== 'daemon' && !isLater(finding));
  const ofUnit = examined.some(isLater) ? NEXT + SAFETY_NET : NEXT;
  const next = isOfUnit ? ofUnit : `${elsewhere(written)}\n`;
  return printResult({ ...told, findings }, (page) => `${renderDoctor(findings, page)}\n${next}`, typed, context);
}

/** The unit of the agent starts its safety net; before that, its absence says nothing about the configuration. */
function startsWithAgent({ name, ok }: DoctorFinding): boolean {
  return name === 'safety net' && !ok;
}

/** Its findings would be those of the configuration that it has. */
async function isDaemonRunning(context: CliContext): Promise<boolean> {
  try {
    return (await context.connect(context.signal)) !== undefined;
  } catch (error) {
    if (!isUnresponsive(error)) throw error;
    return true;
  }
}

const TAKEN_BY_RELOAD =
  'The daemon runs with the configuration from before. It takes this one with: systemctl reload thing-agent; then see how all is: agent doctor';

const NEXT = `What comes next: systemctl enable --now thing-agent
`;
const SAFETY_NET = `It starts the safety net, too, which is not there yet; see how all is then: agent doctor
`;

/** What systemd starts or reloads would be a daemon with another file. */
function elsewhere({ path }: WrittenConfig): string {
  return `The unit thing-agent reads /etc/thing-agent/config.toml, unless a drop-in names another file; a daemon with this one: agent --config ${printable(shellWord(path))} run`;
}

const NO_SLOTS = ', which names a board or a package in [targets] where this gateway has no slots';

/** A configuration of what setup found by itself. Throws a ConfigError that names what it did not find. */
function nonInteractiveConfig(setup: ConfigSetup, context: CliContext): string {
  const answers = withoutAsking(setup, {}, context);
  const left = setup.questionsLeft(answers);
  const orNoSlots = left.some(({ otherwise }) => otherwise !== undefined) ? NO_SLOTS : '';
  const missing = left.map(({ key, text }) => ({
    line: undefined,
    message: `${key} was not found: ${text}`,
  }));
  if (missing.length > 0)
    throw new ConfigError(
      'config-invalid',
      setup.path,
      missing,
      `say it in a file${orNoSlots}: agent setup --yes --from FILE`,
    );
  return setup.text(answers);
}

/**
 * Answers each question with what setup found, until none is left that it can answer. An answer may lead to further
 * questions.
 */
function withoutAsking(setup: ConfigSetup, answers: Answers, context: CliContext): Answers {
  for (const { name, found, unasked: taken } of setup.questionsLeft(answers)) {
    const answer = found ?? taken?.answer;
    if (answer === undefined) continue;
    if (found === undefined && taken !== undefined) context.err.write(`Note: ${printable(taken.note)}\n`);
    return withoutAsking(setup, { ...answers, [name]: answer }, context);
  }
  return answers;
}

/**
 * Asks, and writes the configuration. If it cannot be used here, asks again and offers the previous answers. Undefined:
 * the person does not want it.
 */
async function writeAsked(setup: ConfigSetup, context: CliContext): Promise<WrittenConfig | undefined> {
  using person = context.person();
  let before: Answers = {};
  let refusal: ConfigError | undefined;
  for (;;) {
    const round = { setup, person, context, before, answers: {} };
    try {
      const text = await askAll(round);
      return text === undefined ? undefined : await setup.write(text);
    } catch (error) {
      if (error instanceof ArgumentError && refusal !== undefined) throw refusal;
      if (!(error instanceof ConfigError)) throw error;
      refusal = error;
      before = round.answers;
      const { paint } = pageFor(context.err, context);
      for (const { message } of error.problems) context.err.write(`${paint('bad', printable(message))}\n`);
      context.err.write('Nothing was written. The same again, with what was answered in brackets:\n\n');
    }
  }
}

/** The configuration that the person agreed to; undefined: the person does not want it. */
async function askAll(round: Asking): Promise<string | undefined> {
  const { setup, answers, person, context } = round;
  for (;;) {
    const [question] = setup.questionsLeft(answers);
    if (question === undefined) break;
    const found = round.before[question.name] ?? question.found;
    answers[question.name] = await ask({ ...question, found }, round);
  }
  const text = setup.text(answers);
  context.err.write(`\n${text.split('\n').map(printable).join('\n')}\n`);
  const word = await person.ask(`Check this, and write it to ${printable(setup.path)}? [Y/n]`, context.signal);
  if (word === undefined) throw noTerminalError();
  return /^(y|yes|)$/i.test(word) ? text : undefined;
}

interface Asking {
  readonly setup: ConfigSetup;
  readonly answers: Record<string, string>;
  /** The answers of the previous round. */
  readonly before: Answers;
  readonly person: Prompter;
  readonly context: CliContext;
}

/** Asks until the answer has the right form. */
async function ask(question: Question, { setup, answers, person, context }: Asking): Promise<string> {
  const { name, key, text, found, otherwise } = question;
  const { columns, paint } = pageFor(context.err, context);
  const say = (wrong: string): void => {
    context.err.write(`${paint('bad', printable(wrong).slice(0, columns * 4))}\n`);
    if (otherwise !== undefined) context.err.write(`Or answer ${otherwise}.\n`);
  };
  for (;;) {
    const asked = otherwise === undefined ? text : `${text} (or ${otherwise})`;
    const prompt = found === undefined ? `${asked}:` : `${asked} [${printable(found)}]:`;
    const typed = await person.ask(prompt, context.signal);
    if (typed === undefined) throw noTerminalError();
    const answer = typed === '' ? (found ?? '') : typed;
    const complaint =
      answer === '' ? `${key}: an answer is needed` : await setup.complaint(question, { ...answers, [name]: answer });
    if (complaint === undefined) {
      const doubt = setup.doubt(question, answer);
      if (doubt !== undefined) context.err.write(`Note: ${printable(doubt)}\n`);
      return answer;
    }
    say(complaint);
  }
}

function noTerminalError(): ArgumentError {
  return new ArgumentError(
    'nobody answers at standard input; --yes asks nothing, and --from FILE says what cannot be found',
  );
}
