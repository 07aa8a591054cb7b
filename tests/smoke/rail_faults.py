"""Nodes joined by four rails, faults of a rail, and load over the rails: for failover.py and perf/compare-failover.

A fault is one system call, so that its time is known to microseconds. All times are in ns of CLOCK_MONOTONIC, as in the
time lines of ulnet-perf.
"""
import ctypes
import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import netns

RAILS = 4
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP = 1


def until(what, done, seconds=60):
    """Waits until the first item of done() is true; the second goes into the error."""
    end = time.monotonic() + seconds
    while not (said := done())[0]:
        assert time.monotonic() < end, f'never: {what}: {said[1]}'
        time.sleep(0.02)


class Interfaces:
    """Sets interfaces of one namespace up and down."""

    def __init__(self, node):
        self.socket, failed = None, []

        def enter():  # this thread only
            with open(f'/run/netns/{node.netns}', 'rb') as namespace:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    return failed.append(os.strerror(ctypes.get_errno()))
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            return None

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        assert not failed, f'cannot enter {node.netns}: {failed}'

    def switch(self, name, up):
        """Returns the time just before the change."""
        request = struct.pack('16sH22x', name.encode(), 0)
        flags = struct.unpack('16sH22x', fcntl.ioctl(self.socket, SIOCGIFFLAGS, request))[1]
        request = struct.pack('16sH22x', name.encode(), flags | IFF_UP if up else flags & ~IFF_UP)
        at = time.monotonic_ns()
        fcntl.ioctl(self.socket, SIOCSIFFLAGS, request)
        return at


def shape(node, interface, mbit):
    command = ['tc', '-n', node.netns, 'qdisc', 'add', 'dev', interface, 'root', 'tbf', 'rate', f'{mbit}mbit', 'burst',
               '32k', 'latency', '100ms']
    result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if result.returncode != 0:
        sys.exit(f'{" ".join(command)}: {result.stderr.strip()}; the kernel needs CONFIG_NET_SCH_TBF')


class Daemons:
    """The ulnetd of some nodes. `yaml`: the configuration of each."""

    def __init__(self, topology, nodes, yaml):
        self.topology, self.nodes, self.daemons = topology, nodes, {}
        for name in nodes:
            self.config(name).write_text(yaml[name])
            self.start(name)

    def config(self, name):
        return self.topology.folder / f'{self.nodes[name].name}.yaml'

    def socket(self, name):
        return str(self.topology.folder / f'{self.nodes[name].name}.sock')

    def start(self, name):
        pathlib.Path(self.socket(name)).unlink(missing_ok=True)
        self.daemons[name] = self.nodes[name].start(
            [netns.binary('ulnetd'), '--config', str(self.config(name)), '--socket', self.socket(name)])
        self.daemons[name].wait_for('ulnetd: ready', 60)

    def ctl(self, name, *words, status=0):
        return self.nodes[name].run([netns.binary('ulnetctl'), '--socket', self.socket(name), *words], 60, status)

    def carried(self, name):
        """By interface, the bytes that the kernel has sent and received."""
        text = pathlib.Path(f'/proc/{self.daemons[name].pid}/net/dev').read_text(encoding='ascii')
        rows = (line.split(':') for line in text.splitlines()[2:])
        return {row[0].strip(): int(row[1].split()[0]) + int(row[1].split()[8]) for row in rows}


class Rails(Daemons):
    """Two nodes, a and b, joined by RAILS rails of `mbit` Mb/s each way (None: not limited). With `switched`, a switch
    lies in each rail. Topologies of one test have different numbers. `settings` and `ulnet` are YAML: sections of the
    configuration, and lines of its section `ulnet`."""

    # The interface of a goes down; that of b goes down; a switch forwards nothing, and both links stay up. In the first
    # two cases, both sides lose the carrier.
    KINDS = ('own', 'peer', 'black hole')

    def __init__(self, topology, number, switched, mbit=None, settings='', ulnet=''):
        self.number = number
        nodes = {side: topology.node(f'{side}{number}') for side in 'ab'}
        self.switch = topology.node(f's{number}') if switched else None
        for rail in range(RAILS):
            self.wire(topology, nodes, rail, mbit)
        yaml = ('net:\n    - net type: tcp\n      local NI(s):\n'
                + ''.join(f'        - interfaces:\n              0: veth{rail}\n' for rail in range(RAILS)) + settings
                + 'ulnet:\n    perf_target: true\n' + ulnet)
        super().__init__(topology, nodes, {side: yaml for side in 'ab'})
        self.interfaces = {side: Interfaces(node) for side, node in nodes.items()}
        self.bridges = Interfaces(self.switch) if switched else None
        self.discover()

    def wire(self, topology, nodes, rail, mbit):
        addresses = [f'10.{self.number}.{rail}.{host}/24' for host in (1, 2)]
        if self.switch is None:
            names = topology.link(nodes['a'], addresses[0], nodes['b'], addresses[1])
        else:
            self.switch.ip('link', 'add', f'br{rail}', 'type', 'bridge')
            self.switch.ip('link', 'set', f'br{rail}', 'up')
            names = []
            for node, address in zip(nodes.values(), addresses):
                name, port = topology.link(node, address, self.switch, None)
                self.switch.ip('link', 'set', port, 'master', f'br{rail}')
                names.append(name)
        for node, name in zip(nodes.values(), names):
            if mbit:
                shape(node, name, mbit)

    def nid(self, side, rail):
        return f'10.{self.number}.{rail}.{1 if side == "a" else 2}@tcp'

    def known(self, side, other):
        """NIDs of the other that `side` has in its peer table."""
        shown = json.loads(self.ctl(side, '--json', 'peer', 'show', '--nid', self.nid(other, 0)) or '{}')
        return [ni['nid'] for ni in shown['peer'][0]['peer ni']] if shown else []

    def discover(self):
        self.ctl('a', 'discover', self.nid('b', 0))
        for side, other in ('ab', 'ba'):
            until(f'{side} knows {RAILS} NIDs', lambda side=side, other=other: (
                len(found := self.known(side, other)) == RAILS, found))

    def even(self, before, after):
        """Are the bytes between two answers of carried() spread over all rails? And the share of each."""
        grown = [after[f'veth{rail}'] - before[f'veth{rail}'] for rail in range(RAILS)]
        mean = max(sum(grown) / RAILS, 1)
        return min(grown) > 0.5 * mean and sum(grown) > 1 << 16, [round(one / mean, 2) for one in grown]

    def until_even(self, seconds=60):
        """Under load: waits until all rails carry their share. Connections that both sides dial at once come late."""
        def look():
            before = self.carried('a')
            time.sleep(0.1)
            return self.even(before, self.carried('a'))
        until('all rails carry traffic', look, seconds)

    def fault(self, kind, rail, gone=True):
        """A fault of one of the KINDS; with gone=False, the rail comes back. Returns the time."""
        if kind == 'black hole':
            return self.bridges.switch(f'br{rail}', not gone)
        return self.interfaces['a' if kind == 'own' else 'b'].switch(f'veth{rail}', not gone)


