#!/usr/bin/env python3
"""A urxe process and the Linux kernel's rdma_rxe talk to each other.

usage: interop.py GUEST-DIR URXE [case...]

The other side is a virtual machine under software emulation whose kernel has its own rdma_rxe (see
make-guest). A tap device in a network namespace of this test's own joins both; no packet leaves it.
Each case runs a program on both sides, one as server and one as client, once in each direction.
Prints one line a case and at the end "N passed, N failed"; exit 77 when something is missing.

A guest whose own kernel dies is no finding about urxe: it is booted anew, once, and the case is
repeated. What its console said is printed.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HOST, GUEST = "10.88.0.1", "10.88.0.2"
HOST6, GUEST6 = "fd88::1", "fd88::2"
BOOT_SECONDS = 400  # software emulation on a busy machine
CASE_SECONDS = 150
REFUSED = "RDMA_CM_EVENT_REJECTED, error 8"


class GuestGone(Exception):
    """The virtual machine does not answer any more"""


def skip(reason):
    print(f"skip: {reason}")
    sys.exit(77)


class Guest:
    """The virtual machine and its command line on a port that loses nothing"""

    def __init__(self, directory, netns, work, number):
        path = os.path.join(work, f"serial{number}")
        self.console = os.path.join(work, f"console{number}.log")
        self.log = open(self.console, "wb")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.qemu = subprocess.Popen(
            ["ip", "netns", "exec", netns, "qemu-system-x86_64", "-accel", "tcg", "-m", "512", "-cpu", "max",
             "-kernel", f"{directory}/vmlinuz", "-initrd", f"{directory}/initrd",
             "-append", "console=ttyS0 quiet panic=-1", "-no-reboot", "-display", "none",
             "-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no",
             "-device", "virtio-net-pci,netdev=n0,host_mtu=4200",
             "-serial", "stdio", "-monitor", "none",
             # a serial line loses characters when the machine is busy
             "-device", "virtio-serial-pci", "-chardev", f"socket,id=c0,path={path}",
             "-device", "virtserialport,chardev=c0,name=commands,nr=1"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.buffer = b""
        self.sock = None
        self.listener.settimeout(1)
        for _ in range(BOOT_SECONDS):
            try:
                self.sock, _ = self.listener.accept()
                break
            except TimeoutError:
                if self.qemu.poll() is not None:
                    break
        if not self.sock:
            raise GuestGone(f"qemu does not start (exit code {self.qemu.poll()})")

    def line(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0:
                raise GuestGone("the guest does not answer")
            self.sock.settimeout(left)
            try:
                data = self.sock.recv(4096)
            except TimeoutError:
                continue
            except ConnectionError:
                data = b""
            if not data:
                raise GuestGone("the guest is gone")
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
        self.listener.close()
        self.log.close()

    def last_words(self):
        with open(self.console, errors="replace") as f:
            return f.readlines()[-60:]


class Suite:
    def __init__(self, netns, urxe):
        self.netns, self.urxe = netns, urxe
        self.guest = None
        self.passed = self.failed = 0
        self.ours = []  # processes under urxe of the case that runs

    def local(self, command, options=()):
        words = ["ip", "netns", "exec", self.netns, "timeout", str(CASE_SECONDS), self.urxe, "run",
                 "--device", "rxe0=tap0", *options, "--", *command.split()]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.ours.append(process)
        return process

    def forget(self):
        """The case is over, whatever became of it"""
        for process in self.ours:
            if process.poll() is None:
                process.terminate()
                process.wait()
            process.stdout.close()
        self.ours.clear()

    def report(self, name, ok, *outputs):
        print(f"{'ok    ' if ok else 'FAILED'} {name}", flush=True)
        if ok:
            self.passed += 1
            return
        self.failed += 1
        for o in outputs:
            print("    | " + o.replace("\n", "\n    | "))

    def kill(self, process):
        """Kill the program that a process of local() runs: timeout, urxe, program"""
        for _ in range(2):
            child = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
            pid = int(child.stdout.split()[0])
            process = type("child", (), {"pid": pid})
        os.kill(pid, signal.SIGKILL)

    def wait_listening(self, port):
        """Until our server of the ping-pongs, perftest, listens. rdma_cm's cannot be seen: a pause"""
        wanted = re.compile(rf"[.:\]*]:?{port}\b")
        for _ in range(60):
            out = subprocess.run(["ip", "netns", "exec", self.netns, "ss", "-Hltn"], capture_output=True, text=True,
                                 check=False)
            if any(wanted.search(line.split()[3]) for line in out.stdout.splitlines()):
                return
            time.sleep(0.5)

    def guest_serves(self, name, server, client, options=()):
        self.guest.send(f"timeout {CASE_SECONDS} {server} >/tmp/out 2>&1 & sleep 2; true")
        self.guest.result()
        ours = self.local(client, options)
        out, _ = ours.communicate(timeout=CASE_SECONDS + 10)
        if ours.returncode:
            self.guest.run("kill $! 2>/dev/null")
        status, theirs = self.guest.run("wait $!; s=$?; cat /tmp/out; (exit $s)")
        self.report(f"{name}, kernel serves", ours.returncode == 0 and status == 0, out, theirs)

    def we_serve(self, name, server, client, options=(), meanwhile=None):
        ours = self.local(server, options)
        if server.startswith("ib"):
            self.wait_listening(18515)
        else:
            time.sleep(4)
        self.guest.send(f"timeout {CASE_SECONDS - 20} {client} 2>&1")
        if meanwhile:
            meanwhile()
        status, theirs = self.guest.result()
        try:
            out, _ = ours.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            ours.terminate()
            out, _ = ours.communicate()
        self.report(f"{name}, urxe serves", ours.returncode == 0 and status == 0, out, theirs)

    def both(self, name, program, guest_gid, our_gid="0", options=(), only=""):
        """@program has GID where the GID index goes; a client appends the server's address"""
        theirs, ours = program.replace("GID", guest_gid), program.replace("GID", our_gid)
        if only != "urxe":
            self.guest_serves(name, theirs, f"{ours} {GUEST}", options)
        self.we_serve(name, ours, f"{theirs} {HOST}", options)


