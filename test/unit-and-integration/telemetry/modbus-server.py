"""A Modbus server by pymodbus: `tcp PORT` or `rtu DEVICE`. Holding registers 0.. are 1000, 1001, …; input register 5 is 0xff38."""
import sys

from pymodbus.datastore import ModbusSequentialDataBlock, ModbusServerContext, ModbusSlaveContext
from pymodbus.server import StartSerialServer, StartTcpServer
from pymodbus.transaction import ModbusRtuFramer

slave = ModbusSlaveContext(
    hr=ModbusSequentialDataBlock(0, list(range(1000, 1100))),
    ir=ModbusSequentialDataBlock(0, [0] * 5 + [0xFF38] + [0] * 20),
    co=ModbusSequentialDataBlock(0, [False, True]),
    di=ModbusSequentialDataBlock(0, [True]),
    zero_mode=True,
)
context = ModbusServerContext(slaves={7: slave}, single=False)
if sys.argv[1] == "tcp":
    StartTcpServer(context=context, address=("127.0.0.1", int(sys.argv[2])))
else:
    StartSerialServer(context=context, framer=ModbusRtuFramer, port=sys.argv[2], baudrate=9600, timeout=0.05)
