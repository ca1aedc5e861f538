# A kernel of 8 KiB, in the format of Linux (bzImage), for tests: it says its command line on the first serial port, and resets the
# machine. It is entered as GRUB does from a BIOS (32 bits), and from UEFI at the handover entry (64 bits, GRUB 2.06) or as a
# program of UEFI (the stub of Linux, GRUB 2.12).
    .globl _start
_start:
    .ascii "MZ"
    .org 0x3c
    .long program_header
program_header:                         # Microsoft's PE Format: a program for x86-64 at any address, without relocations
    .ascii "PE\0\0"
    .word 0x8664, 1                     # processor, sections
    .long 0, 0, 0
    .word sections - optional_header, 0x206 # executable, without lines and symbols
optional_header:
    .word 0x20b                         # PE32+
    .word 0
    .long 0x1000, 0, 0                  # sizes of code and data
    .long stub - _start, 0x1000         # entry, begin of the code
    .quad 0                             # preferred address
    .long 0x1000, 0x200                 # alignments in memory and in the file
    .word 0, 0, 1, 0, 0, 0              # versions; image version 1 says that the stub takes its initrd by LoadFile2
    .long 0, end - _start, 0x1000, 0    # sizes of the image and of the headers
    .word 10, 0                         # a UEFI application
    .quad 0, 0, 0, 0
    .long 0, 0                          # no directories
sections:
    .ascii ".text\0\0\0"
    .long 0x1000, 0x1000, 0x1000, 0x1000, 0, 0, 0, 0x60000020
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
2:  reset
    .endm
    .macro reset                        # after the end of the line
    movb $10, %al
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
    .org 0x1000
stub:
    subq $40, %rsp
    movq 0x60(%rdx), %rax               # SystemTable->BootServices
    leaq loaded_image(%rip), %rdx
    leaq 32(%rsp), %r8
    callq *0x98(%rax)                   # HandleProtocol
    movq 32(%rsp), %rax
    movl 0x30(%rax), %ecx               # LoadOptionsSize
    movq 0x38(%rax), %rsi               # LoadOptions, in UTF-16
    shrl $1, %ecx
    movw $0x3f8, %dx
4:  lodsw
    outb %al, %dx
    loop 4b
    reset
loaded_image:                           # EFI_LOADED_IMAGE_PROTOCOL_GUID
    .long 0x5b1b31a1
    .word 0x9562, 0x11d2
    .byte 0x8e, 0x3f, 0x00, 0xa0, 0xc9, 0x69, 0x72, 0x3b
    .org 0x2000
end:
