# shellcheck shell=sh
# Shared by the scripts that create disks, which source it.

here=$(dirname "$(readlink -f "$0")")
name=$(basename "$0")
page=''
# The ID of a Raspberry Pi's disk, which names its partitions.
disk_id=7a6d0001
gpt=''

fail() {
  echo "$name: $1" >&2
  exit "$2"
}

help() {
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
  exit 0
}

# OPTION VALUE: the value of a required option.
must_be_file() {
  [ "$2" != '' ] || fail "$1 is missing (try --help)" 64
  [ -f "$2" ] || fail "$1 $2: no such file" 64
}

must_be_folder() {
  [ "$2" != '' ] || fail "$1 is missing (try --help)" 64
  [ -d "$2" ] || fail "$1 $2: no such directory" 64
}

must_be_said() {
  [ "$2" != '' ] || fail "$1 is missing (try --help)" 64
}

# The scripts make a file: given a disk, they would remove its device node, and their tables count sectors of 512 bytes.
must_be_file_out() {
  must_be_said --out "$out"
  if [ -e "$out" ] && [ ! -f "$out" ]; then
    fail "--out $out is not a regular file: make a file, and copy it to a disk with sectors of 512 bytes (blockdev --getss)" 64
  fi
}

# The pages for integrators, a file or a directory: next to the scripts in a built tree, and in docs in the source.
find_page() {
  for candidate in "$here/bootloaders" "$here/../../docs/bootloaders"; do
    if [ "$page" = '' ] && [ -d "$candidate" ]; then page=$candidate; fi
  done
  [ -e "$page" ] || fail "the page with the bootloader's files is missing (--page)" 66
}

must_be_disk_id() {
  case $disk_id in
  [0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]) ;;
  *) fail "--disk-id is eight hexadecimal digits" 64 ;;
  esac
}

# The ext4 features of all file systems that the scripts make: those that the repair unit of the page names. GRUB 2.06 and an older e2fsck
# do not know all defaults of the build host.
page_features() {
  from_page 'ini state-repair' | sed -n 's/^Environment=FEATURES=//p'
}

# FILE LABEL MIB [OPTION...]: an ext4 file system in a file.
make_ext4() {
  part=$1 label=$2 mib=$3
  shift 3
  truncate -s "${mib}M" "$part"
  mkfs.ext4 -q -F -O "$(page_features)" -L "$label" -E root_owner=0:0 "$@" "$part"
}

# LABEL: prints this block of the page.
from_page() {
  text=$(find "$page" -name '*.md' -exec cat {} + | awk -v begin="\`\`\`$1" '$0 == begin { inside = 1; next } /^```/ { inside = 0 } inside')
  [ "$text" != '' ] || fail "$page has no block \"$1\"" 66
  printf '%s\n' "$text"
}

# FILE: MiB that a slot needs, with an eighth in reserve.
slot_mib() {
  echo $((($(stat -c %s "$1") * 9 / 8 + 1048575) / 1048576))
}

# FILE MIB
must_fit() {
  [ "$(stat -c %s "$1")" -le $(($2 * 1048576)) ] || fail "$1 does not fit into a slot of $2 MiB" 64
}

# FILE START, in MiB: as a part of the disk, holes as holes.
put() {
  dd if="$1" of="$out" bs=1M seek="$2" conv=notrunc,sparse status=none
}

# NUMBER NAME START SIZE [TYPE], in MiB
gpt_partition() {
  gpt="$gpt --new=$1:$(($3 * 2048)):$((($3 + $4) * 2048 - 1)) --change-name=$1:$2 --typecode=$1:${5:-8300}"
}

# Writes all partitions that were named before, in one run: each run waits for all disks of the machine.
write_gpt() {
  # shellcheck disable=SC2086
  sgdisk --clear $gpt "$out" >/dev/null
}
