import { FileIdentityStore } from '../../../src/service/identity.ts';
import { ServiceSession } from '../../../src/service/session.ts';
import { ManualClock } from '../../fakes/clock.ts';
import { ForgetfulFs } from '../../fakes/machine/memory/forgetful-fs.ts';
import { Power } from '../../fakes/machine/power.ts';
import { randomContent } from '../../fakes/service/firmware-content.ts';
import { World } from '../../fakes/service/world.ts';
import { FakeTransport } from './fake-transport.ts';
import { RecordingLog } from './recording-log.ts';

export const SERIAL_NUMBER = 'GW-1';

/** A gateway's session on a service without a network, and a disk that forgets. */
export class SessionRig {
  readonly world = new World();
  readonly transport = new FakeTransport(this.world);
  readonly power = new Power();
  readonly disk: ForgetfulFs;
  readonly clock = new ManualClock();
  readonly log = new RecordingLog();

  constructor(random: () => number = () => 0) {
    this.disk = new ForgetfulFs(this.power, random);
    this.world.addVersion({ id: '1', firmware: randomContent(300_000) });
    this.world.addVersion({ id: '2', description: null });
    this.world.setUpdates('1', ['2']);
  }

  /** Another one on the same disk: the program was started again. */
  start(onActivated?: () => void, onShared?: () => void): ServiceSession {
    const { transport, clock, log } = this;
    const identities = new FileIdentityStore('/state', SERIAL_NUMBER, log, this.disk.api);
    const serialNumber = SERIAL_NUMBER;
    return new ServiceSession({
      transport,
      identities,
      serialNumber,
      clock,
      random: () => 0.5,
      log,
      onActivated,
      onShared,
    });
  }

  /** Drops the key, as when another device activates with our serial number. */
  dropKey(): void {
    this.world.activate(SERIAL_NUMBER);
  }

  count(operation: FakeTransport['calls'][number]): number {
    return this.transport.calls.filter((call) => call === operation).length;
  }
}
