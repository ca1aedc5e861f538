import process from 'node:process';

/** Loaded into the real program: a defect, whose text has an address with a password. */
setTimeout(() => {
  throw new TypeError(`nothing behind ${process.env['HTTPS_PROXY']}`);
}, 100);
