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
import { examine } from './inspect/inspect-commands.ts';
import { wholePath } from './named-file.ts';
import { singleParagraph, printResult } from './print.ts';

export const setupCommand: Command = {
  name: 'setup',
  operands: [],
  options: ['yes', 'from'],
  meanings: { from: 'a complete or partial configuration; setup does not ask for its settings' },
  group: 'Configuration',
  summary: 'create the configuration of this gateway',
  details: [
    'Detects slots, bootloader and serial ports, asks for the rest, checks the result on this gateway and writes it. The previous configuration ' +
      'is kept as .before, .before.2 and so on. Then runs the diagnostics of agent doctor. If a daemon is running, prints how to ' +
      'apply the new configuration instead.',
    'First checks that the state directory survives power loss and slot changes.',
    'With --yes, setup asks nothing: --from must contain every setting that setup cannot detect, for example at the factory. If the agent was installed as a ' +
      'package and the gateway has no slots, updates replace that package.',
    'The exit code is 78, and nothing is written, if the configuration cannot be used on this gateway. Findings of doctor do not change the exit code, since the ' +
      'service may not be reachable yet.',
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
    const kept = written.before === undefined ? '' : `; the previous configuration is now ${printable(written.before)}`;
    context.err.write(`${printable(written.path)} was written${kept}.\n\n`);
  }
  const { isOfUnit, ...told } = written;
  if (await isDaemonRunning(context)) {
    const how = isOfUnit ? TAKEN_BY_RELOAD : `A daemon runs. ${elsewhere(written)}`;
    return printResult({ ...told, takenBy: 'reload' }, singleParagraph(how), typed, context);
  }
  const examined = await examine(context);
  const isLater = (finding: DoctorFinding): boolean => isOfUnit && startsWithAgent(finding);
  // `daemon` is left out: it does not depend on the configuration.
  const findings = examined.filter((finding) => finding.name !== 'daemon' && !isLater(finding));
  const ofUnit = examined.some(isLater) ? NEXT + TRIAL_TIMER : NEXT;
  const next = isOfUnit ? ofUnit : `${elsewhere(written)}\n`;
  return printResult({ ...told, findings }, (page) => `${renderDoctor(findings, page)}\n${next}`, typed, context);
}

/** True if the finding is about a unit that the unit of the agent starts later. */
function startsWithAgent({ name, ok }: DoctorFinding): boolean {
  return (name === 'trial timer' || name === 'package installer') && !ok;
}

/** True if a daemon is running. Its findings would be about its current configuration. */
async function isDaemonRunning(context: CliContext): Promise<boolean> {
  try {
    return (await context.connect(context.signal)) !== undefined;
  } catch (error) {
    if (!isUnresponsive(error)) throw error;
    return true;
  }
}

const TAKEN_BY_RELOAD =
  'The daemon is still using the previous configuration. To apply the new one, run systemctl reload thing-agent, then agent doctor.';

const NEXT = `Next step: systemctl enable --now thing-agent
`;
const TRIAL_TIMER = `This also starts the trial timer. Afterwards, run agent doctor.
`;

/** Returns a note for a configuration that the systemd unit does not use. */
function elsewhere({ path }: WrittenConfig): string {
  return `The unit thing-agent reads /etc/thing-agent/config.toml, unless a drop-in names another file. To run a daemon with this file: agent --config ${printable(shellWord(path))} run`;
}

const NO_SLOTS = ' (with a board or a package in [targets] if this gateway has no slots)';

/** Returns a configuration of the detected values. Throws a ConfigError that names the missing values. */
function nonInteractiveConfig(setup: ConfigSetup, context: CliContext): string {
  const answers = withoutAsking(setup, {}, context);
  const left = setup.questionsLeft(answers);
  const orNoSlots = left.some(({ alternative }) => alternative !== undefined) ? NO_SLOTS : '';
  const missing = left.map(({ key, text }) => ({
    line: undefined,
    message: `${key} could not be detected: ${text}`,
  }));
  if (missing.length > 0)
    throw new ConfigError(
      'config-invalid',
      setup.path,
      missing,
      `set it in a file${orNoSlots}: agent setup --yes --from FILE`,
    );
  return setup.text(answers);
}

/** Answers each question with the detected value, as long as there is one. An answer may lead to further questions. */
function withoutAsking(setup: ConfigSetup, answers: Answers, context: CliContext): Answers {
  for (const { name, found, nonInteractive: taken } of setup.questionsLeft(answers)) {
    const answer = found ?? taken?.answer;
    if (answer === undefined) continue;
    if (found === undefined && taken !== undefined) context.err.write(`Note: ${printable(taken.note)}\n`);
    return withoutAsking(setup, { ...answers, [name]: answer }, context);
  }
  return answers;
}

/**
 * Asks the questions and writes the configuration. If it cannot be used here, asks again and offers the previous
 * answers. Returns undefined if you decline.
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
      context.err.write('Nothing was written. Correct your answers, which are shown in brackets:\n\n');
    }
  }
}

/** Returns the configuration that you confirmed, or undefined if you decline. */
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
  for (;;) {
    const word = await person.ask(`Check this and write it to ${printable(setup.path)}? [Y/n]`, context.signal);
    if (word === undefined) throw noTerminalError();
    if (/^(y|yes|)$/i.test(word)) return text;
    if (/^(n|no)$/i.test(word)) return undefined;
    context.err.write('Answer y or n.\n');
  }
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
  const { name, key, text, found, alternative } = question;
  const { columns, paint } = pageFor(context.err, context);
  const say = (wrong: string): void => {
    context.err.write(`${paint('bad', printable(wrong).slice(0, columns * 4))}\n`);
    if (alternative !== undefined) context.err.write(`Or answer ${alternative}.\n`);
  };
  for (;;) {
    const asked = alternative === undefined ? text : `${text} (or ${alternative})`;
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
    'standard input has ended; to run without questions, use --yes, and --from FILE for settings that cannot be detected',
  );
}
