"""Guests with Debian's kernel, for tests that need a kernel feature of their own (rdma_rxe, netem, power failure).

    with vm.Lab(programs={'/usr/bin/ulnetd': netns.binary('ulnetd')}) as lab:     # exits 77 (skip) where it cannot
        lab.bridge('br0', mtu=9000)
        a = lab.guest('a', {'br0': '10.0.0.1/24'}, rxe=True)                       # eth0 on br0, rxe0 on eth0
        b = lab.guest('b', {'br0': '10.0.0.2/24'}, rxe=True)
        lab.wait_ready()
        a.run('ping -c 1 10.0.0.2', timeout=60)                                    # output; demands exit status 0
        server = b.start('rping -s'); ...; server.wait(timeout=60)                 # beside other commands
        b.power_cycle()

A guest is a QEMU process without KVM, so that it runs on each machine. Guests are on bridges in one network namespace
of the test. All is taken down as netns.py does: at the end, after an exception or a signal; the processes of a killed
test end with it. Time limits are for a machine with busy cores: a test waits for states, never for times.
"""
import base64
import json
import os
import platform
import shlex
import shutil
import socket
import sys
import time

import cache  # first: it makes netns.py known
import capture
import channel
import netns

QEMU = 'qemu-system-x86_64'
BOOT_SECONDS = 240     # 4 to 15 on an idle machine
GRACE_SECONDS = 60     # for an answer of a guest to a small command
CHUNK_BYTES = 48 << 10  # of a file on the command channel: the guest's shell reads byte by byte
JOBS = '/run/vm'       # where guest_loop.sh has the files of a command
BIND = '''for nic in $(grep -l 0x020000 /sys/bus/pci/devices/*/class); do
  cd ${nic%/*}
  echo vfio-pci >driver_override
  [ ! -e driver ] || basename $PWD >driver/unbind
  basename $PWD >/sys/bus/pci/drivers_probe
done'''
CMDLINE = 'console=ttyS0 loglevel=4 panic=-1 mitigations=off random.trust_cpu=on cryptomgr.notests'


def several_queues(model):
    return model is not None and 'mq=on' in model


class GuestError(netns.ProgramError):
    """A command or a guest ended in another way than the test expects; the message holds the end of its output."""