def gid_index(text, address):
    """Index of the GID of @address in the output of ibv_devinfo -v"""
    for line in text.splitlines():
        if "GID[" in line and address in line:
            return line.split("GID[")[1].split("]")[0].strip()
    raise LookupError(f"no GID of {address} in:\n{text}")


class Cases:
    """What is tried. Each method without underscore is a case, or one in both directions"""

    def __init__(self, suite):
        self.s = suite
        status, info = suite.guest.run("ibv_devinfo -v")
        if status:
            raise RuntimeError(f"the guest has no RDMA device:\n{info}")
        ours, _ = suite.local("ibv_devinfo -v").communicate()
        suite.forget()
        self.v4 = gid_index(info, f"::ffff:{GUEST}")
        self.v6 = gid_index(info, f"{GUEST6}")
        self.our_v6 = gid_index(ours, f"{HOST6}")

    def _both(self, name, program, **more):
        self.s.both(name, program, self.v4, **more)

    def _both6(self, name, program):
        self.s.both(name, program, self.v6, self.our_v6)

    def rc_pingpong(self):
        self._both("RC ping-pong, data checked", "ibv_rc_pingpong -g GID -c -n 200")

    def rc_pingpong_events(self):
        self._both("RC ping-pong with events", "ibv_rc_pingpong -g GID -c -e -n 100")

    def rc_pingpong_1024(self):
        self._both("RC ping-pong, MTU 1024, 64 KiB", "ibv_rc_pingpong -g GID -c -m 1024 -s 65536 -n 50")

    def rc_pingpong_4096(self):
        self._both("RC ping-pong, MTU 4096, 100001 bytes", "ibv_rc_pingpong -g GID -c -m 4096 -s 100001 -n 50")

    def rc_pingpong_odp(self):
        self.s.guest_serves("RC ping-pong, on-demand paging here", f"ibv_rc_pingpong -g {self.v4} -c -n 100",
                            f"ibv_rc_pingpong -g 0 -c -o -n 100 {GUEST}", ("--odp-model", "rnr"))

    def uc_pingpong(self):
        self._both("UC ping-pong", "ibv_uc_pingpong -g GID -c -n 100")

    def ud_pingpong(self):
        self._both("UD ping-pong", "ibv_ud_pingpong -g GID -c -s 1024 -n 100")

    def srq_pingpong(self):
        self._both("SRQ ping-pong, 4 QPs", "ibv_srq_pingpong -g GID -c -q 4 -n 100")

    def rc_pingpong_ipv6(self):
        self._both6("RC ping-pong over IPv6", "ibv_rc_pingpong -g GID -c -s 20000 -n 50")

    def ud_pingpong_ipv6(self):
        self._both6("UD ping-pong over IPv6", "ibv_ud_pingpong -g GID -c -s 1024 -n 50")

    def write(self):
        self._both("RC WRITE", "ib_write_bw -x GID -s 65536 -n 100 -F")

    def read(self):
        self._both("RC READ", "ib_read_bw -x GID -s 65536 -n 50 -F")

    def send(self):
        self._both("RC SEND", "ib_send_bw -x GID -s 65536 -n 100 -F")

    def write_ipv6(self):
        self._both6("RC WRITE over IPv6", "ib_write_bw -x GID -s 65536 -n 100 -F")

    def bidirectional(self):
        self._both("RC SEND, both ways at once", "ib_send_bw -x GID -s 16384 -n 100 -b -F")

    def queue_pairs(self):
        self._both("RC WRITE, 8 QPs", "ib_write_bw -x GID -s 8192 -n 50 -q 8 -F")

    def latency(self):
        self._both("RC WRITE latency", "ib_write_lat -x GID -s 64 -n 100 -F")
        self._both("RC READ latency", "ib_read_lat -x GID -s 64 -n 100 -F")
        self._both("RC SEND latency, events", "ib_send_lat -x GID -s 64 -n 100 -e -F")

    def atomics(self):
        self._both("FETCH_ADD", "ib_atomic_bw -x GID -A FETCH_AND_ADD -n 100 -F")
        self._both("CMP_SWAP", "ib_atomic_lat -x GID -A CMP_AND_SWAP -n 100 -F")

    def rping(self):
        self.s.guest_serves("rping", "rping -s -C 10 -V", f"rping -c -a {GUEST} -C 10 -V")
        self.s.we_serve("rping", "rping -s -C 10 -V", f"rping -c -a {HOST} -C 10 -V")

    def rping_ipv6(self):
        self.s.guest_serves("rping over IPv6", f"rping -s -a {GUEST6} -C 10 -V", f"rping -c -a {GUEST6} -C 10 -V")
        self.s.we_serve("rping over IPv6", f"rping -s -a {HOST6} -C 10 -V", f"rping -c -a {HOST6} -C 10 -V")

    def udaddy(self):
        self.s.guest_serves("udaddy", "udaddy -C 20", f"udaddy -s {GUEST} -C 20")
        self.s.we_serve("udaddy", "udaddy -C 20", f"udaddy -s {HOST} -C 20")

    def ucmatose(self):
        self.s.guest_serves("ucmatose, 3 connections", "ucmatose -c 3 -C 20", f"ucmatose -s {GUEST} -c 3 -C 20")
        self.s.we_serve("ucmatose, 3 connections", "ucmatose -c 3 -C 20", f"ucmatose -s {HOST} -c 3 -C 20")

    def mckey(self):
        """Multicast, both ways; the receiver must have joined before the sender begins"""
        self.s.guest_serves("mckey", f"mckey -b {GUEST} -m 239.9.9.9 -C 5", f"mckey -s -b {HOST} -m 239.9.9.9 -C 5")
        self.s.we_serve("mckey", f"mckey -b {HOST} -m 239.9.9.9 -C 5", f"mckey -s -b {GUEST} -m 239.9.9.9 -C 5")

    def nobody_listens(self):
        ours = self.s.local(f"rping -c -a {GUEST} -p 7999 -C 1")
        out, _ = ours.communicate(timeout=CASE_SECONDS)
        self.s.report("nobody listens, the kernel refuses", REFUSED in out, out)
        self.s.local("ibv_rc_pingpong -g 0 -p 18600")
        time.sleep(3)
        _, theirs = self.s.guest.run(f"timeout 60 rping -c -a {HOST} -p 7999 -C 1 2>&1")
        self.s.report("nobody listens, urxe refuses", REFUSED in theirs, theirs)

    def second_process(self):
        """The server is not the process that has UDP port 4791; then that one is killed"""
        first = self.s.local("ibv_rc_pingpong -g 0 -p 18600")
        time.sleep(3)
        self._both("RC ping-pong with the second process", "ibv_rc_pingpong -g GID -c -n 100", only="urxe")
        self._both("RC WRITE to the second process", "ib_write_bw -x GID -s 65536 -n 100 -F", only="urxe")
        self.s.we_serve("rping to the second process", "rping -s -C 10 -V", f"rping -c -a {HOST} -C 10 -V")
        self.s.we_serve("RC ping-pong, and the first process dies meanwhile", "ibv_rc_pingpong -g 0 -c -n 1000",
                        f"ibv_rc_pingpong -g {self.v4} -c -n 1000 {HOST}", meanwhile=lambda: (time.sleep(2),
                                                                                            self.s.kill(first)))

    def our_loss(self):
        self._both("RC ping-pong, 2% of packets lost by --impair", "ibv_rc_pingpong -g GID -c -n 100",
                   options=("--impair", "loss=2%,seed=7"))

    def netem_loss(self):
        """Loss on the link, each way if both kernels have netem"""
        guest = "/real/tc qdisc {} dev eth0 root netem loss 2%"
        here = ["ip", "netns", "exec", self.s.netns, "tc", "qdisc", "add", "dev", "tap0", "root", "netem", "loss", "2%"]
        lost = "from the kernel" if self.s.guest.run(guest.format("add"))[0] == 0 else ""
        if subprocess.run(here, capture_output=True, check=False).returncode == 0:
            lost += " to the kernel"
        if not lost:
            print("skip   loss by tc netem: neither kernel has it")
            return
        self._both(f"RC ping-pong, 2% of packets lost {lost.strip()}", "ibv_rc_pingpong -g GID -c -n 100")
        self._both(f"RC WRITE, 2% of packets lost {lost.strip()}", "ib_write_bw -x GID -s 65536 -n 50 -F")
        self.s.guest.run(guest.format("del"))
        here[6] = "del"
        subprocess.run(here, capture_output=True, check=False)


