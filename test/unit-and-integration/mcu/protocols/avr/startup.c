/* A program whose only purpose is the startup code that avr-libc links before it. */
#include <avr/io.h>

#if defined(END) && RAMEND != END
#error RAMEND of avr-libc is another one
#endif

#ifdef EARLY
/* Before the stack is set. */
__attribute__((naked, used, section(".init0"))) void early(void) { __asm__ volatile("cli \n ldi r24, 1 \n nop"); }
__attribute__((naked, used, section(".init1"))) void later(void) { __asm__ volatile("sts 0x100, r24"); }
#endif

static volatile unsigned char counter = 1;

int main(void) {
  for (;;) counter++;
}
