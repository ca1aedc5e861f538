/*
 * ptylink: a virtual USB-serial adapter. A pty for the flasher, messages on stdin and stdout for a model of a board.
 *
 *   ptylink -l ./port [-c ./control] [-u LATENCY_MS] [-d N] [-e]
 *
 *   -l  symbolic link to make to the pty
 *   -c  datagram socket that hears from ptymodem.so, which gives the pty modem lines and parity
 *   -u  hold back what the board says like the latency timer of an FTDI adapter
 *   -d  lose every Nth byte to the board
 *   -e  even parity, which a pty cannot be told without ptymodem.so
 *
 * A message is a letter, a length (two bytes, little-endian) and so many bytes.
 * To the model: D data, T "BAUD PARITY BITS STOPBITS", M "DTR RTS BREAK", O and C when the pty is opened and closed.
 * From the model: D data. Both directions are paced at the baud rate and character length that the flasher set.
 * Ends at the end of stdin.
 */
#define _GNU_SOURCE
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

extern int posix_openpt(int), grantpt(int), unlockpt(int), ptsname_r(int, char *, size_t);

#define USB_PACKET 62
#define MAX_MESSAGE 4096

/* Bytes under way in one direction. */
struct queue {
  uint8_t bytes[1 << 20];
  size_t first, end;
  uint64_t idle_ns; /* when the wire has carried what was taken out */
};

static struct queue to_board, to_host;
static int pty = -1, control = -1, is_open;
static char parity = 'N';
static int data_bits = 8;
static double character_ns = 1e10 / 115200;
static double latency_ns;
static unsigned long drop_every, byte_count;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "ptylink: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void tell(char kind, const void *bytes, size_t length) {
  uint8_t message[3 + MAX_MESSAGE] = {kind, length, length >> 8};
  memcpy(message + 3, bytes, length);
  for (size_t sent = 0; sent < length + 3;) {
    ssize_t written = write(1, message + sent, length + 3 - sent);
    if (written < 0) exit(0);
    sent += written;
  }
}

static void put(struct queue *queue, const uint8_t *bytes, size_t length, uint64_t now) {
  if (queue->first == queue->end) {
    queue->first = queue->end = 0;
    if (queue->idle_ns < now) queue->idle_ns = now;
  }
  if (queue->end + length > sizeof queue->bytes) fail("too many bytes under way");
  memcpy(queue->bytes + queue->end, bytes, length);
  queue->end += length;
}

/* How many bytes the wire has carried by now. */
static size_t carried(const struct queue *queue, uint64_t now) {
  size_t waiting = queue->end - queue->first;
  if (now <= queue->idle_ns) return 0;
  size_t due = (now - queue->idle_ns) / character_ns;
  size_t most = due < waiting ? due : waiting;
  return most < MAX_MESSAGE ? most : MAX_MESSAGE;
}

static void take(struct queue *queue, size_t length) {
  queue->first += length;
  queue->idle_ns += length * character_ns;
}

static void watch_settings(void) {
  static char last[64];
  char settings[64];
  struct termios2 t;
  if (ioctl(pty, TCGETS2, &t)) return;
  int stop_bits = t.c_cflag & CSTOPB ? 2 : 1;
  snprintf(settings, sizeof settings, "%u %c %d %d", t.c_ospeed, parity, data_bits, stop_bits);
  if (!strcmp(settings, last)) return;
  strcpy(last, settings);
  int bits = 1 + data_bits + (parity != 'N') + stop_bits;
  character_ns = 1e9 * bits / (t.c_ospeed ? t.c_ospeed : 115200);
  tell('T', settings, strlen(settings));
}

static void hear_control(void) {
  char text[64];
  ssize_t length = recv(control, text, sizeof text - 1, MSG_DONTWAIT);
  if (length <= 0) return;
  text[length] = 0;
  unsigned baud;
  int stop_bits;
  if (text[0] == 'T') sscanf(text + 1, "%u %c %d %d", &baud, &parity, &data_bits, &stop_bits);
  if (text[0] == 'M') tell('M', text + 2, strlen(text + 2));
}

