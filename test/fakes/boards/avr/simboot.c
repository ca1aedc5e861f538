/*
 * simboot: a real AVR bootloader in simavr, in real time, with UART0 on a pseudo-terminal.
 *
 *   simboot -m atmega328p -b boot.hex -l ./ttyUNO [-f HZ] [-p PAGE_MS] [-u LATENCY_MS] [-i FLASH] [-o]
 *           [-c CONTROL] [-w FOLDER] [-s TIMES] [-q] [-h FUSE]
 *
 *   -l  symbolic link to make to the pty
 *   -p  how long a page erase and a page write take each (data sheets: 3.7 to 4.5 ms)
 *   -u  hold back what the chip says like the latency timer of an FTDI adapter
 *   -i  contents of the flash memory to begin with
 *   -o  reset when the pty is opened, as DTR does through its capacitor on an Arduino
 *   -c  datagram socket that hears from ptymodem.so, which gives the pty modem lines: reset when DTR is asserted. While that
 *       program waits for a processor, the time of the chip stands still: an emulated machine does not notice how slow it is
 *   -s  so many times slower than real time
 *   -q  pass over the time in which the chip waits for a byte: for a bootloader that does not count how often it asks for
 *       one, and so measures time. While it waits until it may send the next one, time is passed over in any case
 *   -h  high fuse byte, which a bootloader may read (default: 0xd8, boards.txt of arduino-core-avr for the ATmega2560)
 *   -w  append each page that changed to FOLDER/board-writes: how many bytes FOLDER/writes-0, writes-1, … have by then (the
 *       logs of a gateway's disk), its address, and its bytes in hex
 *
 * Commands on stdin, one per line; each is answered with one line on stdout:
 *   reset         pull RESET low            power         cut the power and give it back
 *   die ADDRESS   lose power at the first page write at or after it
 *   drop N, flip N                          damage every Nth byte to the chip (0: none)
 *   mute N        lose every Nth byte from the chip (0: none)
 *   dump FILE     write the flash memory    stats         say what was counted
 *   unplug, plug  take the pty away and make another under the same link
 *
 * SIGUSR1 pulls RESET low, too: a reset command for hosts whose port has no modem lines.
 *
 * A byte that nobody takes out of the UART in time is lost, as on silicon. Ends at the end of stdin.
 * libsimavr is GPL-3: this is a test tool, never part of the agent.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <simavr/avr_flash.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_hex.h>

#define HOST_POLL_NS 100000ull
#define HOST_LOOK_NS 2000000ull
#define USB_PACKET 62

struct counts { unsigned long to_chip, from_chip, erases, writes, resets, overruns; };

static avr_t *avr;
static avr_uart_t *uart;
static avr_flash_t *flash;
static int (*simavr_flash_ioctl)(avr_io_t *, uint32_t, void *);
static struct counts count;

static int pty = -1;
static const char *link_path;
static int resets_on_open;
static volatile sig_atomic_t reset_asked;
static int control = -1;
static int chip_listens = 1;
static double slowness = 1;
static double page_ms = 0, latency_ms = 0;
static uint32_t nrww_start = 0x7000;
static uint64_t halt_ns;
static avr_cycle_count_t rww_busy_until;
static long die_at = -1;
static int dead;
static unsigned long drop_every, flip_every, mute_every;

/* The cycle that real time is at, and the one at which the chip takes the next byte, where there is one. */
static avr_cycle_count_t due, next_input;
static int has_input, is_waiting, passes_over;
static avr_io_read_t simavr_read_status;
static void *simavr_read_status_parameter;

static unsigned char to_host[65536];
static size_t to_host_length;
static uint64_t to_host_since;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  putchar('\n');
  fflush(stdout);
}

static void on_byte_from_chip(struct avr_irq_t *irq, uint32_t value, void *parameter) {
  (void)irq, (void)parameter;
  count.from_chip++;
  if (mute_every && count.from_chip % mute_every == 0) return;
  if (to_host_length == 0) to_host_since = now_ns();
  if (to_host_length < sizeof to_host) to_host[to_host_length++] = value;
}

