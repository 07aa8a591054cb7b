#!/usr/bin/env python3
"""A log or an output that cannot be written: a full device, a pipe without a reader, a pipe that is not read.
The daemon serves, stops on SIGTERM, and writes its lines when the reader comes. The other tools end with an error.
"""
import contextlib
import fcntl
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

import netns

LIMIT = 30 if os.environ.get('ULNET_SANITIZED') != '1' else 120  # seconds for a step; each needs less


def start(socket, stderr, before=None):
    """ulnetd without networks; returns when its control socket is there."""
    config = pathlib.Path(f'{socket}.yaml')
    config.write_text('ulnet:\n    workers: 1\n')
    daemon = subprocess.Popen([netns.binary('ulnetd'), '--config', str(config), '--socket', socket], stderr=stderr,
                              stdin=subprocess.DEVNULL, preexec_fn=before)
    end = time.monotonic() + LIMIT
    while not os.path.exists(socket):
        assert daemon.poll() is None, f'ulnetd ended with {daemon.returncode}'
        if time.monotonic() > end:
            daemon.kill()
            raise AssertionError('ulnetd did not open its control socket')
        time.sleep(0.02)
    return daemon


def ctl(socket, *words, **options):
    return subprocess.run([netns.binary('ulnetctl'), '--socket', socket, *words], timeout=LIMIT, check=False, **options)


def serves_and_stops(folder, stderr, meanwhile=None, before=None):
    """The daemon writes to `stderr`, serves, and stops in time."""
    socket = f'{folder}/s.sock'
    daemon = start(socket, stderr, before)
    try:
        for _ in range(3):
            daemon.send_signal(signal.SIGHUP)  # makes a line
            assert ctl(socket, 'global', 'show', stdout=subprocess.DEVNULL).returncode == 0
        if meanwhile is not None:
            meanwhile(daemon, socket)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(LIMIT) == 0, daemon.returncode
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.wait()


def full_device(folder):
    with open('/dev/full', 'wb') as full:
        serves_and_stops(folder, full)


def no_reader(folder):
    reading, writing = os.pipe()
    os.close(reading)
    serves_and_stops(folder, writing)
    os.close(writing)


def not_read(folder):
    """The pipe is full from the beginning. Later it is read, and the lines come."""
    reading, writing = os.pipe()
    flags = fcntl.fcntl(writing, fcntl.F_GETFL)
    fcntl.fcntl(writing, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b'~' * 4096)
    fcntl.fcntl(writing, fcntl.F_SETFL, flags)

    def read(_daemon, _socket):
        said = b''
        while b'ulnetd: ready\n' not in said:
            said += os.read(reading, 65536)

    serves_and_stops(folder, writing, read)
    os.close(writing)
    with os.fdopen(reading, 'rb') as rest:
        assert b'ulnetd: stopped\n' in rest.read()
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, b'~' * 4096)
    serves_and_stops(folder, writing)  # the pipe is never read: ulnetd stops nevertheless
    os.close(writing)
    os.close(reading)


def descriptors(folder):
    """The soft limit of descriptors is raised to the hard one."""
    hard = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])

    def look(daemon, _socket):
        limits = pathlib.Path(f'/proc/{daemon.pid}/limits').read_text()
        [line] = [line for line in limits.splitlines() if line.startswith('Max open files')]
        assert line.split()[3] == str(hard), line

    serves_and_stops(folder, subprocess.DEVNULL, look,
                     lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)))


def tools(folder):
    """If the output of a tool is lost, its exit status shows that."""
    socket = f'{folder}/s.sock'
    with open('/dev/full', 'wb') as full:
        def show(daemon, _socket):
            done = ctl(socket, 'global', 'show', stdout=full, stderr=subprocess.PIPE)
            assert done.returncode == 1 and b'the output cannot be written' in done.stderr, done
            assert daemon.poll() is None
        serves_and_stops(folder, subprocess.DEVNULL, show)
        done = subprocess.run([netns.binary('ulnet-perf'), '--help'], stdout=full, stderr=subprocess.PIPE,
                              timeout=LIMIT, check=False)
        assert done.returncode == 1 and b'cannot be written' in done.stderr, done


def main():
    for case in (full_device, no_reader, not_read, descriptors, tools):
        with tempfile.TemporaryDirectory(prefix='ulnet-log-') as folder:
            case(folder)
            print(f'{case.__name__}: good', flush=True)


if __name__ == '__main__':
    sys.exit(main())
