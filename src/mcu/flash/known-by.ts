/**
 * The evidence that a board runs an image:
 *
 * - `active-slot`: the board names the image's slot as the starting one
 * - `first-slot`: the slot that starts holds the image; the board does not report whether another one is requested
 * - `on-trial`: the image runs, but the board falls back at its next start unless the application confirms the image
 * - `otadata`: the image was compared with the memory, and its slot is selected there
 * - `read-back`: the image was compared with the memory, and the chip has one place to start from
 * - `sent`: no evidence; the board took all of the image, and cannot report its running image
 */
export const knownBy = ['active-slot', 'first-slot', 'on-trial', 'otadata', 'read-back', 'sent'] as const;
export type KnownBy = (typeof knownBy)[number];