static void on_xon(struct avr_irq_t *irq, uint32_t value, void *parameter) {
  (void)irq, (void)value, (void)parameter;
  chip_listens = 1;
}

static void on_xoff(struct avr_irq_t *irq, uint32_t value, void *parameter) {
  (void)irq, (void)value, (void)parameter;
  chip_listens = 0;
}

static const char *watched;
static FILE *page_notes;

static long long watched_bytes(void) {
  long long bytes = 0;
  for (int number = 0;; number++) {
    char path[4096];
    struct stat log;
    snprintf(path, sizeof path, "%s/writes-%d", watched, number);
    if (stat(path, &log)) return bytes;
    bytes += log.st_size;
  }
}

static void note_page(uint32_t address) {
  uint32_t page = address - address % flash->spm_pagesize;
  fprintf(page_notes, "%lld %u ", watched_bytes(), page);
  for (int i = 0; i < flash->spm_pagesize; i++) fprintf(page_notes, "%02x", avr->flash[page + i]);
  fputc('\n', page_notes);
  fflush(page_notes);
}

/* Counts and times page erases and writes. In the RWW section the CPU runs on and SELFPRGEN reads 1 until the page is
 * done; in the NRWW section the CPU halts. */
static int on_flash_ioctl(avr_io_t *io, uint32_t control, void *parameter) {
  if (control == AVR_IOCTL_FLASH_SPM) {
    int erase = avr_regbit_get(avr, flash->pgers);
    int write = avr_regbit_get(avr, flash->pgwrt);
    uint32_t address = avr->data[R_ZL] | avr->data[R_ZH] << 8;
    if (avr->rampz) address |= avr->data[avr->rampz] << 16;
    if (erase || write) {
      if (address >= nrww_start) halt_ns += page_ms * 1e6;
      else rww_busy_until = avr->cycle + page_ms * avr->frequency / 1000;
      if (erase) count.erases++;
      else count.writes++;
      if (write && die_at >= 0 && address >= (uint32_t)die_at) dead = 1;
      if (page_notes) {
        int result = simavr_flash_ioctl(io, control, parameter);
        note_page(address);
        return result;
      }
    }
  }
  return simavr_flash_ioctl(io, control, parameter);
}

/* The chip asks in a loop for what is not so yet: nothing changes before the next timer, byte or moment of real time. */
static void pass_over(avr_t *chip, avr_cycle_count_t until) {
  avr_cycle_timer_slot_p timer = chip->cycle_timers.timer;
  if (timer && timer->when < until) until = timer->when;
  if (has_input && next_input < until) until = next_input;
  if (due < until) until = due;
  if (until > chip->cycle) chip->cycle = until;
  chip->run_cycle_count = 0; /* simavr looks at its timers before the next instruction */
  is_waiting = 1;
}

static uint8_t on_read_status(avr_t *chip, avr_io_addr_t address, void *parameter) {
  static avr_flashaddr_t last_pc;
  static uint8_t last_value;
  static avr_cycle_count_t last_cycle;
  (void)parameter;
  uint8_t value = simavr_read_status ? simavr_read_status(chip, address, simavr_read_status_parameter) : chip->data[address];
  int may_pass = passes_over || !(value & 1 << 5); /* UDRE */
  int is_again = chip->pc == last_pc && value == last_value && chip->cycle - last_cycle < 16;
  if (may_pass && is_again) pass_over(chip, due);
  last_pc = chip->pc;
  last_value = value;
  last_cycle = chip->cycle;
  return value;
}

static uint8_t on_read_spmcsr(avr_t *chip, avr_io_addr_t address, void *parameter) {
  (void)parameter;
  uint8_t value = chip->data[address];
  if (chip->cycle < rww_busy_until) pass_over(chip, rww_busy_until);
  return chip->cycle < rww_busy_until ? value | 1 : value & ~1;
}

