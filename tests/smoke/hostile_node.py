#!/usr/bin/env python3
"""An ulnetd whose own machine causes trouble: a log on a full disk, or in a pipe that is not read while peers cause
lines. Other cases take all descriptors or memory, or have clients that abuse the control socket. Traffic goes on,
ulnetctl is answered, and the daemon lives. Its descriptors and memory come back. Arguments: names of cases to run;
none: all.
"""
import contextlib
import json
import pathlib
import re
import resource
import select
import socket
import struct
import sys
import time

import netns
from hostile import ATTACKERS, FULL, LIMIT_S, ON_S, SANITIZED, VICTIM, Field, back, judge

FRAME_MAX = 16 << 20
MEMORY_UNDER_ABUSE = 200 << 20  # 64 MiB of frames that have begun, twice for strings that grow, and parsed documents


def attacked(field, name, attack, addresses, count, seconds=0):
    """Traffic beside an attack; the daemon lives and answers."""
    attacker = field.peer('attacker', attack, ATTACKERS[:addresses], count)
    attacker.wait_for('^attack: on', ON_S)
    time.sleep(seconds)  # the longer, the more lines
    judge(name, *field.traffic())
    assert field.daemon.running(), f'{name}: ulnetd ended:\n{field.daemon.tail()}'
    field.ctl('net', 'show')
    attacker.stop()


def log_on_a_full_disk():
    with netns.Topology() as topology:
        field = Field(topology, (f'mkdir {topology.folder}/disk && mount -t tmpfs -o size=16k none '
                                 f'{topology.folder}/disk &&', f'2>{topology.folder}/disk/log'))
        attacked(field, 'log_on_a_full_disk', 'garbage_after_hello', 2, 0, 5 if FULL else 1)
        attacked(field, 'log_on_a_full_disk', 'unknown_cookies', 2, 0, 5 if FULL else 1)


def log_that_nobody_reads():
    with netns.Topology() as topology:
        field = Field(topology, (f'mkfifo {topology.folder}/log &&', f'2<>{topology.folder}/log'))
        attacked(field, 'log_that_nobody_reads', 'garbage_after_hello', 2, 0, 5 if FULL else 1)
        attacked(field, 'log_that_nobody_reads', 'unknown_cookies', 2, 0, 5 if FULL else 1)


def no_descriptors():
    """More connections than the victim has descriptors: ulnetctl still gets answers, also afterwards."""
    with netns.Topology() as topology:
        field = Field(topology)
        judge('no_descriptors', *field.traffic())
        before, memory = field.descriptors(), field.memory()
        limit = 1024 if FULL else before + 60
        resource.prlimit(field.daemon.pid, resource.RLIMIT_NOFILE, (limit, limit))
        attacker = field.peer('attacker', 'silent_after_hello', ATTACKERS[:24], limit + 200)
        end = time.monotonic() + LIMIT_S
        while field.descriptors() < limit - 1:
            assert time.monotonic() < end, f'only {field.descriptors()} descriptors of {limit} are taken'
            time.sleep(0.05)
        for _ in range(20):
            field.ctl('net', 'show')
        attacker.kill()
        back(field, 'no_descriptors', before, memory)
        field.ctl('net', 'show')
        judge('no_descriptors', *field.traffic())


