import { registerHooks } from 'node:module';

/**
 * Usage: node loaded-modules.ts CONFIG. Wires the configuration, sends one request to the service, and prints the
 * modules that were loaded for it.
 */
const loaded: string[] = [];
registerHooks({
  load: (url, context, next) => {
    loaded.push(url);
    return next(url, context);
  },
});

const { loadConfig } = await import('../../../../src/config/load-config.ts');
const { wire } = await import('../../../../src/daemon/wiring/wiring.ts');
const { systemClock } = await import('../../../../src/system/time/clock.ts');
const { silentLog } = await import('../../../../src/system/log/log.ts');

const { signal } = new AbortController();
const world = { environment: {}, clock: systemClock, random: () => 0, log: silentLog, agentVersion: 'test' };
const { config } = await loadConfig(process.argv[2] ?? '', {});
const wiring = await wire(config, world, undefined, signal);
const version = await wiring.session.targetVersion(signal);
await wiring[Symbol.asyncDispose]();
console.log(JSON.stringify({ version: version.id, loaded }));