/* For an LPM within three cycles after BLBSET and SELFPRGEN were set, Z = 0 to 3 are low fuse, lock, extended and high fuse
 * (data sheets, "Reading the Fuse and Lock Bits from Software"). simavr reads the flash memory all the same. */
static uint8_t fuses[4] = {0xff, 0xcf, 0xfd, 0xd8}, hidden[4];
static avr_io_write_t simavr_write_spmcsr;
static void *simavr_write_spmcsr_parameter;
static int fuses_show;

static avr_cycle_count_t on_fuses_end(avr_t *chip, avr_cycle_count_t when, void *parameter) {
  (void)when, (void)parameter;
  memcpy(chip->flash, hidden, sizeof hidden);
  fuses_show = 0;
  return 0;
}

static void on_write_spmcsr(avr_t *chip, avr_io_addr_t address, uint8_t value, void *parameter) {
  (void)parameter;
  simavr_write_spmcsr(chip, address, value, simavr_write_spmcsr_parameter);
  if ((value & 0x3f) != 0x09 || fuses_show) return;
  memcpy(hidden, chip->flash, sizeof hidden);
  memcpy(chip->flash, fuses, sizeof fuses);
  fuses_show = 1;
  avr_cycle_timer_register(chip, 5, on_fuses_end, 0);
}

/* A chip that sleeps does so for a millisecond at a time: a reset wakes it. */
static avr_cycle_count_t on_tick(avr_t *chip, avr_cycle_count_t when, void *parameter) {
  (void)parameter;
  return when + chip->frequency / 1000;
}

/* Of simavr's own, which knows nothing of the time here. */
static void on_sleep(avr_t *chip, avr_cycle_count_t cycles) {
  (void)chip, (void)cycles;
}

static void reset(int power_on) {
  if (fuses_show) on_fuses_end(avr, 0, 0);
  avr_reset(avr);
  avr_cycle_timer_register(avr, avr->frequency / 1000, on_tick, 0);
  if (avr->reset_flags.porf.reg) {
    avr_regbit_clear(avr, avr->reset_flags.porf);
    avr_regbit_clear(avr, avr->reset_flags.extrf);
    avr_regbit_clear(avr, avr->reset_flags.wdrf);
    avr_regbit_set(avr, power_on ? avr->reset_flags.porf : avr->reset_flags.extrf);
  }
  chip_listens = 1;
  rww_busy_until = 0;
  count.resets++;
  if (power_on) dead = 0, die_at = -1;
}

