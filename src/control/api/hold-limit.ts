/** The longest hold that ends by itself. */
export const MAX_HOLD_DAYS = 366;
export const MAX_HOLD_MS = MAX_HOLD_DAYS * 86_400_000;