def why_not():
    """None if this machine can run guests; else the reason."""
    if platform.machine() != 'x86_64':
        return f'guests are x86_64, this machine is {platform.machine()}'
    for name, package in ((QEMU, 'qemu-system-x86'), ('apt-get', 'apt'), ('dpkg', 'dpkg'), ('depmod', 'kmod'),
                          ('ldd', 'libc-bin')):
        if shutil.which(name, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin') is None:
            return f'guests need {name} (package {package})'
    reason = netns.why_not()
    if reason:
        return reason
    with netns.Topology() as net:
        probe = net.node('probe')
        for words in ('link add br0 type bridge', 'tuntap add dev tap0 mode tap'):
            program = probe.start(['ip', *words.split()])
            if program.wait(30, status=None) != 0:
                return f'guests need taps and bridges (ip {words}): {program.output().strip()}'
    return None


class Command:
    """A command that runs in a guest, in a process group of its own."""

    def __init__(self, guest, script):
        self.guest, self.script = guest, script
        self._channel = guest.channel  # of this boot: the command ends with it
        self._token = self._call(self._channel.send, script, GRACE_SECONDS)
        self._reply = None

    def _call(self, function, *arguments):
        """Calls a function of the channel. A channel that fails is reported with the state of the guest."""
        try:
            return function(*arguments)
        except channel.ChannelError as error:
            raise GuestError(f'{self.guest.name}: {self.script!r}: {error}\n{self.guest.console_tail()}') from None

    def running(self):
        return self._poll(0) is None

    def _poll(self, timeout):
        if self._reply is None:
            self._reply = self._call(self._channel.reply, self._token, timeout)
        return self._reply

    def data(self):
        """The output so far, as bytes; both streams."""
        if self.running():
            text = Command(self.guest, f'cat {JOBS}/{self._token}.out').finish(GRACE_SECONDS)
            if self.running():
                return text.output if text.status == 0 else b''
        return self._reply.output

    def output(self):
        return self.data().decode(errors='replace')

    def finish(self, timeout):
        """The reply. A command that does not end in time is killed, and that is an error."""
        if self._poll(timeout) is None:
            self.kill()
            raise GuestError(f'{self.guest.name}: still running after {timeout} s: {self.script}\n{self.tail()}')
        return self._reply

    def wait(self, timeout, status=0):
        """Waits for its end and demands this exit status (None: any). Returns the output."""
        reply = self.finish(timeout)
        if status is not None and reply.status != status:
            last = ' / '.join(self.output().splitlines()[-3:])  # first, for readers that shorten long reports
            raise GuestError(f'{self.guest.name}: exit status {reply.status}, not {status}; last words: {last}\n'
                             f'{self.script}\n{self.tail()}')
        return self.output()

    def wait_for(self, text, timeout):
        """Waits until the output contains this text."""
        deadline = time.monotonic() + timeout
        while text not in self.output():
            if not self.running() or time.monotonic() > deadline:
                if text in self.output():
                    return
                raise GuestError(f'{self.guest.name}: no {text!r} in the output of: {self.script}\n{self.tail()}')
            time.sleep(0.1)

    def signal(self, name):
        """Sends a signal to all processes of the command; returns the exit status of kill(1)."""
        return Command(self.guest, channel.signal_script(JOBS, self._token, name)).finish(GRACE_SECONDS).status

    def kill(self):
        """Ends the command and waits until it has ended."""
        if self.running():
            self.signal('KILL')
            if self._poll(GRACE_SECONDS) is None:
                raise GuestError(f'{self.guest.name}: cannot be killed: {self.script}')

    def tail(self, lines=40):
        return '\n'.join(f'  | {line}' for line in self.output().splitlines()[-lines:])


class Guest:
    """One virtual machine. Made by Lab.guest(); boots at once, is usable after wait_ready()."""

    def __init__(self, lab, number, name, nics, polled, memory_mib, cpus, boot_script):
        self.lab, self.number, self.name = lab, number, name
        self.nics = nics  # names of the taps, in order: eth0, eth1, ...
        self.polled = polled  # model of NICs for programs, or None
        self.memory_mib, self.cpus, self.boot_script = memory_mib, cpus, boot_script
        self.boot_count = 0
        self.program = self.channel = None
        self.boot_seconds = None
        self.power_on()

    def _path(self, kind):
        return self.lab.folder / f'{self.name}{self.boot_count}.{kind}'

    def _arguments(self):
        cmdline, machine = CMDLINE, []
        if self.polled:
            cmdline += ' intel_iommu=on'
            machine = ['-machine', 'q35', '-device', 'intel-iommu,intremap=on,aw-bits=48']
        words = [QEMU, *machine, '-accel', 'tcg,thread=multi', '-cpu', 'max', '-smp', str(self.cpus),
                 '-m', str(self.memory_mib), '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot',
                 '-name', self.name,
                 '-kernel', self.lab.kernel, '-initrd', self.lab.folder / 'initrd', '-append', cmdline,
                 '-serial', f'file:{self._path("console")}', '-qmp', f'unix:{self._path("qmp")},server=on,wait=off',
                 '-device', 'virtio-serial-pci', '-device', 'virtserialport,chardev=channel,name=channel',
                 '-chardev', f'socket,id=channel,path={self._path("channel")},server=on,wait=off']
        queues = ',queues=2' if several_queues(self.polled) else ''
        for index, (tap, mtu) in enumerate(self.nics):
            # Without vnet_hdr there are no offloads: frames have their real sizes and checksums.
            model = self.polled or f'virtio-net-pci,host_mtu={mtu}'
            words += ['-netdev', f'tap,id=net{index},ifname={tap},script=no,downscript=no,vnet_hdr=off{queues}',
                      '-device',
                      f'{model},netdev=net{index},mac=52:54:00:00:{self.number:02x}:{index:02x},romfile=']
        return words

    def power_on(self):
        """Starts the machine. Call it from the main thread: a process ends with the thread that started it."""
        assert self.program is None, f'{self.name} is on'
        self.boot_count += 1
        self._started = time.monotonic()
        self.program = self.lab.node.start(self._arguments())

    def power_off(self):
        """Ends the machine as a power failure does. Its commands end without a reply."""
        self.program.kill()
        if self.channel is not None:
            self.channel.close()
        self.program = self.channel = None

    def power_cycle(self):
        self.power_off()
        self.power_on()
        self.wait_ready()

    def wait_ready(self, timeout=BOOT_SECONDS):
        """Waits until the guest runs commands; then runs the script of its interfaces."""
        deadline = time.monotonic() + timeout
        self.channel = channel.Channel(self._connect(self._path('channel'), deadline))
        hello = Command(self, 'true')
        while hello.running():
            self._check_boot(deadline)
            time.sleep(0.05)
        if self.boot_script:
            self.run(self.boot_script, GRACE_SECONDS)
        self.boot_seconds = time.monotonic() - self._started

    def _check_boot(self, deadline):
        if not self.program.running():
            raise GuestError(f'{self.name}: QEMU ended with {self.program.process.returncode}:\n'
                             f'{self.program.tail()}\n{self.console_tail()}')
        if time.monotonic() > deadline:
            raise GuestError(f'{self.name}: does not boot:\n{self.console_tail()}')

    def _connect(self, path, deadline):
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(path))
                return connection
            except OSError:
                connection.close()
            self._check_boot(deadline)
            time.sleep(0.02)

    def console_tail(self, lines=40):
        path = self._path('console')
        text = path.read_text(errors='replace') if path.exists() else ''
        return '\n'.join(f'  {self.name}: {line}' for line in text.splitlines()[-lines:])

    # ---- commands and files ----
    def start(self, script):
        return Command(self, script)

    def run(self, script, timeout, status=0):
        """Runs a script of sh in bounded time, demands the exit status (None: any), returns the output."""
        return self.start(script).wait(timeout, status)

    def until(self, script, timeout):
        """Repeats a script until its exit status is 0; returns the output."""
        deadline = time.monotonic() + timeout
        while True:
            reply = self.start(script).finish(timeout)
            text = reply.output.decode(errors='replace')
            if reply.status == 0:
                return text
            if time.monotonic() > deadline:
                raise GuestError(f'{self.name}: not within {timeout} s: {script}\n{text}')
            time.sleep(0.1)

    def read_file(self, path, timeout=GRACE_SECONDS):
        reply = self.start(f'cat {shlex.quote(path)}').finish(timeout)
        if reply.status != 0:
            raise GuestError(f'{self.name}: {reply.output.decode(errors="replace").strip()}')
        return reply.output

    def write_file(self, path, data, timeout=GRACE_SECONDS):
        """Slow for large files: better give them to Lab."""
        quoted = shlex.quote(path)
        self.run(f': >{quoted}', timeout)
        for start in range(0, len(data), CHUNK_BYTES):
            part = data[start:start + CHUNK_BYTES]
            self.run(f'base64 -d >>{quoted} <<end\n{base64.b64encode(part).decode()}\nend\n', timeout)

    # ---- links ----
    def set_carrier(self, up, index=0):
        """Plugs the cable of ethINDEX in or out: the guest sees the carrier change."""
        connection = self._connect(self._path('qmp'), time.monotonic() + GRACE_SECONDS)
        with connection, connection.makefile('rw') as stream:
            connection.settimeout(GRACE_SECONDS)
            json.loads(stream.readline())  # the greeting
            for name, arguments in (('qmp_capabilities', {}), ('set_link', {'name': f'net{index}', 'up': up})):
                stream.write(json.dumps({'execute': name, 'arguments': arguments}) + '\n')
                stream.flush()
                answer = {}
                while 'return' not in answer:  # events may come first
                    answer = json.loads(stream.readline())
                    if 'error' in answer:
                        raise GuestError(f'{self.name}: {name}: {answer["error"]}')

    def set_tap(self, up, index=0):
        """Cuts the path of ethINDEX behind the cable, or mends it: the guest sees no change, but frames are lost."""
        self.lab.node.ip('link', 'set', self.nics[index][0], 'up' if up else 'down')


