"""migrate.py - moves a machine from one QEMU to another.

usage: migrate.py SOURCE DESTINATION ADDRESS: the QMP sockets of both, and where the destination waits
"""

import json
import socket
import sys
import time


class Machine:
    def __init__(self, path):
        for _ in range(100):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                break
            except OSError:
                time.sleep(0.2)
        self.file = self.socket.makefile("rw")
        self.file.readline()
        self.do("qmp_capabilities")

    def do(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline())
            if "event" not in answer:
                return answer.get("return", answer)


source, destination = Machine(sys.argv[1]), Machine(sys.argv[2])
print(source.do("migrate", uri=sys.argv[3]))
status = ""
while status not in ("completed", "failed", "cancelled"):
    time.sleep(0.5)
    status = source.do("query-migrate").get("status", "")
print("migration:", status, destination.do("query-status"))
for machine in source, destination:
    machine.do("quit")
sys.exit(status != "completed")
