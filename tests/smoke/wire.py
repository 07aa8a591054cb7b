"""`ulnet-perf wire` in network namespaces: the shared parts of the packet ports' tests. Each test starts its own
processes, because DPDK starts once in a process. Each test demands that all packet buffers are back at the end.
"""
import json
import os
import pathlib
import sys
import unittest

import netns

PERF = os.environ.get('ULNET_PERF', '')
READY = r'^ready ([0-9a-f:]{17})'
XDP_KEPT = 2048 + 64  # buffers that the AF_XDP driver does not give back: its fill ring


def huge_pages_free():
    file = pathlib.Path('/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages')
    return int(file.read_text()) if file.exists() else 0


class Port:
    """`ulnet-perf wire` in a node."""

    def __init__(self, node, mode, device, *options, mtu=1500, workers=1, seconds=90):
        self.environment = 'DPDK on huge pages' if huge_pages_free() > 0 else 'DPDK without huge pages'
        self.program = node.start([PERF, 'wire', mode, '--json', '--device', device, '--mtu', mtu, '--workers', workers,
                                   '--seconds', seconds, *options])
        self.mac = self.program.wait_for(READY, 60).group(1)

    def figures(self, timeout=60):
        """Waits for its end by itself; its figures, checked for what must always hold."""
        self.program.wait(timeout)
        return self._figures()

    def stop(self):
        self.program.stop()
        return self._figures()

    def _figures(self):
        figures = json.loads(self.program.output().strip().splitlines()[-1])
        assert figures['packets_conserved'], figures
        assert figures['environment'] == self.environment, figures
        for worker in figures['workers']:
            assert worker['corrupted'] == 0, worker
            assert worker['leases_out'] == 0, worker
        for queue in figures['port']['queues']:
            kept = XDP_KEPT if 'af_xdp' in figures['port']['device'] else 0
            assert queue['pool_held'] == 0, queue
            if kept:
                assert queue['pool_size'] - queue['pool_free'] <= kept + 512, queue
        return figures


def drops(figures):
    total = {}
    for queue in figures['port']['queues']:
        for reason, count in queue['drops'].items():
            total[reason] = total.get(reason, 0) + count
    return total


def quiet(node):
    """No IPv6 chatter of a node's own interfaces: the port's end is the port's."""
    node.run(['sysctl', '-qw', 'net.ipv6.conf.default.disable_ipv6=1'], timeout=30)


def flood(test, node, address, packet_bytes, count=3000):
    """ping -f with whole packets of this size; demands every answer. A checksum guards the content here. udp_echo()
    compares it byte for byte."""
    head = 48 if ':' in address else 28
    output = node.run(['ping', '-q', '-f', '-n', '-c', count, '-w', 30, '-s', packet_bytes - head, address],
                      timeout=40)
    test.assertIn(f' {count} received, 0% packet loss', output)


def udp_echo(test, node, address, flows, size):
    """Sends 64 random datagrams of each flow from the kernel, one after the other; demands each back unchanged."""
    script = f'''
import os, socket, sys
for port in range(20000, 20000 + {flows}):
    s = socket.socket(socket.AF_INET6 if ':' in {address!r} else socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('', port))
    s.settimeout(20)
    for _ in range(64):
        data = os.urandom({size})
        s.sendto(data, ({address!r}, 7))
        assert s.recv(65536) == data, port
print('echoed')
'''
    test.assertIn('echoed', node.run([sys.executable, '-c', script], timeout=60))


def main():
    """Runs the tests of the calling file, or says why not."""
    if not pathlib.Path(PERF).exists():
        sys.exit(f'ULNET_PERF={PERF}: not built')
    reason = netns.why_not()
    if reason:
        netns.skip(reason)
    unittest.main()
