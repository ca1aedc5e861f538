import { AgentError } from '../system/errors.ts';

/** What cannot be done without a target of kind slots. */
export function noSlots(): AgentError {
  return new AgentError({
    code: 'no-slots-configured',
    message: 'the configuration has no target of kind slots',
    remedy: 'give-up',
    exit: 'configuration',
    advice: 'add [targets.gateway] with kind = "slots"',
  });
}

export function noTargets(): AgentError {
  return new AgentError({
    code: 'no-targets-configured',
    message: 'the configuration has no targets, so there is nothing to update',
    remedy: 'give-up',
    exit: 'configuration',
    advice: 'add [targets.gateway] with kind = "slots", or a microcontroller with kind = "mcu"',
  });
}
