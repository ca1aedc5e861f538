/*
 * gpiochip.so: a GPIO chip for the programs of libgpiod 1 and 2, which speak the versions 1 and 2 of the kernel's
 * character device ABI (linux/gpio.h).
 *
 *   LD_PRELOAD=gpiochip.so GPIOCHIP=0100 gpioget gpiochip0 1
 *
 * /dev/gpiochip0 has as many lines as GPIOCHIP has characters, which are their values.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/gpio.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHIP "/dev/gpiochip0"
#define NUMBERS "/sys/bus/gpio/devices/gpiochip0/dev"
/* A character device that everybody has takes its place. */
#define PLACE "/dev/null"

/* libgpiod 2 finds the bus of a device here. */
#define SUBSYSTEM "/sys/dev/char/1:3/subsystem"

static unsigned asked[GPIOHANDLES_MAX];
static unsigned count;

static const char *values(void) {
  const char *text = getenv("GPIOCHIP");
  return text ? text : "";
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int stat(const char *path, struct stat *found) { return REAL(stat)(strcmp(path, CHIP) ? path : PLACE, found); }
int lstat(const char *path, struct stat *found) { return REAL(lstat)(strcmp(path, CHIP) ? path : PLACE, found); }
int access(const char *path, int mode) { return strcmp(path, NUMBERS) ? REAL(access)(path, mode) : 0; }

char *realpath(const char *path, char *found) {
  if (strcmp(path, SUBSYSTEM)) return REAL(realpath)(path, found);
  return found ? strcpy(found, "/sys/bus/gpio") : strdup("/sys/bus/gpio");
}

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  if (!strcmp(path, NUMBERS)) {
    int fd = memfd_create("dev", MFD_CLOEXEC);
    if (write(fd, "1:3\n", 4) != 4) return -1;
    lseek(fd, 0, SEEK_SET);
    return fd;
  }
  return REAL(open)(strcmp(path, CHIP) ? path : PLACE, flags, mode);
}

/* Returns the descriptor of the requested lines, or -1. */
static int request(const unsigned *lines, unsigned number) {
  count = number;
  for (unsigned index = 0; index < count; index++) {
    if (lines[index] >= strlen(values())) return errno = EINVAL, -1;
    asked[index] = lines[index];
  }
  return REAL(open)(PLACE, O_RDWR);
}

static int value(unsigned index) { return values()[asked[index]] == '1'; }

int ioctl(int fd, unsigned long command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  switch ((unsigned)command) {
    case GPIO_GET_CHIPINFO_IOCTL:
      *(struct gpiochip_info *)argument = (struct gpiochip_info){.name = "gpiochip0", .label = "test", .lines = strlen(values())};
      return 0;
    case GPIO_GET_LINEINFO_IOCTL: return 0;
    case GPIO_V2_GET_LINEINFO_IOCTL: return 0;
    case GPIO_GET_LINEHANDLE_IOCTL: {
      struct gpiohandle_request *handle = argument;
      handle->fd = request(handle->lineoffsets, handle->lines);
      return handle->fd < 0 ? -1 : 0;
    }
    case GPIO_V2_GET_LINE_IOCTL: {
      struct gpio_v2_line_request *line = argument;
      line->fd = request(line->offsets, line->num_lines);
      return line->fd < 0 ? -1 : 0;
    }
    case GPIOHANDLE_GET_LINE_VALUES_IOCTL:
      for (unsigned index = 0; index < count; index++) ((struct gpiohandle_data *)argument)->values[index] = value(index);
      return 0;
    case GPIO_V2_LINE_GET_VALUES_IOCTL:
      ((struct gpio_v2_line_values *)argument)->bits = 0;
      for (unsigned index = 0; index < count; index++)
        ((struct gpio_v2_line_values *)argument)->bits |= (unsigned long long)value(index) << index;
      return 0;
    default: return REAL(ioctl)(fd, command, argument);
  }
}