def make_netns(name):
    for command in (f"ip netns add {name}", f"ip -n {name} link set lo up",
                    f"ip -n {name} tuntap add dev tap0 mode tap", f"ip -n {name} link set tap0 mtu 4200 up",
                    f"ip -n {name} addr add {HOST}/24 dev tap0", f"ip -n {name} -6 addr add {HOST6}/64 dev tap0 nodad"):
        if subprocess.run(command.split(), check=False).returncode:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
            skip(f"no network namespace with a tap device can be made ({command})")


def run_cases(suite, boot, names):
    """Run the cases of @names. A guest that dies is booted anew once"""
    boots = 1
    boot(boots)
    cases = Cases(suite)
    pending = [c for c in vars(Cases) if not c.startswith("_") and (not names or c in names)]
    while pending:
        passed, failed = suite.passed, suite.failed
        try:
            getattr(cases, pending[0])()
            pending.pop(0)
        except GuestGone as e:
            print(f"{'retry ' if boots == 1 else 'FAILED'} {pending[0]}: {e}; the end of its console:\n    | "
                  + "    | ".join(suite.guest.last_words()), flush=True)
            suite.guest.close()
            suite.guest = None
            if boots > 1:
                suite.failed += 1
                return
            suite.forget()
            suite.passed, suite.failed = passed, failed
            boots += 1
            boot(boots)
        suite.forget()


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: interop.py GUEST-DIR URXE [case...]")
    directory, urxe = sys.argv[1:3]
    if os.geteuid():
        skip("network namespaces need root")
    for program in ("qemu-system-x86_64", "ip", "tc"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    netns = f"urxe-interop-{os.getpid()}"
    work = tempfile.mkdtemp(prefix="urxe-interop-")
    make_netns(netns)
    suite = Suite(netns, urxe)

    def boot(number):
        suite.guest = Guest(directory, netns, work, number)
        suite.guest.wait_ready()

    try:
        run_cases(suite, boot, sys.argv[3:])
    except (GuestGone, RuntimeError) as e:
        print(f"FAILED {e}")
        for name in sorted(os.listdir(work)):
            if name.endswith(".log"):
                with open(os.path.join(work, name), errors="replace") as f:
                    print("    | " + "    | ".join(f.readlines()[-40:]))
        suite.failed += 1
    finally:
        if suite.guest:
            suite.guest.close()
        suite.forget()
        subprocess.run(["ip", "netns", "del", netns], check=False)
        shutil.rmtree(work)
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed else 0


sys.exit(main())
