/**
 * Calls a function at the multiples of an interval on the monotonic clock: whatever has the same interval wakes the
 * machine once.
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