static void hear_host(uint64_t now) {
  uint8_t bytes[MAX_MESSAGE];
  ssize_t length = read(pty, bytes, sizeof bytes);
  for (ssize_t i = 0; i < length; i++)
    if (!drop_every || ++byte_count % drop_every) put(&to_board, bytes + i, 1, now);
}

static void hear_model(uint64_t now) {
  static uint8_t bytes[2 * MAX_MESSAGE];
  static size_t length;
  ssize_t got = read(0, bytes + length, sizeof bytes - length);
  if (got <= 0) exit(0);
  length += got;
  size_t used = 0;
  while (length - used >= 3) {
    size_t body = bytes[used + 1] | bytes[used + 2] << 8;
    if (length - used < 3 + body) break;
    if (bytes[used] == 'D') put(&to_host, bytes + used + 3, body, now);
    used += 3 + body;
  }
  memmove(bytes, bytes + used, length - used);
  length -= used;
}

static void move(uint64_t now) {
  static uint64_t held_since;
  size_t up = carried(&to_board, now);
  if (up > 0) {
    tell('D', to_board.bytes + to_board.first, up);
    take(&to_board, up);
  }
  size_t down = carried(&to_host, now);
  if (down == 0) return;
  if (held_since == 0) held_since = now;
  if (latency_ns > 0 && down < USB_PACKET && now - held_since < latency_ns) return;
  ssize_t written = write(pty, to_host.bytes + to_host.first, down);
  if (written > 0) take(&to_host, written);
  held_since = 0;
}

static void open_pty(const char *link) {
  char name[64];
  pty = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (pty < 0 || grantpt(pty) || unlockpt(pty) || ptsname_r(pty, name, sizeof name)) fail("pty");
  int slave = open(name, O_RDWR | O_NOCTTY);
  struct termios2 t;
  ioctl(slave, TCGETS2, &t);
  t.c_iflag = t.c_oflag = t.c_lflag = 0;
  t.c_cflag = CS8 | CREAD | CLOCAL | B115200;
  ioctl(slave, TCSETS2, &t);
  close(slave); /* POLLHUP then tells whether anyone has it open */
  unlink(link);
  if (symlink(name, link)) fail(link);
}

static void open_control(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  control = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (control < 0 || bind(control, (void *)&address, sizeof address)) fail(path);
}

int main(int argc, char **argv) {
  const char *link = 0;
  int option;
  while ((option = getopt(argc, argv, "l:c:u:d:e")) > 0) {
    if (option == 'l') link = optarg;
    else if (option == 'c') open_control(optarg);
    else if (option == 'u') latency_ns = atof(optarg) * 1e6;
    else if (option == 'd') drop_every = atol(optarg);
    else if (option == 'e') parity = 'E';
    else return 64;
  }
  if (!link) return 64;
  open_pty(link);
  tell('C', "", 0);
  for (;;) {
    struct pollfd ready[3] = {{pty, POLLIN, 0}, {0, POLLIN, 0}, {control, POLLIN, 0}};
    int busy = to_board.first < to_board.end || to_host.first < to_host.end;
    int closed = !is_open; /* then POLLHUP is always ready: sleep */
    if (poll(ready, 3, 0) <= 0 || closed) usleep(busy ? 60 : 300);
    uint64_t now = now_ns();
    if (ready[2].revents & POLLIN) hear_control();
    int open_now = !(ready[0].revents & POLLHUP);
    if (open_now != is_open) {
      is_open = open_now;
      if (!is_open) to_board.first = to_board.end = to_host.first = to_host.end = 0;
      tell(is_open ? 'O' : 'C', "", 0);
    }
    watch_settings();
    if (is_open && ready[0].revents & POLLIN) hear_host(now);
    if (ready[1].revents & (POLLIN | POLLHUP)) hear_model(now);
    move(now);
  }
}
