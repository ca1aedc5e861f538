/*
 * gpiochip.so: a GPIO chip for the programs of libgpiod 1, which speak the kernel's character device ABI version 1
 * (linux/gpio.h).
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

static int request(struct gpiohandle_request *handle) {
  count = handle->lines;
  for (unsigned index = 0; index < count; index++) {
    if (handle->lineoffsets[index] >= strlen(values())) return errno = EINVAL, -1;
    asked[index] = handle->lineoffsets[index];
  }
  handle->fd = REAL(open)(PLACE, O_RDWR);
  return 0;
}

int ioctl(int fd, unsigned long command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  switch (command) {
    case GPIO_GET_CHIPINFO_IOCTL:
      *(struct gpiochip_info *)argument = (struct gpiochip_info){.name = "gpiochip0", .label = "test", .lines = strlen(values())};
      return 0;
    case GPIO_GET_LINEINFO_IOCTL: return 0;
    case GPIO_GET_LINEHANDLE_IOCTL: return request(argument);
    case GPIOHANDLE_GET_LINE_VALUES_IOCTL:
      for (unsigned index = 0; index < count; index++)
        ((struct gpiohandle_data *)argument)->values[index] = values()[asked[index]] == '1';
      return 0;
    default: return REAL(ioctl)(fd, command, argument);
  }
}