static void fail(const char *what) {
  fprintf(stderr, "simboot: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void dump(const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) fail(path);
  fwrite(avr->flash, 1, avr->flashend + 1, file);
  fclose(file);
}

static void open_pty(void);

static void on_reset_signal(int number) {
  (void)number;
  reset_asked = 1;
}

static void unplug(void) {
  if (pty >= 0) close(pty);
  unlink(link_path);
  pty = -1;
  to_host_length = 0;
}

static void obey(char *line) {
  char word[16] = "", argument[4096] = "";
  sscanf(line, "%15s %4095s", word, argument);
  long number = strtol(argument, 0, 0);
  if (!strcmp(word, "reset")) { if (!dead) reset(0); }
  else if (!strcmp(word, "power")) reset(1);
  else if (!strcmp(word, "die")) die_at = number;
  else if (!strcmp(word, "drop")) drop_every = number;
  else if (!strcmp(word, "flip")) flip_every = number;
  else if (!strcmp(word, "mute")) mute_every = number;
  else if (!strcmp(word, "unplug")) unplug();
  else if (!strcmp(word, "plug")) open_pty();
  else if (!strcmp(word, "dump")) dump(argument);
  say("%s to_chip=%lu from_chip=%lu erases=%lu writes=%lu resets=%lu overruns=%lu dead=%d", word, count.to_chip,
      count.from_chip, count.erases, count.writes, count.resets, count.overruns, dead);
}

static void open_control(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  control = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int yes = 1;
  if (control >= 0) setsockopt(control, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
  if (control < 0 || bind(control, (void *)&address, sizeof address)) fail(path);
}

static pid_t host_process;

/* How long the busiest thread of the host has waited for a processor since the last time (/proc/PID/task/TID/schedstat). */
static uint64_t host_waited_ns(void) {
  static long last_thread;
  static unsigned long long last_waited;
  char path[64], entry[400];
  unsigned long long busiest = 0, waited = 0;
  long thread = 0;
  snprintf(path, sizeof path, "/proc/%d/task", host_process);
  DIR *tasks = opendir(path);
  if (!tasks) return 0;
  for (struct dirent *task; (task = readdir(tasks));) {
    unsigned long long ran, delayed;
    snprintf(entry, sizeof entry, "%s/%s/schedstat", path, task->d_name);
    FILE *file = fopen(entry, "r");
    if (!file) continue;
    if (fscanf(file, "%llu %llu", &ran, &delayed) == 2 && ran > busiest) {
      busiest = ran;
      waited = delayed;
      thread = atol(task->d_name);
    }
    fclose(file);
  }
  closedir(tasks);
  unsigned long long since = thread == last_thread && waited > last_waited ? waited - last_waited : 0;
  last_thread = thread;
  last_waited = waited;
  return since;
}

/* DTR pulls RESET low through a capacitor: its edge counts. */
static void hear_control(void) {
  static int dtr = 1;
  char text[64];
  union { char bytes[CMSG_SPACE(sizeof(struct ucred))]; struct cmsghdr align; } sender;
  ssize_t length;
  for (;;) {
    struct iovec place = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1, .msg_control = &sender, .msg_controllen = sizeof sender};
    if ((length = recvmsg(control, &message, 0)) <= 0) return;
    struct cmsghdr *credentials = CMSG_FIRSTHDR(&message);
    if (credentials && credentials->cmsg_type == SCM_CREDENTIALS)
      host_process = ((struct ucred *)CMSG_DATA(credentials))->pid;
    int before = dtr;
    text[length] = 0;
    if (sscanf(text, "M %d", &dtr) == 1 && dtr && !before && !dead) reset(0);
  }
}

/* Reads stdin without waiting; exits at its end. */
static void poll_commands(void) {
  static char line[4200];
  static size_t length;
  char byte;
  ssize_t got;
  while ((got = read(0, &byte, 1)) == 1) {
    if (byte != '\n' && length < sizeof line - 1) { line[length++] = byte; continue; }
    line[length] = 0;
    length = 0;
    obey(line);
  }
  if (got == 0) exit(0);
}

static void load_bootloader(const char *path) {
  ihex_chunk_p chunks;
  int chunk_count = read_ihex_chunks(path, &chunks);
  if (chunk_count <= 0) fail(path);
  uint32_t start = UINT32_MAX;
  for (int i = 0; i < chunk_count; i++) {
    memcpy(avr->flash + chunks[i].baseaddr, chunks[i].data, chunks[i].size);
    if (chunks[i].size > 64 && chunks[i].baseaddr < start) start = chunks[i].baseaddr;
  }
  avr->reset_pc = avr->pc = start;
  avr->codeend = avr->flashend;
}

static void hook_peripherals(void) {
  for (avr_io_t *io = avr->io_port; io; io = io->next) {
    if (!strcmp(io->kind, "flash")) {
      flash = (avr_flash_t *)io;
      simavr_flash_ioctl = io->ioctl;
      io->ioctl = on_flash_ioctl;
      avr_register_io_read(avr, flash->r_spm, on_read_spmcsr, 0);
      avr_io_addr_t control = AVR_DATA_TO_IO(flash->r_spm);
      simavr_write_spmcsr = avr->io[control].w.c;
      simavr_write_spmcsr_parameter = avr->io[control].w.param;
      avr->io[control].w.c = on_write_spmcsr;
    }
    if (!strcmp(io->kind, "uart") && ((avr_uart_t *)io)->name == '0') uart = (avr_uart_t *)io;
  }
  if (!flash || !uart) fail("this core has no self-programming or no UART0");
  avr_io_addr_t status = AVR_DATA_TO_IO(uart->r_ucsra);
  simavr_read_status = avr->io[status].r.c;
  simavr_read_status_parameter = avr->io[status].r.param;
  avr->io[status].r.c = on_read_status;
  uint32_t flags = 0;
  avr_ioctl(avr, AVR_IOCTL_UART_GET_FLAGS('0'), &flags);
  flags &= ~(AVR_UART_FLAG_STDIO | AVR_UART_FLAG_POLL_SLEEP);
  avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
  avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), on_byte_from_chip, 0);
  avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUT_XON), on_xon, 0);
  avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUT_XOFF), on_xoff, 0);
}

