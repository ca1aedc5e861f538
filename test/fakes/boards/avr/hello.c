/*
 * An application that can be heard: says its name ten times a second on UART0, and sleeps in between, which costs the simulator
 * nothing. VERSION and FILL are given when it is compiled.
 */
#define F_CPU 16000000UL
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/pgmspace.h>
#include <avr/sleep.h>

/* Makes the application larger, with contents that differ with VERSION. */
static const unsigned char ballast[FILL] __attribute__((used)) PROGMEM = {[0 ... FILL - 1] = VERSION};

static void say(const char *text) {
  for (; *text; text++) {
    while (!(UCSR0A & (1 << UDRE0))) {}
    UDR0 = *text;
  }
}

EMPTY_INTERRUPT(TIMER1_COMPA_vect)

int main(void) {
  UCSR0A = 1 << U2X0;
  UBRR0 = F_CPU / 8 / BAUD - 1;
  UCSR0B = 1 << TXEN0;
  OCR1A = F_CPU / 64 / 10 - 1;
  TCCR1B = 1 << WGM12 | 1 << CS11 | 1 << CS10;
  TIMSK1 = 1 << OCIE1A;
  sleep_enable();
  sei();
  for (;;) {
    static const char text[] = {'h', 'e', 'l', 'l', 'o', ' ', '0' + VERSION, '\n', 0};
    say(pgm_read_byte(&ballast[FILL - 1]) == VERSION ? text : "broken\n");
    sleep_cpu();
  }
}
