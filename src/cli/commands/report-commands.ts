import type { DoctorFinding } from '../../control/operations.ts';
import { AgentError, exitCodes } from '../../system/errors.ts';
import type { CliContext } from '../context.ts';
import { pageFor } from '../screen/page.ts';
import { printableJson } from '../screen/printable.ts';
import { renderCheck, renderDoctor } from '../screen/render-reports.ts';
import { renderStatus } from '../screen/render-status.ts';
import { withAgent, withLook } from './with-agent.ts';

export type Report = 'status' | 'check' | 'doctor';

export async function runReport(report: Report, json: boolean, context: CliContext): Promise<number> {
  switch (report) {
    case 'status':
      return runStatus(json, context);
    case 'check':
      return runCheck(json, context);
    case 'doctor':
      return runDoctor(json, context);
  }
}

async function runStatus(json: boolean, context: CliContext): Promise<number> {
  const report = await withLook(context, (agent) => agent.status(context.signal));
  const page = pageFor(context.out, context);
  context.out.write(json ? `${printableJson(report)}\n` : renderStatus(report, page));
  return exitCodes.done;
}

async function runCheck(json: boolean, context: CliContext): Promise<number> {
  const report = await withAgent(context, (agent) => agent.check(context.signal));
  const page = pageFor(context.out, context);
  context.out.write(json ? `${printableJson(report)}\n` : renderCheck(report, page));
  return exitCodes.done;
}

async function runDoctor(json: boolean, context: CliContext): Promise<number> {
  const findings = await examine(context);
  const page = pageFor(context.out, context);
  context.out.write(json ? `${printableJson({ findings })}\n` : renderDoctor(findings, page));
  return findings.every(({ ok }) => ok) ? exitCodes.done : exitCodes.failed;
}

/** What keeps the agent from being examined at all is a finding too. */
async function examine(context: CliContext): Promise<readonly DoctorFinding[]> {
  try {
    return await withAgent(context, async (agent, worker) => [
      daemonFindings[worker],
      ...(await agent.doctor(context.signal)),
    ]);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return [{ name: 'agent', ok: false, detail: `${error.message} (${error.code})`, advice: error.advice }];
  }
}

const daemonFindings = {
  daemon: { name: 'daemon', ok: true, detail: 'it runs and answers' },
  'this process': {
    name: 'daemon',
    ok: false,
    detail: 'no daemon answers on the control socket',
    advice: 'systemctl start thing-agent; see why it ended: journalctl -u thing-agent',
  },
} as const;
