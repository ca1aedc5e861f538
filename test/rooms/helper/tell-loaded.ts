import { writeSync } from 'node:fs';
import { registerHooks } from 'node:module';
import process from 'node:process';

// Imported before a program: when that ends, it prints the files that were loaded for it, in one line.

const loaded: string[] = [];
registerHooks({
  load: (url, context, next) => {
    loaded.push(url);
    return next(url, context);
  },
});
process.on('exit', () => void writeSync(2, `loaded: ${JSON.stringify(loaded)}\n`));
