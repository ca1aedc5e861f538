/*
 * ptymodem.so: gives pseudo-terminals modem lines, break and parity, for programs that insist on them.
 *
 *   LD_PRELOAD=ptymodem.so PTYMODEM="./port=./control" stm32flash ...
 *
 * On that pty TIOCMGET, TIOCMSET, TIOCMBIS, TIOCMBIC, TIOCSBRK and TIOCCBRK succeed; the kernel's pty driver drops
 * parity and word size, which are remembered here. Each change is told to the datagram socket: "M DTR RTS BREAK" and
 * "T BAUD PARITY BITS STOPBITS".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#define MAX_FDS 1024
#define FRAME (PARENB | PARODD | CSIZE)

static int lines = TIOCM_DTR | TIOCM_RTS | TIOCM_CTS | TIOCM_DSR | TIOCM_CAR;
static int in_break;
static struct termios asked[MAX_FDS];
static char was_asked[MAX_FDS];

/* The control socket of the pty that this is, or 0. */
static const char *control_of(int fd) {
  static char setting[2 * PATH_MAX];
  const char *value = getenv("PTYMODEM");
  if (!value || fd < 0 || fd >= MAX_FDS) return 0;
  snprintf(setting, sizeof setting, "%s", value);
  char *control = strchr(setting, '=');
  if (!control) return 0;
  *control++ = 0;
  char link[64], opened[PATH_MAX], meant[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, opened, sizeof opened - 1);
  if (length < 0 || !realpath(setting, meant)) return 0;
  opened[length] = 0;
  return strcmp(opened, meant) ? 0 : control;
}

static void tell(const char *control, const char *text) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, control, sizeof address.sun_path - 1);
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sendto(fd, text, strlen(text), 0, (void *)&address, sizeof address);
  close(fd);
}

static void change(const char *control, int new_lines, int new_break) {
  if (new_lines == lines && new_break == in_break) return;
  lines = new_lines;
  in_break = new_break;
  char text[32];
  snprintf(text, sizeof text, "M %d %d %d", !!(lines & TIOCM_DTR), !!(lines & TIOCM_RTS), in_break);
  tell(control, text);
}

int ioctl(int fd, unsigned long request, ...) {
  static int (*real)(int, unsigned long, ...);
  if (!real) real = dlsym(RTLD_NEXT, "ioctl");
  va_list arguments;
  va_start(arguments, request);
  int *argument = va_arg(arguments, void *);
  va_end(arguments);
  int ours = request == TIOCMGET || request == TIOCMSET || request == TIOCMBIS || request == TIOCMBIC ||
             request == TIOCSBRK || request == TIOCCBRK;
  const char *control = ours ? control_of(fd) : 0;
  if (!control) return real(fd, request, argument);
  const int outputs = TIOCM_DTR | TIOCM_RTS;
  switch (request) {
    case TIOCMGET: *argument = lines; break;
    case TIOCMSET: change(control, (lines & ~outputs) | (*argument & outputs), in_break); break;
    case TIOCMBIS: change(control, lines | (*argument & outputs), in_break); break;
    case TIOCMBIC: change(control, lines & ~(*argument & outputs), in_break); break;
    default: change(control, lines, request == TIOCSBRK);
  }
  return 0;
}

static unsigned baud_of(speed_t speed) {
  static const struct { speed_t speed; unsigned baud; } table[] = {
      {B1200, 1200},     {B9600, 9600},     {B19200, 19200},   {B38400, 38400},     {B57600, 57600},
      {B115200, 115200}, {B230400, 230400}, {B460800, 460800}, {B921600, 921600},   {B1000000, 1000000}};
  for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].speed == speed) return table[i].baud;
  return 0;
}

int tcsetattr(int fd, int when, const struct termios *settings) {
  static int (*real)(int, int, const struct termios *);
  if (!real) real = dlsym(RTLD_NEXT, "tcsetattr");
  int result = real(fd, when, settings);
  const char *control = result ? 0 : control_of(fd);
  if (!control) return result;
  asked[fd] = *settings;
  was_asked[fd] = 1;
  tcflag_t flags = settings->c_cflag;
  char parity = !(flags & PARENB) ? 'N' : flags & PARODD ? 'O' : 'E';
  char text[64];
  snprintf(text, sizeof text, "T %u %c %d %d", baud_of(cfgetospeed(settings)), parity, (flags & CSIZE) == CS7 ? 7 : 8,
           flags & CSTOPB ? 2 : 1);
  tell(control, text);
  return result;
}

int tcgetattr(int fd, struct termios *settings) {
  static int (*real)(int, struct termios *);
  if (!real) real = dlsym(RTLD_NEXT, "tcgetattr");
  int result = real(fd, settings);
  if (!result && fd >= 0 && fd < MAX_FDS && was_asked[fd] && control_of(fd))
    settings->c_cflag = (settings->c_cflag & ~FRAME) | (asked[fd].c_cflag & FRAME);
  return result;
}