static void open_pty(void) {
  char name[64];
  pty = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (pty < 0 || grantpt(pty) || unlockpt(pty) || ptsname_r(pty, name, sizeof name)) fail("pty");
  int slave = open(name, O_RDWR | O_NOCTTY);
  struct termios settings;
  tcgetattr(slave, &settings);
  cfmakeraw(&settings);
  tcsetattr(slave, TCSANOW, &settings);
  if (resets_on_open) close(slave); /* POLLHUP then tells whether anyone has it open */
  unlink(link_path);
  if (symlink(name, link_path)) fail(link_path);
}

/* Host to chip: one byte per character time of the chip's own baud rate. */
static void feed_chip(avr_irq_t *input, const unsigned char *bytes, int *position, int length) {
  while (*position < length && avr->cycle >= next_input) {
    unsigned char byte = bytes[(*position)++];
    next_input = (next_input + uart->cycles_per_byte > avr->cycle ? next_input : avr->cycle) + uart->cycles_per_byte;
    count.to_chip++;
    if (drop_every && count.to_chip % drop_every == 0) continue;
    if (flip_every && count.to_chip % flip_every == 0) byte ^= 1 << (count.to_chip % 8);
    if (!chip_listens) { count.overruns++; continue; }
    avr_raise_irq(input, byte);
  }
  has_input = *position < length;
}

/* Until somebody sends something, or for a millisecond; of a pty that nobody has open that cannot be told. */
static void wait_for_host(int is_open) {
  struct pollfd sources[] = {{0, POLLIN, 0}, {control, POLLIN, 0}, {is_open ? pty : -1, POLLIN, 0}};
  poll(sources, sizeof sources / sizeof *sources, 1);
}

static void feed_host(void) {
  if (to_host_length == 0) return;
  int due = latency_ms <= 0 || to_host_length >= USB_PACKET || now_ns() - to_host_since >= latency_ms * 1e6;
  if (!due) return;
  ssize_t written = write(pty, to_host, to_host_length);
  if (written <= 0) { to_host_length = 0; return; }
  memmove(to_host, to_host + written, to_host_length - written);
  to_host_length -= written;
  to_host_since = now_ns();
}