def ni_yaml(net, interface):
    return f'    - net type: {net}\n      local NI(s):\n        - interfaces:\n              0: {interface}\n'


def end_node_yaml(net, remote, gateways, settings, ulnet):
    return ('net:\n' + ni_yaml(net, 'veth0') + 'route:\n'
            + ''.join(f'    - net: {remote}\n      gateway: {gateway}\n' for gateway in gateways)
            + settings + 'ulnet:\n    perf_target: true\n' + ulnet)


class Routers(Daemons):
    """Client, two routers and server, with a switch on either side; `mbit` is the rate of each interface, each way."""

    SERVER = '10.2.0.1@tcp1'

    def __init__(self, topology, mbit=None, settings='', ulnet=''):
        nodes = {name: topology.node(name) for name in ('client', 'server', 'r1', 'r2')}
        switch = topology.node('switch')
        for number, members in ((1, ('client', 'r1', 'r2')), (2, ('server', 'r1', 'r2'))):
            switch.ip('link', 'add', f'br{number}', 'type', 'bridge')
            switch.ip('link', 'set', f'br{number}', 'up')
            for host, name in enumerate(members, 1):
                interface, port = topology.link(nodes[name], f'10.{number}.0.{host}/24', switch, None)
                switch.ip('link', 'set', port, 'master', f'br{number}')
                if mbit:
                    shape(nodes[name], interface, mbit)
        router = ('net:\n' + ni_yaml('tcp', 'veth0') + ni_yaml('tcp1', 'veth1') + 'routing:\n    enable: 1\n' + settings
                  + 'ulnet:\n    forwarding: enabled\n' + ulnet)
        yaml = {'r1': router, 'r2': router,
                'client': end_node_yaml('tcp', 'tcp1', ('10.1.0.2@tcp', '10.1.0.3@tcp'), settings, ulnet),
                'server': end_node_yaml('tcp1', 'tcp', ('10.2.0.2@tcp1', '10.2.0.3@tcp1'), settings, ulnet)}
        super().__init__(topology, {name: nodes[name] for name in yaml}, yaml)  # routers first: their routes are up
        for name in ('client', 'server'):
            until(f'both routes of {name} are up', lambda name=name: (
                (shown := self.ctl(name, 'route', 'show', '-v')).count('state: up') == 2, shown))

    def forwarded(self, router):
        """Bytes that the kernel has carried for a router."""
        return sum(self.carried(router)[name] for name in ('veth0', 'veth1'))


class Load:
    """Jobs of ulnet-perf that the ulnetd of one node runs: puts and gets, half of `concurrency` each."""

    def __init__(self, daemons, name, target, concurrency, size, seconds, drain, slice_ms=1):
        self.programs = {}
        for operation in ('put', 'get'):
            self.programs[operation] = daemons.nodes[name].start(
                [netns.binary('ulnet-perf'), '--json', '--socket', daemons.socket(name), operation, '--size', str(size),
                 '-c', str(concurrency // 2), '-d', f'{seconds}s', '--warmup', '0s', '--drain', f'{drain}s',
                 '--timeline', f'{slice_ms}ms', target])

    def running(self):
        return all(program.running() for program in self.programs.values())

    def interrupt(self):
        for program in self.programs.values():
            if program.running():
                program.process.send_signal(signal.SIGINT)

    def end(self, seconds):
        """Interrupts the jobs and waits. A job that had not begun has no result, so none are returned."""
        self.interrupt()
        for program in self.programs.values():
            program.wait(seconds, None)

    def results(self, seconds):
        """Waits for the end; the result of each job."""
        results = {}
        for operation, program in self.programs.items():
            program.wait(seconds, None)
            output = program.output()
            assert '{' in output, f'{operation}: {output}'
            results[operation] = json.loads(output[output.index('{'):])['runs'][0]
        return results


def errors(results):
    """Failed operations of all jobs by name of the errno."""
    counts = {}
    for result in results.values():
        for name, error in result['errors'].items():
            counts[name] = counts.get(name, 0) + error['count']
    return counts
