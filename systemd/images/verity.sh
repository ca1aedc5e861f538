# shellcheck shell=sh
# shellcheck disable=SC2154 # root, out, key, cert, args, kernels, here: of systemd/images/slot, which reads this file
# A slot that is verified while it runs: a squashfs with dm-verity, whose root hash is in a signed program with kernel and initrd.

# What the initrd loads: dm-verity, squashfs, and the disks that a gateway may have. A kernel may have some built in, or not at all.
initrd_modules='dm-verity squashfs efivarfs nvme ahci sd_mod virtio_pci virtio_blk virtio_scsi mmc_block sdhci-pci sdhci-acpi usb-storage uas xhci-pci'
stub=/usr/lib/systemd/boot/efi/linuxx64.efi.stub

# VALUE NAME: of the output of veritysetup.
verity_value() {
  sed -n "s/^$2:[[:space:]]*//p" "$1"
}

# The squashfs in $out, its hash tree behind it, and the table of the device mapper in $table with DEVICE in place of the partition.
hash_tree() {
  rm -f "$out"
  mksquashfs "$root" "$out" -noappend -quiet -no-progress -no-xattrs -all-time 0 -mkfs-time 0 \
    -wildcards -e 'boot/*' vmlinuz 'vmlinuz.old' 'initrd.img*' >/dev/null || fail "$out could not be made" 74
  # A block more is left between them: the last one of the squashfs may be short.
  blocks=$((($(stat -c %s "$out") + 4095) / 4096))
  truncate -s $((blocks * 4096)) "$out"
  # Salt and UUID are fixed, so that the same files give the same image.
  veritysetup format --hash-offset=$((blocks * 4096)) --data-blocks=$blocks --salt=$(printf '%064d' 0) \
    --uuid=00000000-0000-0000-0000-000000000000 "$out" "$out" >"$kernels/verity" || fail "veritysetup failed" 74
  hash=$(verity_value "$kernels/verity" 'Root hash')
  salt=$(verity_value "$kernels/verity" 'Salt')
  table="0 $((blocks * 8)) verity 1 DEVICE DEVICE 4096 4096 $blocks $((blocks + 1)) sha256 $hash $salt 1 restart_on_corruption"
}

# PROGRAM: from the root file system into the initrd, with its libraries.
into_initrd() {
  program=$(chroot "$root" sh -c "command -v $1") || fail "$1 is missing in $root: the initrd needs it" 66
  for path in "$program" $(chroot "$root" ldd "$program" | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p'); do
    mkdir -p "$initrd$(dirname "$path")"
    cp "$root$(chroot "$root" readlink -f "$path")" "$initrd$path"
  done
}

make_initrd() {
  initrd=$kernels/initrd
  mkdir -p "$initrd/proc" "$initrd/sys" "$initrd/dev" "$initrd/root" "$initrd/modules"
  for program in sh insmod mount switch_root dmsetup sleep cat tail tr; do into_initrd $program; done
  version=$(cd "$root/usr/lib/modules" && ls)
  # Each module once, after those that it needs.
  for module in $initrd_modules; do
    chroot "$root" modprobe -S "$version" --show-depends "$module" 2>/dev/null || :
  done | sed -n 's/^insmod //p' | awk '!seen[$1]++ { print $1 }' >"$kernels/modules"
  number=100
  while read -r module; do
    number=$((number + 1))
    cp "$root$module" "$initrd/modules/$number-${module##*/}"
  done <"$kernels/modules"
  printf '%s\n' "$table" >"$initrd/table"
  printf '#!%s\n' "$(chroot "$root" sh -c 'command -v sh')" >"$initrd/init"
  cat >>"$initrd/init" <<'INIT'
# Starts the slot whose entry systemd-boot chose, if its partition has the root hash that was signed with this program. Whatever fails ends this
# program: the kernel panics, and the next start takes the next attempt.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod "$module" 2>/dev/null || :; done
mount -t efivarfs efivarfs /sys/firmware/efi/efivars
chosen=$(cat /sys/firmware/efi/efivars/LoaderEntrySelected-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f | tail -c +5 | tr -d '\0')
case $chosen in
thing-*-a-*) slot=rootfs-a ;;
thing-*-b-*) slot=rootfs-b ;;
*) echo "systemd-boot chose $chosen, which is no slot"; exit 1 ;;
esac
find_slot() {
  for uevent in /sys/class/block/*/uevent; do
    case $(cat "$uevent") in
    *"PARTNAME=$slot"*) device=/dev/$(name_of "$uevent"); return ;;
    esac
  done
  return 1
}
name_of() {
  path=${1%/uevent}
  echo "${path##*/}"
}
tries=0
until find_slot; do
  tries=$((tries + 1))
  [ $tries -lt 60 ] || { echo "there is no partition $slot"; exit 1; }
  sleep 0.5
done
table=$(cat /table)
before=${table%%DEVICE*} after=${table##*DEVICE}
# The agent knows a verified gateway by this prefix, and reuses no compiled code then.
dmsetup create --noudevsync --readonly --uuid CRYPT-VERITY-00000000000000000000000000000000-verified verified --table "$before$device $device$after"
[ -e /dev/mapper/verified ] || dmsetup mknodes verified
mount -t squashfs -o ro /dev/mapper/verified /root
echo "$slot is verified"
exec switch_root /root /sbin/init
INIT
  chmod 755 "$initrd/init"
  (cd "$initrd" && find . -print0 | sort -z | cpio --null --create --format=newc --quiet --reproducible --owner=0:0 | gzip -9n) >"$kernels/initrd.img"
}

# Kernel, initrd and command line as one program of UEFI, signed.
sign_program() {
  printf 'ro panic=10 %s' "$args" >"$kernels/cmdline"
  mkdir -p "$kernels/image"
  objcopy --add-section .osrel="$root/etc/os-release" --change-section-vma .osrel=0x20000 \
    --add-section .cmdline="$kernels/cmdline" --change-section-vma .cmdline=0x30000 \
    --add-section .linux="$root/vmlinuz" --change-section-vma .linux=0x2000000 \
    --add-section .initrd="$kernels/initrd.img" --change-section-vma .initrd=0x4000000 \
    "$stub" "$kernels/gateway.efi" || fail "the program of UEFI could not be made" 74
  sbsign --key "$key" --cert "$cert" --output "$kernels/image/gateway.efi" "$kernels/gateway.efi" 2>"$kernels/sbsign" ||
    fail "sbsign: $(cat "$kernels/sbsign")" 74
}

verified_slot() {
  for tool in mksquashfs veritysetup sbsign objcopy cpio; do
    command -v $tool >/dev/null || fail "$tool is missing (Debian: squashfs-tools, cryptsetup-bin, sbsigntool, binutils, cpio)" 69
  done
  [ -f $stub ] || fail "$stub is missing (Debian: systemd-boot-efi)" 69
  hash_tree
  make_initrd
  sign_program
}
