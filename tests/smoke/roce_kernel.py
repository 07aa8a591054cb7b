"""o2ib over our RoCE on ports that end in the kernel: AF_PACKET and AF_XDP over veth, tap over a bridge. Payloads of
each size are verified both ways. Tap takes frames of several segments, so payloads leave from their place.

Run one by its name: roce_kernel.py af_xdp
"""
import contextlib
import sys

import netns
from dpdk_transports import xdp
from roce import NET, Daemon, counts_are_clean, exchange
from wire import quiet

CONFIG = '''ulnet:
    workers: {workers}
    perf_target: 1
    devices:
        - name: p0
          device: {device}
          addresses: [10.9.0.{number}/24]
          mtu: {mtu}
net:{net}
'''


class Node(Daemon):
    """ulnetd with one port, in a namespace that may have others."""

    def __init__(self, topology, node, number, device, mtu, workers):
        self.node, self.ports = node, ['p0']
        self.socket = str(topology.folder / f'{number}.sock')
        self.path = topology.folder / f'{number}.yaml'
        self.path.write_text(CONFIG.format(workers=workers, device=device, number=number, mtu=mtu,
                                           net=NET.format(net='o2ib', name='p0')))
        self.start()


def bridged(topology, mtu):
    """Two tap devices of one namespace, whose kernel's ends are joined by a bridge."""
    both = topology.node('both')
    quiet(both)
    nodes = [Node(topology, both, number, f'tap,iface=t{number}', mtu, 1) for number in (1, 2)]
    both.ip('link', 'add', 'b0', 'type', 'bridge')
    both.ip('link', 'set', 'b0', 'up')
    for number in (1, 2):
        both.ip('link', 'set', f't{number}', 'master', 'b0', 'up')
    return nodes


def joined(topology, kind, mtu, workers):
    ends = [topology.node(name) for name in ('a', 'b')]
    for end in ends:
        quiet(end)
    topology.link(ends[0], None, ends[1], None, mtu=mtu, queues=workers)
    return [Node(topology, end, number, f'{kind},iface=veth0', mtu, workers) for number, end in enumerate(ends, 1)]


def run(kind):
    mtu, workers = {'af_packet': (4200, 2), 'af_xdp': (3498, 1), 'tap': (1500, 1)}[kind]
    with netns.Topology() as topology:
        with xdp() if kind == 'af_xdp' else contextlib.nullcontext():
            nodes = bridged(topology, mtu) if kind == 'tap' else joined(topology, kind, mtu, workers)
        for node in nodes:
            node.wait_for_links()
        for node, target in zip(nodes, ('10.9.0.2@o2ib', '10.9.0.1@o2ib')):
            exchange(node, target)
        counts_are_clean(*nodes)
        print(f'o2ib over RoCE on {kind}: verified both ways')


if __name__ == '__main__':
    sys.exit(run(sys.argv[1]))