class Capture:
    """Captures all frames of a bridge."""

    def __init__(self, lab, bridge):
        self.path = lab.folder / f'{bridge}.{len(lab.captures)}.pcap'
        self.program = lab.node.start([sys.executable, capture.__file__, bridge, str(self.path)])
        self.program.wait_for('^capturing$', 60)

    def stop(self):
        """Ends the capture, which must be whole; returns the bytes of the pcap file."""
        self.program.stop()
        return self.path.read_bytes()


class Lab:
    """Bridges and guests of one test. `files` and `programs` are put into each guest (cache.install)."""

    def __init__(self, files=(), programs=()):
        reason = why_not()
        if reason:
            netns.skip(reason)
        self._files, self._programs = files, programs
        self.guests, self.captures, self._mtu = [], [], {}
        self.topology = netns.Topology()
        self.folder = self.topology.folder
        self.node = self.kernel = None

    def __enter__(self):
        self.topology.__enter__()
        try:
            self.node = self.topology.node('lab')
            self.kernel = cache.install(cache.folder(), self.folder / 'initrd', self._files, self._programs)
        except cache.Unavailable as error:
            self.topology.close()
            netns.skip(str(error))
        except BaseException:
            self.topology.close()
            raise
        return self

    def __exit__(self, kind, error, trace):
        if kind not in (None, SystemExit):
            for guest in self.guests:
                print(f'--- console of {guest.name}\n{guest.console_tail()}', flush=True)
        for guest in self.guests:
            if guest.channel is not None:
                guest.channel.close()
        return self.topology.__exit__(kind, error, trace)

    def bridge(self, name, mtu=1500):
        self._mtu[name] = mtu
        # Snooping would send frames of its own, and hold back those of others.
        self.node.ip('link', 'add', name, 'type', 'bridge', 'mcast_snooping', '0')
        self.node.ip('link', 'set', name, 'mtu', str(mtu), 'addrgenmode', 'none', 'up')

    def guest(self, name, bridges, rxe=False, polled=None, memory_mib=1024, cpus=1):
        """Starts a guest with an interface on each of `bridges`, a dict {bridge: address or None}. With `rxe`, each
        interface ethN has an RDMA device rxeN. With `polled`, a model of QEMU, the NICs are bound to vfio-pci behind an
        IOMMU, and the guest's kernel has no interfaces. All comes back after a power cycle.
        """
        number, nics, lines = len(self.guests) + 1, [], []
        for index, (bridge, address) in enumerate(bridges.items()):
            tap, mtu = f'{name}-eth{index}', self._mtu[bridge]
            self.node.ip('tuntap', 'add', 'dev', tap, 'mode', 'tap', *['multi_queue'] * several_queues(polled))
            self.node.ip('link', 'set', tap, 'mtu', str(mtu), 'master', bridge, 'addrgenmode', 'none', 'up')
            nics.append((tap, mtu))
            if polled:
                continue
            lines.append(f'ip link set eth{index} mtu {mtu} up')
            if address:
                lines.append(f'ip addr add {address} dev eth{index}')
            if rxe:
                lines.append(f'rdma link add rxe{index} type rxe netdev eth{index}')
        if polled:
            lines.append(BIND)
        script = '\n'.join(['set -e', *lines]) if lines else ''
        guest = Guest(self, number, name, nics, polled, memory_mib, cpus, script)
        self.guests.append(guest)
        return guest

    def wait_ready(self):
        """Waits until all guests that are on run commands."""
        for guest in self.guests:
            if guest.program is not None and guest.channel is None:
                guest.wait_ready()

    def capture(self, bridge):
        one = Capture(self, bridge)
        self.captures.append(one)
        return one