def little_memory():
    """Hardly any address space is left: a larger request fails with an error, and works when there is space again."""
    with netns.Topology() as topology:
        field = Field(topology)
        judge('little_memory', *field.traffic())
        before = field.descriptors()
        status = pathlib.Path(f'/proc/{field.daemon.pid}/status').read_text()
        limit = (int(re.search(r'VmSize:\s+(\d+) kB', status).group(1)) << 10) + (4 << 20)
        resource.prlimit(field.daemon.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        attacker = field.peer('attacker', 'silent_after_hello', ATTACKERS[:24], 4000 if FULL else 500)
        attacker.wait_for('^attack: on', ON_S)
        assert field.daemon.running(), f'connections: ulnetd ended:\n{field.daemon.tail()}'
        attacker.kill()
        peers = topology.folder / 'peers.yaml'
        peers.write_text('peer:\n' + ''.join(
            f'    - primary nid: 10.200.{number // 250}.{number % 250 + 1}@tcp\n' for number in range(20000)))
        for words in (('set', 'routing', '1'), ('import', str(peers)), ('export', '--backup'), ('net', 'show', '-v')):
            field.ctl(*words, status=None)
            assert field.daemon.running(), f'{words}: ulnetd ended:\n{field.daemon.tail()}'
        resource.prlimit(field.daemon.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        back(field, 'little_memory', before, 1 << 40)
        field.ctl('net', 'show')
        judge('little_memory', *field.traffic())


class Control:
    """A client of the control socket that sends any bytes."""

    def __init__(self, path, greet=True):
        self.link = socket.socket(socket.AF_UNIX)
        self.link.connect(path)  # waits for room in the backlog
        self.link.settimeout(LIMIT_S)
        if greet:
            self.say(json.dumps({'ulnet': 1, 'role': 'test', 'version': '0'}).encode())
            assert self.link.recv(4096), 'no HELLO'

    def say(self, body, part=None, claimed=None):
        """A frame, or a part of it; as much as is taken."""
        data = struct.pack('<I', len(body) if claimed is None else claimed) + body
        left = memoryview(data)[:part]
        self.link.setblocking(False)
        with contextlib.suppress(ConnectionError):
            while left and select.select([], [self.link], [], 2)[1]:
                left = left[self.link.send(left):]
        self.link.settimeout(LIMIT_S)


def control_socket_abused():
    with netns.Topology() as topology:
        field = Field(topology)
        judge('control_socket_abused', *field.traffic())
        before, memory = field.descriptors(), field.memory()
        clients = [Control(field.socket, greet=False) for _ in range(100)]
        clients += [Control(field.socket) for _ in range(100)]
        field.ctl('net', 'show')
        for body in (b'{"id": 1, "verb": "sh', b'[' * (8 << 20), b'\0' * 1000, b'{}', b'null', b'"x"' * 100000):
            clients.append(Control(field.socket))
            clients[-1].say(body)
        clients.append(Control(field.socket))
        clients[-1].say(b'', claimed=0xFFFFFFFF)
        request = json.dumps({'id': 1, 'verb': 'show', 'object': 'export', 'args': {'backup': 1}}).encode()
        deaf = Control(field.socket)
        for number in range(2000):
            deaf.say(request.replace(b'"id": 1', b'"id": %d' % (number + 1)))
        half = b'{"id":1,"verb":"show","object":"net","args":{"a":"' + b'x' * (FRAME_MAX // 2)
        for _ in range(40):
            clients.append(Control(field.socket))
            clients[-1].say(half, claimed=FRAME_MAX)
        assert field.memory() < memory + MEMORY_UNDER_ABUSE, f'{field.memory()} bytes, {memory} before'
        field.ctl('net', 'show')
        judge('control_socket_abused', *field.traffic())
        for client in clients + [deaf]:
            client.link.close()
        back(field, 'control_socket_abused', before, memory)
        field.ctl('net', 'show')


def control_clients_never_read():
    """The maximum of clients send large requests and read nothing: another client is served after a moment."""
    with netns.Topology() as topology:
        field = Field(topology)
        judge('control_clients_never_read', *field.traffic())
        before, memory = field.descriptors(), field.memory()
        nids = [f'10.200.{number // 250}.{number % 250 + 1}@tcp' for number in range(4000)]
        asks = [json.dumps({'id': number, 'verb': 'show', 'object': 'cpt_of_nid', 'args': {'nids': nids}}).encode()
                for number in range(1, 9)]
        clients = [Control(field.socket) for _ in range(64)]
        for client in clients:
            for ask in asks:
                client.say(ask)
        end = time.monotonic() + LIMIT_S
        while f'{VICTIM}@tcp' not in field.ctl('net', 'show', status=None):
            assert time.monotonic() < end, f'ulnetctl is kept out: {field.ctl("net", "show", status=None)}'
        assert field.memory() < memory + MEMORY_UNDER_ABUSE, f'{field.memory()} bytes, {memory} before'
        judge('control_clients_never_read', *field.traffic())
        for client in clients:
            client.link.close()
        back(field, 'control_clients_never_read', before, memory)
        field.ctl('net', 'show')


CASES = {case.__name__: case for case in (log_on_a_full_disk, log_that_nobody_reads, no_descriptors, little_memory,
                                          control_socket_abused, control_clients_never_read)}


def main():
    if SANITIZED:
        netns.skip('limits of memory and descriptors are those of a program without sanitizers')
    for name in sys.argv[1:] or CASES:
        CASES[name]()
        print(f'{name}: good', flush=True)
    print('hostile_node: passed')


if __name__ == '__main__':
    main()
