/** The environment of a process. It is passed as a parameter, so that nothing reads it behind a caller's back. */
export type Environment = Readonly<Record<string, string | undefined>>;
