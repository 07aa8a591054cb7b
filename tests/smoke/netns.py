"""Network namespaces, links between them and programs in them, for tests of the real binaries. Needs Python's standard
library and iproute2 only.

    with netns.Topology() as net:                       # exits 77 (skip) where namespaces may not be made
        a, b = net.node('a'), net.node('b')
        net.link(a, '10.1.0.1/24', b, '10.1.0.2/24')    # veth0, veth1, ... in each node, in order of the calls
        daemon = a.start(['ulnetd', ...])               # output goes to net.folder/a-ulnetd.1.log
        b.run(['ping', '-c1', '10.1.0.1'], timeout=5)

Names carry the process number, so that tests may run side by side. Everything is taken down at the end of the `with`,
at exit, on an exception and on SIGTERM, SIGINT or SIGHUP. Programs get SIGTERM, a grace, then SIGKILL. A program that
does not go in time fails the test (ProgramError). The next test removes the remains of a killed test.
"""
import atexit
import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIP = 77           # exit status that meson counts as skipped
PREFIX = 'ulnet'
STOP_GRACE = 10.0   # seconds from SIGTERM to SIGKILL; sanitized builds get more
LAST_WORDS = 5.0    # seconds for a program that is late: it may report what it was doing
if os.environ.get('ULNET_SANITIZED') == '1':
    STOP_GRACE *= 4


class ProgramError(AssertionError):
    """A program ended in another way than the test expects; the message holds the end of its output."""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a killed test takes its programs along


def skip(reason):
    print(f'skipped: {reason}', flush=True)
    sys.exit(SKIP)


def _ip(*arguments, check=True):
    result = subprocess.run(['ip', *arguments], capture_output=True, text=True, timeout=20, check=False)
    if check and result.returncode != 0:
        raise ProgramError(f'ip {" ".join(arguments)}: {result.stderr.strip()}')
    return result


def why_not():
    """None when this process may make namespaces and veth pairs; else the reason."""
    if os.geteuid() != 0:
        return 'network namespaces need root'
    if shutil.which('ip') is None:
        return 'network namespaces need iproute2'
    probe = f'{PREFIX}-probe-{os.getpid()}'
    if _ip('netns', 'add', probe, check=False).returncode != 0:
        return 'this container may not make network namespaces'
    try:
        made = _ip('-n', probe, 'link', 'add', 'veth0', 'type', 'veth', 'peer', 'name', 'veth1', check=False)
        return None if made.returncode == 0 else f'no veth pairs here: {made.stderr.strip()}'
    finally:
        _ip('netns', 'del', probe, check=False)


def _remove_leftovers():
    """Deletes namespaces and folders of tests that were killed: named after a process that no longer lives."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f'{PREFIX}-*-*'):
        match = re.match(rf'{PREFIX}-(\d+)-', folder.name)
        if match and not pathlib.Path(f'/proc/{match.group(1)}').exists():
            shutil.rmtree(folder, ignore_errors=True)
    for line in _ip('netns', 'list', check=False).stdout.splitlines():
        match = re.match(rf'{PREFIX}-(?:\w+-)?(\d+)(?:-\w+)?\b', line)
        if match and not pathlib.Path(f'/proc/{match.group(1)}').exists():
            _ip('netns', 'del', line.split()[0], check=False)


class Program:
    """A program running in a node. Stopped with its topology, or by stop()."""

    def __init__(self, arguments, log_path, netns=None, env=None, stdin=subprocess.DEVNULL):
        self.name = pathlib.Path(arguments[0]).name
        self.log_path = log_path
        self.checked = False  # a caller has checked the exit status
        command = (['ip', 'netns', 'exec', netns] if netns else []) + [str(a) for a in arguments]
        with open(log_path, 'wb') as log:
            self.process = subprocess.Popen(command, stdin=stdin, stdout=log, stderr=subprocess.STDOUT,
                                            env={**os.environ, **(env or {})}, start_new_session=True,
                                            preexec_fn=die_with_parent)

    @property
    def pid(self):
        return self.process.pid  # `ip netns exec` replaces itself by the program

    def output(self):
        return self.log_path.read_text(errors='replace')

    def running(self):
        return self.process.poll() is None

    def wait_for(self, pattern, timeout):
        """Waits until the output matches `pattern`; returns the match."""
        deadline = time.monotonic() + timeout
        while True:
            alive = self.running()
            match = re.search(pattern, self.output(), re.M)
            if match:
                return match
            if not alive or time.monotonic() > deadline:
                why = f'ended with {self.process.returncode}' if not alive else f'not after {timeout} s'
                raise ProgramError(f'{self.name}: no /{pattern}/ in its output, {why}:\n{self.tail()}')
            time.sleep(0.02)

    def wait(self, timeout, status=0):
        """Waits for its end by itself and demands this exit status (None: any)."""
        self.checked = True
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            threads = self.threads()
            with contextlib.suppress(subprocess.TimeoutExpired):  # its last words may say why
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(LAST_WORDS)
            self.kill()
            raise ProgramError(f'{self.name}: still running after {timeout} s:\n{threads}\n{self.tail()}') from None
        if status is not None and self.process.returncode != status:
            raise ProgramError(f'{self.name}: exit status {self.process.returncode}, not {status}:\n{self.tail()}')
        return self.process.returncode

    def stop(self, timeout=None, status=0):
        """Sends SIGTERM. The program must then end in time, with this exit status (None: any)."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)
        return self.wait(STOP_GRACE if timeout is None else timeout, status)

    def kill(self):
        """Sends SIGKILL to the program and its children. Reports no error."""
        self.checked = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def threads(self):
        """A line for each thread: its name, state, CPU time (ticks), and where it waits in the kernel."""
        lines = []
        for task in sorted(pathlib.Path(f'/proc/{self.pid}/task').glob('*')):
            with contextlib.suppress(OSError):
                name, fields = (task / 'stat').read_text().split('(', 1)[1].rsplit(')', 1)
                fields = fields.split()
                lines.append(f'  {name}: {fields[0]}, user {fields[11]}, system {fields[12]}, in '
                             f'{(task / "wchan").read_text()}')
        return '\n'.join(lines)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def tail(self, lines=40):
        return '\n'.join(f'  | {line}' for line in self.output().splitlines()[-lines:])


