/** The longest hold with a duration. */
export const MAX_HOLD_DAYS = 366;
export const MAX_HOLD_MS = MAX_HOLD_DAYS * 86_400_000;
