/*
 * A Modbus server by libmodbus: `tcp PORT` or `rtu DEVICE`. Of its unit 7, the holding registers 0 to 99 are 1000, 1001, …,
 * the input registers 0 to 25 are 0 except 5, which is 0xff38, coil 0 is 0, coil 1 is 1, and the discrete input 0 is 1.
 */
#include <errno.h>
#include <modbus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, modbus_strerror(errno));
  exit(1);
}

static void serve(modbus_t *line, modbus_mapping_t *unit) {
  unsigned char request[MODBUS_MAX_ADU_LENGTH];
  for (int length; (length = modbus_receive(line, request)) >= 0;)
    if (length > 0 && modbus_reply(line, request, length, unit) < 0) return;
}

int main(int argc, char **argv) {
  if (argc != 3) return 64;
  int is_tcp = !strcmp(argv[1], "tcp");
  modbus_mapping_t *unit = modbus_mapping_new(2, 1, 100, 26);
  modbus_t *line = is_tcp ? modbus_new_tcp("127.0.0.1", atoi(argv[2])) : modbus_new_rtu(argv[2], 9600, 'N', 8, 1);
  if (!unit || !line || modbus_set_slave(line, 7)) fail("libmodbus");
  for (int i = 0; i < 100; i++) unit->tab_registers[i] = 1000 + i;
  unit->tab_input_registers[5] = 0xff38;
  unit->tab_bits[1] = 1;
  unit->tab_input_bits[0] = 1;
  modbus_set_response_timeout(line, 0, 1000); /* so long it drops what follows a request that it refuses */
  int listener = is_tcp ? modbus_tcp_listen(line, 1) : -1;
  if (is_tcp ? listener < 0 : modbus_connect(line) < 0) fail(argv[2]);
  for (;;) {
    if (is_tcp && modbus_tcp_accept(line, &listener) < 0) fail("accept");
    serve(line, unit);
    if (is_tcp) modbus_close(line);
  }
}
