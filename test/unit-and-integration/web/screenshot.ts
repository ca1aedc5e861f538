import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import { freePort } from '../../fakes/machine/free-port.ts';
import { bufferContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import { runTool } from '../../tool.ts';
import { Browser } from './browser.ts';
import { keys, release } from './page-gateway.ts';

const MIB = 1024 * 1024;
const SIZE = { width: 1280, height: 760 };
const target = join(import.meta.dirname, '../../../docs/images/web-ui.png');

/** A temperature and a humidity that rise and fall within a minute. */
const sensors = `
[[sensors]]
event = "temperature"
every = "1s"
source = { kind = "exec", command = ["/bin/sh", "-c", "s=$(date +%s); echo 21.$(( (s % 20 < 10 ? s % 10 : 9 - s % 10) ))"] }

[[sensors]]
event = "humidity"
every = "1s"
source = { kind = "exec", command = ["/bin/sh", "-c", "s=$(date +%s); echo $(( 40 + (s % 30 < 15 ? s % 15 : 14 - s % 15) ))"] }
`;

/** Writes the screenshot of the web UI: a gateway after two updates, without a password. */
async function shoot(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const versions = await Promise.all(
    ['1.4.0', '1.5.0'].map(async (name, index) => ({
      id: String(index + 1),
      name,
      firmware: bufferContent(await release(name, MIB)),
    })),
  );
  const service = stack.use(await startStandIn({ versions, targetVersionId: '1' }));
  const port = await freePort();
  const gateway = stack.use(
    await FileGateway.create({
      serviceUrl: service.url,
      image: Buffer.from('healthy 0'),
      slotBytes: 16 * MIB,
      trustedKey: keys.publicPem,
      extraToml: `\n[web]\nlisten = "127.0.0.1:${port}"\n${sensors}`,
    }),
  );
  for (const id of ['1', '2']) {
    service.world.targetVersionId = id;
    await gateway.run('--update-now');
    gateway.boot();
    await gateway.run('--update-now');
  }
  await gateway.startDaemon();
  const browser = stack.use(await Browser.start());
  await using tab = await browser.open();
  await tab.screen(SIZE.width, SIZE.height);
  await tab.send('Emulation.setScrollbarsHidden', { hidden: true });
  await tab.visit(`http://127.0.0.1:${port}/`);
  await tab.until(`document.querySelector('[data-note]')?.textContent.startsWith('Live')`);
  await tab.until(`document.querySelectorAll('polyline').length === 2`);
  const clip = { x: 0, y: 0, ...SIZE, scale: 0.75 };
  const { data } = await tab.send('Page.captureScreenshot', { format: 'png', clip });
  await writeFile(target, Buffer.from(String(data), 'base64'));
}

if (import.meta.main) {
  await runTool('usage: npm run screenshot', {}, async () => {
    await shoot();
    return 0;
  });
}
