SUMMARY = "Example: a small gateway with the Thing Agent"
LICENSE = "MIT"

inherit core-image

IMAGE_INSTALL = "packagegroup-core-boot ${CORE_IMAGE_EXTRA_INSTALL} thing-agent tzdata"
# Slots have a fixed size, so that each release fits.
IMAGE_ROOTFS_SIZE ?= "524288"
IMAGE_OVERHEAD_FACTOR = "1"
IMAGE_ROOTFS_EXTRA_SPACE = "0"
IMAGE_FSTYPES = "ext4.gz"

# The state is outside of both slots. docs/image-requirements.md describes the partitions and the bootloader.
mark_state_partition() {
    install -d ${IMAGE_ROOTFS}/var/lib/thing-agent
    echo 'LABEL=state /var/lib/thing-agent ext4 defaults,nofail 0 2' >> ${IMAGE_ROOTFS}${sysconfdir}/fstab
}
ROOTFS_POSTPROCESS_COMMAND += "mark_state_partition"
