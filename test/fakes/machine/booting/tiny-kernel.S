# A kernel of 8 KiB, in the format of Linux (bzImage), for tests: it says its command line on the first serial port, and resets the
# machine. It is entered as GRUB does from a BIOS (32 bits) or from UEFI (64 bits).
    .globl _start
_start:
    .code16
    .org 0x1f1
    .byte 1                             # sectors of this header, after the first
    .word 0                             # flags of the root file system
    .long (end - payload + 15) / 16     # size of what follows
    .word 0, 0, 0
    .word 0xaa55
    .byte 0xeb, header_end - . - 1      # a jump that tells how long the header is
    .ascii "HdrS"
    .word 0x20c                         # version
    .org 0x211
    .byte 1                             # loaded at the address below
    .org 0x214
    .long 0x100000
    .org 0x22c
    .long 0x7fffffff                    # the initrd is below
    .long 0x1000                        # alignment
    .byte 0                             # not relocatable
    .byte 12
    .word 0x9                           # 64 bits, and an entry for UEFI
    .long 0x7ff                         # the longest command line
    .org 0x258
    .quad 0x100000
    .long 0x10000                       # memory that it needs
    .long 0x200                         # the entry for UEFI, 512 bytes before where it is
header_end:

    .macro say
    movw $0x3f8, %dx
1:  lodsb
    testb %al, %al
    jz 2f
    outb %al, %dx
    jmp 1b
2:  movb $10, %al
    outb %al, %dx
    movw $0xcf9, %dx
    movb $6, %al
    outb %al, %dx
3:  hlt
    jmp 3b
    .endm

    .org 0x400
payload:
    .code32
    movl 0x228(%esi), %esi
    say
    .org 0x800
    .code64
    movl 0x228(%rdx), %esi
    say
    .org 0x2000
end:
