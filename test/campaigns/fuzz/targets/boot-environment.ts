import { readFile, writeFile } from 'node:fs/promises';

import fc from 'fast-check';

import type { RunProgram } from '../../../../src/slots/bootloaders/boot-programs.ts';
import type { ProgramResult } from '../../../../src/system/processes/child-process.ts';
import { evidenceOfHistory } from '../../../../src/update/evidence.ts';
import type { Bootloader, SlotName } from '../../../../src/update/ports.ts';
import { GatewayFolder, plainNames } from '../../../unit-and-integration/slots/bootloaders/gateway-folder.ts';
import { chosenPartition } from '../../../unit-and-integration/slots/bootloaders/tryboot/tryboot-rig.ts';
import { hostile, mutatedText } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

const signal = new AbortController().signal;
const evidenceOf = (slot: SlotName) =>
  evidenceOfHistory({ digest: 'sha256:0' }, slot, { records: {}, seen: { at: '' } }, []);

const call = fc.constantFrom('bootedSlot', 'onTrial', 'inspect', 'canary', 'markUnbootable', 'tryOnce', 'commit');
const calls = fc.array(fc.record({ call, slot: fc.constantFrom<SlotName>('A', 'B') }), { minLength: 1, maxLength: 4 });
type Call = { readonly call: string; readonly slot: SlotName };

const uboot =
  'BOOT_ORDER=A B\nBOOT_A_LEFT=3\nBOOT_B_LEFT=3\nBOOT_TRIAL=B:state-unavailable\nbootcmd=run boot_slot_a\nbootdelay=2\n';
const grub = 'ORDER=A B\nATTEMPTS=3\nA_OK=1\nA_TRY=0\nB_OK=1\nB_TRY=1\nTRIAL=A\n';
const autoboot = '[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=3\n';
const answers = fc.oneof(
  fc.constantFrom('A', 'B', 'good', 'bad', '', 'A\n', 'good\nbad'),
  mutatedText(fc.constant('good')),
);

const cases = fc.oneof(
  fc.record({ kind: fc.constant('uboot' as const), text: mutatedText(fc.constant(uboot)), calls }),
  fc.record({ kind: fc.constant('grub' as const), text: mutatedText(fc.constant(grub)), calls }),
  fc.record({ kind: fc.constant('tryboot' as const), bytes: hostile(fc.constant(Buffer.from(autoboot))), calls }),
  fc.record({
    kind: fc.constant('custom' as const),
    answers: fc.array(answers, { minLength: 1, maxLength: 12 }),
    calls,
  }),
);

/** A boot environment with any content: each call takes effect or fails with an error. */
export const bootEnvironment: FuzzTarget = {
  name: 'boot-environment',
  open: async () => {
    const folder = await GatewayFolder.create();
    await folder.started('A', 2);
    await writeFile(folder.file('grubenv'), Buffer.alloc(1024, '#'));
    const check = async (input: CaseOf<typeof cases>): Promise<void> => {
      switch (input.kind) {
        case 'uboot':
        case 'grub':
          return checkVariables(folder, input);
        case 'tryboot':
          return checkTryboot(folder, input.bytes, input.calls);
        case 'custom':
          return checkCustom(folder, input.answers, input.calls);
      }
    };
    return openTarget(cases, check, async () => folder[Symbol.asyncDispose]());
  },
};

const settings = {
  uboot: {
    kind: 'uboot',
    orderVariable: 'BOOT_ORDER',
    leftVariable: 'BOOT_{slot}_LEFT',
    trialVariable: 'BOOT_TRIAL',
    names: plainNames,
    attempts: 3,
    fwEnvConfig: '/does/not/exist',
  },
  grub: { kind: 'grub', environment: '', names: plainNames, attempts: 3 },
} as const;

/** The tools of U-Boot and GRUB: what they print is hostile, what they write is printed last. */
async function checkVariables(
  folder: GatewayFolder,
  { kind, text, calls }: { readonly kind: 'uboot' | 'grub'; readonly text: string; readonly calls: readonly Call[] },
): Promise<void> {
  let printed = text;
  const run: RunProgram = async ([program, ...args], { input = '' }) => {
    const isQuestion = program === 'fw_printenv' || args.includes('list') || args.includes('-V');
    if (isQuestion) return said(args.includes('-V') ? 'fw_setenv 0.3.3\n' : printed);
    const set = program === 'fw_setenv' ? input.replaceAll(/^(\S+) /gm, '$1=') : args.slice(2).join('\n');
    printed = `${printed}\n${set}`;
    return said('');
  };
  const chosen = kind === 'uboot' ? settings.uboot : { ...settings.grub, environment: folder.file('grubenv') };
  const bootloader = await folder.bootloader(chosen, { run });
  await makeCalls(bootloader, calls, ({ call, slot }) => {
    const [, standing = ''] = [...printed.matchAll(/^(?:BOOT_)?ORDER=(.*)$/gm)].at(-1) ?? [];
    const order = standing.split(/\s+/).filter((name) => name === 'A' || name === 'B');
    if (call === 'markUnbootable') return !order.includes(slot) && order.length === 1;
    return order[0] === slot;
  });
}

async function checkTryboot(folder: GatewayFolder, bytes: Buffer, calls: readonly Call[]): Promise<void> {
  const path = folder.file('autoboot.txt');
  await writeFile(path, bytes);
  const partitions = { A: 2, B: 3 };
  const bootloader = await folder.bootloader({ kind: 'tryboot', autoboot: path, partitions });
  await makeCalls(bootloader, calls, async ({ call, slot }) => {
    const text = await readFile(path, 'utf8');
    const standing = chosenPartition(text, false);
    const tried = chosenPartition(text, true);
    if (call === 'commit') return standing === partitions[slot];
    if (call === 'tryOnce') return tried === partitions[slot] && standing !== tried;
    return standing !== partitions[slot] && tried !== partitions[slot];
  });
}

async function checkCustom(folder: GatewayFolder, answers: readonly string[], calls: readonly Call[]): Promise<void> {
  let asked = 0;
  const run: RunProgram = async () => {
    asked += 1;
    return said(answers[asked % answers.length] ?? '');
  };
  const handler = folder.file('handler');
  const bootloader = await folder.bootloader({ kind: 'custom', handler, names: plainNames }, { run });
  await makeCalls(bootloader, calls, () => true);
}

/** `holds`: whether the environment is as a call that succeeded should have made it. */
async function makeCalls(
  bootloader: Bootloader,
  calls: readonly Call[],
  holds: (made: Call) => boolean | Promise<boolean>,
): Promise<void> {
  for (const made of calls) {
    const outcome = await outcomeOf<unknown>(async () => make(bootloader, made));
    const isChange = ['markUnbootable', 'tryOnce', 'commit'].includes(made.call);
    if ('error' in outcome || !isChange) continue;
    if (!(await holds(made))) throw new Error(`${made.call} ${made.slot} succeeded, and it is not so`);
  }
}

async function make(bootloader: Bootloader, { call, slot }: Call): Promise<unknown> {
  switch (call) {
    case 'bootedSlot':
      return bootloader.bootedSlot(signal);
    case 'onTrial':
      return bootloader.onTrial(signal);
    case 'inspect':
      return bootloader.inspect(signal);
    case 'canary':
      return bootloader.canary(signal);
    case 'markUnbootable':
      return bootloader.markUnbootable(slot, signal);
    case 'tryOnce':
      return bootloader.tryOnce(slot, evidenceOf(slot), signal);
    default:
      return bootloader.commit(slot, signal);
  }
}

function said(stdout: string): ProgramResult {
  return { exitCode: 0, stdout, stderr: '' };
}
