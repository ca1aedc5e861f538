/**
 * Calls a function at the multiples of an interval on the monotonic clock, so that the watchdog, the self-check and the
 * control sockets, which have the same interval, wake the machine once. With deadlines that end together with their
 * waits, this took an idle daemon with a watchdog from 32.5 to 19.7 wake-ups a minute (docs/performance.md). To remove
 * it, use `setInterval` in its callers.
 */
export function everyTick(ms: number, work: () => void): Disposable {
  const wait = (): NodeJS.Timeout =>
    setTimeout(
      () => {
        timer = wait();
        work();
      },
      Math.ceil(ms - (performance.now() % ms)),
    );
  let timer = wait();
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
