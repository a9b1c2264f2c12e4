#!/usr/bin/env python3
"""A urxe process and the Linux kernel's rdma_rxe talk to each other.

usage: interop.py GUEST-DIR URXE

The other side is a virtual machine under software emulation whose kernel has its own rdma_rxe (see
make-guest). A tap device in a network namespace of this test's own joins both; no packet leaves it.
Each case runs a program on both sides, one as server and one as client, once in each direction.
Prints one line a case and at the end "N passed, N failed"; exit 77 when something is missing.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HOST, GUEST = "10.88.0.1", "10.88.0.2"
BOOT_SECONDS = 240  # software emulation on a busy machine
CASE_SECONDS = 120


def skip(reason):
    print(f"skip: {reason}")
    sys.exit(77)


class Guest:
    """The virtual machine and its command line on the second serial port"""

    def __init__(self, directory, netns, work):
        path = os.path.join(work, "serial")
        self.log = open(os.path.join(work, "console.log"), "wb")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.qemu = subprocess.Popen(
            ["ip", "netns", "exec", netns, "qemu-system-x86_64", "-accel", "tcg", "-m", "512", "-cpu", "max",
             "-kernel", f"{directory}/vmlinuz", "-initrd", f"{directory}/initrd",
             "-append", "console=ttyS0 quiet panic=-1", "-no-reboot", "-display", "none",
             "-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no",
             "-device", "virtio-net-pci,netdev=n0,host_mtu=4200",
             "-serial", "stdio", "-serial", f"unix:{path}", "-monitor", "none"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.listener.settimeout(30)
        self.sock, _ = self.listener.accept()
        self.buffer = b""

    def line(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("the guest does not answer")
            self.sock.settimeout(left)
            data = self.sock.recv(4096)
            if not data:
                raise ConnectionError("the guest is gone")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode(errors="replace").strip()

    def wait_ready(self):
        while self.line(BOOT_SECONDS) != "ready":
            pass

    def send(self, command):
        self.sock.sendall(command.encode() + b"\n")

    def result(self, seconds=CASE_SECONDS):
        output = []
        while True:
            line = self.line(seconds)
            if line.startswith("status "):
                return int(line.split()[1]), "\n".join(output)
            output.append(line)

    def run(self, command, seconds=CASE_SECONDS):
        self.send(command)
        return self.result(seconds)

    def close(self):
        self.qemu.kill()
        self.qemu.wait()
        self.log.close()


class Suite:
    def __init__(self, guest, netns, urxe):
        self.guest, self.netns, self.urxe = guest, netns, urxe
        self.passed = self.failed = 0

    def local(self, command, options=()):
        words = ["ip", "netns", "exec", self.netns, "timeout", str(CASE_SECONDS), self.urxe, "run",
                 "--device", "rxe0=tap0", *options, "--", *command.split()]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def report(self, name, ok, *outputs):
        print(f"{'ok    ' if ok else 'FAILED'} {name}", flush=True)
        if ok:
            self.passed += 1
            return
        self.failed += 1
        for o in outputs:
            print("    | " + o.replace("\n", "\n    | "))

    def guest_serves(self, name, server, client, options=()):
        self.guest.send(f"{server} >/tmp/out 2>&1 & sleep 2; true")
        self.guest.result()
        ours = self.local(client, options)
        out, _ = ours.communicate(timeout=CASE_SECONDS + 10)
        status, theirs = self.guest.run("wait $!; s=$?; cat /tmp/out; (exit $s)")
        self.report(f"{name}, kernel serves", ours.returncode == 0 and status == 0, out, theirs)

    def we_serve(self, name, server, client, options=()):
        ours = self.local(server, options)
        time.sleep(1.5)
        status, theirs = self.guest.run(f"timeout {CASE_SECONDS - 20} {client} 2>&1")
        try:
            out, _ = ours.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            ours.terminate()
            out, _ = ours.communicate()
        self.report(f"{name}, urxe serves", ours.returncode == 0 and status == 0, out, theirs)

    def both(self, name, program, guest_gid, our_gid="0", options=()):
        """@program has GID where the GID index goes; a client appends the server's address"""
        theirs, ours = program.replace("GID", guest_gid), program.replace("GID", our_gid)
        self.guest_serves(name, theirs, f"{ours} {GUEST}", options)
        self.we_serve(name, ours, f"{theirs} {HOST}", options)


def gid_index(text, address):
    """Index of the GID of @address in the output of ibv_devinfo -v"""
    for line in text.splitlines():
        if "GID[" in line and address in line:
            return line.split("GID[")[1].split("]")[0].strip()
    raise LookupError(f"no GID of {address} in:\n{text}")


def run_cases(s):
    status, info = s.guest.run("ibv_devinfo -v")
    if status:
        raise RuntimeError(f"the guest has no RDMA device:\n{info}")
    v4 = gid_index(info, f"::ffff:{GUEST}")
    s.both("RC ping-pong, data checked", "ibv_rc_pingpong -g GID -c -n 200", v4)
    s.both("RC ping-pong, MTU 1024, 64 KiB", "ibv_rc_pingpong -g GID -c -m 1024 -s 65536 -n 50", v4)
    s.both("UC ping-pong", "ibv_uc_pingpong -g GID -c -n 100", v4)
    s.both("UD ping-pong", "ibv_ud_pingpong -g GID -c -s 1024 -n 100", v4)
    s.both("RC WRITE", "ib_write_bw -x GID -s 65536 -n 100 -F", v4)
    s.both("RC READ", "ib_read_bw -x GID -s 65536 -n 50 -F", v4)
    s.both("RC SEND", "ib_send_bw -x GID -s 65536 -n 100 -F", v4)
    s.guest_serves("rping", "rping -s -C 10 -v", f"rping -c -a {GUEST} -C 10 -v")
    s.we_serve("rping", "rping -s -C 10 -v", f"rping -c -a {HOST} -C 10 -v")
    s.both("RC ping-pong, 2% of packets lost", "ibv_rc_pingpong -g GID -c -n 100", v4,
           options=("--impair", "loss=2%,seed=7"))


def make_netns(name):
    for command in (f"ip netns add {name}", f"ip -n {name} link set lo up",
                    f"ip -n {name} tuntap add dev tap0 mode tap", f"ip -n {name} link set tap0 mtu 4200 up",
                    f"ip -n {name} addr add {HOST}/24 dev tap0", f"ip -n {name} -6 addr add fd88::1/64 dev tap0 nodad"):
        if subprocess.run(command.split(), check=False).returncode:
            skip(f"no network namespace with a tap device can be made ({command})")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: interop.py GUEST-DIR URXE")
    directory, urxe = sys.argv[1:]
    if os.geteuid():
        skip("network namespaces need root")
    if not shutil.which("qemu-system-x86_64"):
        skip("qemu-system-x86_64 is not installed")
    netns = f"urxe-interop-{os.getpid()}"
    work = tempfile.mkdtemp(prefix="urxe-interop-")
    make_netns(netns)
    guest = None
    try:
        guest = Guest(directory, netns, work)
        guest.wait_ready()
        suite = Suite(guest, netns, urxe)
        run_cases(suite)
    except (ConnectionError, TimeoutError) as e:
        with open(os.path.join(work, "console.log"), errors="replace") as console:
            print(f"FAILED {e}; the end of its console:\n    | " + "    | ".join(console.readlines()[-40:]))
        return 1
    finally:
        if guest:
            guest.close()
        subprocess.run(["ip", "netns", "del", netns], check=False)
        shutil.rmtree(work)
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed else 0


sys.exit(main())