static void run(void) {
  unsigned char from_host[256];
  int length = 0, position = 0, is_open = !resets_on_open;
  avr_irq_t *input = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
  uint64_t started = now_ns(), polled = 0, looked = 0;
  avr_cycle_count_t start_cycle = avr->cycle;
  for (;;) {
    uint64_t now = now_ns();
    if (now - polled > HOST_POLL_NS) {
      polled = now;
      poll_commands();
      if (control >= 0) hear_control();
      if (host_process && now - looked > HOST_LOOK_NS) {
        looked = now;
        started += host_waited_ns();
      }
      if (reset_asked && !dead) reset(0);
      reset_asked = 0;
      struct pollfd host = {pty, POLLIN, 0};
      poll(&host, 1, 0);
      int open_now = pty >= 0 && !(host.revents & POLLHUP);
      if (resets_on_open && open_now && !is_open && !dead) reset(0);
      is_open = open_now || !resets_on_open;
      if (position >= length && host.revents & POLLIN) {
        length = read(pty, from_host, sizeof from_host);
        position = 0;
      }
      feed_host();
    }
    if (dead) { /* no power: what is sent is lost */
      position = length = 0;
      to_host_length = 0;
      usleep(500);
      started = now_ns();
      start_cycle = avr->cycle;
      continue;
    }
    feed_chip(input, from_host, &position, length);
    int64_t behind = (int64_t)((double)(int64_t)(now - started) * avr->frequency / 1e9 / slowness) - (int64_t)(avr->cycle - start_cycle);
    if (behind <= 0) {
      int is_early = avr->state == cpu_Sleeping || (host_process && behind < -(int64_t)avr->frequency / 1000);
      if (is_waiting && !has_input && to_host_length == 0) {
        wait_for_host(resets_on_open && is_open);
        polled = 0;
      }
      else usleep(is_early ? 1000 : 80);
      continue;
    }
    if (behind > (int64_t)avr->frequency / 20) { started = now; start_cycle = avr->cycle; } /* too slow: do not rush after */
    due = avr->cycle + behind;
    is_waiting = 0;
    for (int i = 0; i < 16 && !halt_ns && !dead && !(is_waiting && avr->cycle >= due); i++) {
      int state = avr_run(avr);
      if (state == cpu_Done || state == cpu_Crashed) reset(0);
    }
    if (halt_ns) {
      halt_ns *= slowness;
      usleep(halt_ns / 1000);
      started += halt_ns;
      halt_ns = 0;
    }
  }
}

int main(int argc, char **argv) {
  const char *model = "atmega328p", *bootloader = 0, *contents = 0;
  long frequency = 16000000;
  int option;
  while ((option = getopt(argc, argv, "m:b:l:f:p:u:i:oc:w:s:qh:")) > 0) switch (option) {
    case 'm': model = optarg; break;
    case 'b': bootloader = optarg; break;
    case 'l': link_path = optarg; break;
    case 'f': frequency = atol(optarg); break;
    case 'p': page_ms = atof(optarg); break;
    case 'u': latency_ms = atof(optarg); break;
    case 'i': contents = optarg; break;
    case 'o': resets_on_open = 1; break;
    case 'c': open_control(optarg); break;
    case 'w': watched = optarg; break;
    case 'q': passes_over = 1; break;
    case 's': slowness = atof(optarg); break;
    case 'h': fuses[3] = strtol(optarg, 0, 0); break;
    default: return 64;
  }
  if (!bootloader || !link_path) return 64;
  avr = avr_make_mcu_by_name(model);
  if (!avr) fail(model);
  avr_init(avr);
  avr->frequency = frequency;
  avr->sleep = on_sleep;
  avr->log = LOG_ERROR;
  memset(avr->flash, 0xff, avr->flashend + 1);
  if (contents) {
    FILE *file = fopen(contents, "rb");
    if (!file || fread(avr->flash, 1, avr->flashend + 1, file) == 0) fail(contents);
    fclose(file);
  }
  if (watched) {
    char path[4096];
    snprintf(path, sizeof path, "%s/board-writes", watched);
    page_notes = fopen(path, "a");
    if (!page_notes) fail(path);
  }
  if (strstr(model, "2560")) nrww_start = 0x3e000;
  else if (strstr(model, "168")) nrww_start = 0x3800;
  else if (strstr(model, "644")) nrww_start = 0xe000;
  else if (strstr(model, "128")) nrww_start = 0x1e000;
  load_bootloader(bootloader);
  hook_peripherals();
  signal(SIGUSR1, on_reset_signal);
  open_pty();
  fcntl(0, F_SETFL, O_NONBLOCK);
  reset(0);
  say("ready");
  run();
}
