#!/bin/sh
# A bootloader handler with RAUC's interface, over a file of order and counters; "boot" is the bootloader itself.
set -e
state=${0%/*}/handler-state
. "$state"

save() {
  printf 'ORDER="%s"\nA_LEFT=%s\nB_LEFT=%s\nCURRENT=%s\n' "$ORDER" "$A_LEFT" "$B_LEFT" "$CURRENT" >"$state.new"
  mv "$state.new" "$state"
}
left() { eval echo "\$${1}_LEFT"; }
contains() { case " $ORDER " in *" $1 "*) ;; *) return 1 ;; esac }
without() { for each in $ORDER; do if [ "$each" != "$1" ]; then printf '%s ' "$each"; fi; done; }
first_with_attempts() { for each in $ORDER; do if [ "$(left "$each")" -gt 0 ]; then echo "$each"; return; fi; done; }

case "$1" in
  get-primary)
    if [ -n "$(first_with_attempts)" ]; then first_with_attempts; else set -- $ORDER; echo "$1"; fi ;;
  get-state)
    if contains "$2" && [ "$(left "$2")" -gt 0 ]; then echo good; else echo bad; fi ;;
  get-current) echo "$CURRENT" ;;
  set-primary) ORDER="$2 $(without "$2")"; eval "${2}_LEFT=1"; save ;;
  set-state)
    if [ "$3" = good ]; then eval "${2}_LEFT=3"; contains "$2" || ORDER="$ORDER $2"
    else eval "${2}_LEFT=0"; ORDER=$(without "$2"); fi
    save ;;
  boot)
    if [ -z "$(first_with_attempts)" ]; then for each in $ORDER; do eval "${each}_LEFT=3"; done; fi
    CURRENT=$(first_with_attempts)
    eval "${CURRENT}_LEFT=$(($(left "$CURRENT") - 1))"
    save ;;
  *) echo "unknown call $1" >&2; exit 64 ;;
esac