class Node:
    """One network namespace with its loopback up."""

    def __init__(self, topology, name):
        self.topology, self.name = topology, name
        self.netns = f'{PREFIX}-{os.getpid()}-{name}'
        self.interface_count = 0
        self.program_count = 0
        _ip('netns', 'add', self.netns)
        _ip('-n', self.netns, 'link', 'set', 'lo', 'up')

    def ip(self, *arguments):
        """`ip` in this node: a.ip('link', 'set', 'veth0', 'down')."""
        return _ip('-n', self.netns, *arguments).stdout

    def start(self, arguments, env=None):
        self.program_count += 1
        program_name = pathlib.Path(arguments[0]).name
        log_path = self.topology.folder / f'{self.name}-{program_name}.{self.program_count}.log'
        program = Program(arguments, log_path, self.netns, env)
        self.topology.programs.append(program)
        return program

    def run(self, arguments, timeout, status=0, env=None):
        """Runs to the end in bounded time, demands the exit status (None: any), returns the output (both streams)."""
        program = self.start(arguments, env)
        program.wait(timeout, status)
        return program.output()


class Topology:
    """Nodes, links and programs of one test, and their end."""

    def __init__(self):
        reason = why_not()
        if reason:
            skip(reason)
        _remove_leftovers()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f'{PREFIX}-{os.getpid()}-'))
        self.nodes, self.programs = [], []
        self._closed = False
        self._old_handlers = {}

    def __enter__(self):
        atexit.register(self.close)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._old_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, exception_type, exception, trace):
        failures = [] if exception_type else self._stop_all()
        if exception_type not in (None, SystemExit):
            self._show_logs()
        self.close()
        if failures:
            raise ProgramError('\n'.join(failures))
        return False

    def _on_signal(self, number, _frame):
        self.close()
        sys.exit(128 + number)

    def node(self, name):
        node = Node(self, name)
        self.nodes.append(node)
        return node

    def link(self, a, a_address, b, b_address, mtu=None, queues=1):
        """Joins two nodes by a veth pair; returns the two interface names. An address may be None, or a list."""
        names = []
        for node in (a, b):
            names.append(f'veth{node.interface_count}')
            node.interface_count += 1
        many = ['numtxqueues', str(queues), 'numrxqueues', str(queues)]
        _ip('link', 'add', names[0], 'netns', a.netns, *many, 'type', 'veth', 'peer', 'name', names[1], *many, 'netns',
            b.netns)
        for node, name, addresses in ((a, names[0], a_address), (b, names[1], b_address)):
            if mtu:
                node.ip('link', 'set', name, 'mtu', str(mtu))
            for address in [addresses] if isinstance(addresses, str) else addresses or []:
                # nodad: an IPv6 address is usable at once
                node.ip('addr', 'add', address, 'dev', name, *(['nodad'] if ':' in address else []))
            node.ip('link', 'set', name, 'up')
        return names

    def _stop_all(self):
        failures = []
        for program in reversed(self.programs):
            if program.running():
                try:
                    program.stop()
                except ProgramError as error:
                    failures.append(str(error))
            elif not program.checked and program.process.returncode != 0:
                failures.append(f'{program.name}: ended by itself with {program.process.returncode}:\n{program.tail()}')
        return failures

    def _show_logs(self):
        for program in self.programs:
            lines = 4 if program.process.poll() == 0 else 60
            print(f'--- {program.log_path.name}\n{program.tail(lines)}', flush=True)
            if program.running():
                print(f'still running\n{program.threads()}', flush=True)
        for program in self.programs:
            if not program.checked and program.process.poll() not in (None, 0):
                print(f'--- {program.log_path.name} ended by itself with {program.process.returncode}', flush=True)

    def close(self):
        """Takes everything down. May be called again, and from a signal handler."""
        if self._closed:
            return
        self._closed = True
        for program in self.programs:
            if program.running():
                with contextlib.suppress(Exception):
                    program.kill()
        for node in self.nodes:
            _ip('netns', 'del', node.netns, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        atexit.unregister(self.close)


def binary(name):
    """Path of a binary under test, in ULNET_BIN_DIR of the test's environment (set by meson)."""
    folder = os.environ.get('ULNET_BIN_DIR')
    path = pathlib.Path(folder) / name if folder else None
    if path is not None and path.is_dir():
        path = path / name  # built in a folder of its own
    if path is None or not path.exists():
        raise ProgramError(f'{name}: not built (ULNET_BIN_DIR={folder})')
    return str(path)
