/** How long a hold with an end may last. */
export const MAX_HOLD_DAYS = 366;
export const MAX_HOLD_MS = MAX_HOLD_DAYS * 86_400_000;
