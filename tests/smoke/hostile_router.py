#!/usr/bin/env python3
"""A router under attack, with real processes. During each attack through it (hostile_hops.py), operations of other
nodes through it end well, and new connections are served. The router lives, and its buffers, descriptors and memory
come back.

The router joins two nets; clients, attackers and probe are on one side, server and hops on the other. `routing_loop`
has a second router, and each of the two has a route over the other one to a net that nobody has.
Arguments: names of cases to run; none: all. ULNET_FULL=1: see hostile.py.
"""
import contextlib
import os
import pathlib
import re
import sys
import time

import hostile
import netns
from hostile import ATTACKERS, BACK_S, CLIENTS, FULL, ON_S, PROBE, SANITIZED, VICTIM

FAR, SECOND = '10.78.0.1', 5
SERVER = '10.78.0.2'
HOPS = [f'10.78.1.{number}' for number in range(1, 42)]

# name: attack on the hops' side or None; (attack on the clients' side, how many of ATTACKERS, count short, long)
CASES = {
    'hops_take_nothing': ('hops_take_nothing', ('feed_hops', 2, 0, 0)),
    'hops_not_there': (None, ('feed_nobody', 8, 0, 0)),
    'asks_for_others': (None, ('asks_for_others', 36, 0, 0)),
    'claims_through': (None, ('claims_through', 4, 300, 1500)),
    'wrong_ways': (None, ('wrong_ways', 1, 0, 0)),
    'routing_loop': (None, ('loop', 1, 50, 500)),
}
hostile.FLOODS.add('wrong_ways')


def tcp(net, interface):
    return f'    - net type: {net}\n      local NI(s):\n        - interfaces:\n              0: {interface}\n'


def route(net, gateway):
    return f'    - net: {net}\n      gateway: {gateway}\n'


def router_yaml(loop_over=None):
    """`loop_over`: the next router of a loop; only the traffic distinguishes it from this one."""
    return ('net:\n' + tcp('tcp', 'veth0') + tcp('tcp1', 'veth1') +
            (f'route:\n{route("tcp9", loop_over)}global:\n    discovery: 0\n' if loop_over else '') +
            'routing:\n    enable: 1\nulnet:\n    forwarding: enabled\n')


class RouterField(hostile.Field):
    """The router, its clients and its attackers, joined by two bridges."""
    memory_more = hostile.MEMORY_MORE + (1024 << 20) + (16384 << 12)  # its buffers, which are resident once used

    def __init__(self, topology, loop):  # other nodes than the ones of Field  pylint: disable=super-init-not-called
        self.topology = topology
        self.nodes = {}
        self.bridges('br0', 'br1')
        self.join('victim', [VICTIM])
        self.join('victim', [FAR], 'br1')
        for name, (address, *_) in CLIENTS.items():
            self.join(name, [address])
            (topology.folder / f'{name}.yaml').write_text(
                f'net:\n{tcp("tcp", "veth0")}route:\n{route("tcp1", VICTIM + "@tcp")}')
        self.join('probe', [PROBE])
        self.join('attacker', ATTACKERS)
        self.join('hops', HOPS, 'br1')
        self.join('server', [SERVER], 'br1')
        self.socket = str(topology.folder / 'victim.sock')
        self.daemon = self.start('victim', router_yaml(f'10.77.0.{SECOND}@tcp' if loop else None))
        if loop:
            self.join('second', [f'10.77.0.{SECOND}'])
            self.join('second', [f'10.78.0.{SECOND}'], 'br1')
            self.second = self.start('second', router_yaml(f'{FAR}@tcp1'))
        self.server = self.start('server', f'net:\n{tcp("tcp1", "veth0")}route:\n{route("tcp", FAR + "@tcp1")}'
                                           'ulnet:\n    perf_target: true\n')

    def descriptors(self):
        """Without pipes: those for payloads stay open, 16 for each worker at most (kernel_pipes.h)."""
        links = []
        for descriptor in pathlib.Path(f'/proc/{self.daemon.pid}/fd').iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                links.append(os.readlink(descriptor))
        pipes = sum(link.startswith('pipe:') for link in links)
        assert pipes <= 3 + 2 * 16 * os.cpu_count(), f'{pipes} pipes'
        return len(links) - pipes

    def attack(self, name):
        far, (attack, addresses, short, long) = CASES[name]
        programs = [self.peer('hops', far, [f'{hop}@tcp1' for hop in HOPS], 0, FAR + '@tcp1')] if far else []
        for program in programs:
            program.wait_for('^attack: on', ON_S)
        programs.append(self.peer('attacker', attack, ATTACKERS[:addresses], long if FULL else short))
        programs[-1].wait_for('^attack: on', ON_S)
        return programs

    def client(self, name):
        return [f'{SERVER}@tcp1', '--config', str(self.topology.folder / f'{name}.yaml')]

    def buffers_in_use(self):
        """Used buffers of all pools, as `ulnetctl routing show` reports them."""
        pools = re.findall(r'nbuffers: (\d+)\s+credits: (-?\d+)', self.ctl('routing', 'show'))
        assert pools, self.ctl('routing', 'show')
        return sum(int(total) - int(credits) for total, credits in pools)


def buffers_back(field, name):
    end = time.monotonic() + BACK_S
    while field.buffers_in_use() > 0:
        assert time.monotonic() < end, f'{name}: router buffers are not back:\n{field.ctl("routing", "show")}'
        time.sleep(0.2)


def run(names, loop):
    if not names:
        return
    with netns.Topology() as topology:
        field = RouterField(topology, loop)
        field.traffic()  # first use fills tables and learns paths
        reports, probe = field.traffic()
        hostile.judge('no attack', reports, probe)
        for name in names:
            hostile.run_case(field, name, hostile.rates(reports))
            buffers_back(field, name)
        assert field.daemon.running() and field.server.running(), field.daemon.tail()


def main():
    if SANITIZED and not FULL:
        netns.skip('with sanitizers only if ULNET_FULL=1: it takes ten times as long')
    names = sys.argv[1:] or list(CASES)
    run([name for name in names if name != 'routing_loop'], False)
    run([name for name in names if name == 'routing_loop'], True)
    print('hostile_router: passed')


if __name__ == '__main__':
    main()
