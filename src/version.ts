/** The same as in package.json, which a test compares. */
export const agentVersion = '0.1.0';
