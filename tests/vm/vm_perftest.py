#!/usr/bin/env python3
"""Clients that are not ours, over rdma_rxe of a guest's kernel: ib_send_bw and ib_write_bw of perftest, with rdma_cm.
Their server is perftest_server, with our RoCE on a packet port. Neither side refuses a packet of the other, unless a
client writes beyond the window of its key: then the client reports the refusal.

rping does not fit: its server reads the client's memory, and our RoCE has no RDMA READ.
"""
import json
import os
import re

import vm

SMALL = 60  # seconds for what takes one; the machine may be busy
MTU = 4200
SIZE, MESSAGES = 65536, 500
REMOTE_ACCESS = 10  # IBV_WC_REM_ACCESS_ERR
TIMEOUT = 18  # 1 s for an acknowledgement, by the formula of InfiniBand: the machine may be busy
# Counts of rdma_rxe that stay 0 if it refuses none of our packets.
REFUSED = ('out_of_seq_request', 'rcvd_rnr_err', 'send_rnr_err', 'retry_rnr_exceeded_err', 'retry_exceeded_err')
# Counts of packets that our RoCE cannot use. Without `roce_qp`: a late packet may be for a connection that has ended.
DROPS = ('roce_length', 'roce_header', 'roce_opcode', 'roce_mad', 'roce_icrc', 'roce_busy')


class Lab:
    """A guest, and a namespace with a port for the server."""

    def __init__(self, lab):
        lab.bridge('br0', mtu=MTU)
        self.node = lab.topology.node('outside')
        lab.node.ip('link', 'add', 'wire0', 'mtu', str(MTU), 'type', 'veth', 'peer', 'name', 'port0', 'netns',
                    self.node.netns)
        lab.node.ip('link', 'set', 'wire0', 'master', 'br0', 'up')
        self.node.ip('link', 'set', 'port0', 'mtu', str(MTU), 'addrgenmode', 'none', 'up')
        self.guest = lab.guest('a', {'br0': '10.0.0.1/24'}, rxe=True)
        lab.wait_ready()

    def run(self, kind, window=SIZE, status=0):
        """One client of this kind. Both programs end with this status. Returns the client's output and the server's
        report.
        """
        server = self.node.start([os.environ['ULNET_PERFTEST_SERVER'], 'port0', '10.0.0.9/24', str(MTU), kind,
                                  str(window), str(MESSAGES)])
        server.wait_for('^listening$', SMALL)
        client = self.guest.start(f'exec ib_{kind}_bw -R -d rxe0 -F -u {TIMEOUT} -s {SIZE} -n {MESSAGES} 10.0.0.9')
        try:
            output = client.wait(SMALL, status)
            server.wait(SMALL, status)
        except BaseException:
            print('--- client', client.tail(), '--- server', server.tail(), sep='\n', flush=True)
            raise
        [report] = [json.loads(line) for line in server.output().splitlines() if line.startswith('{')]
        return output, report

    def transfer(self, kind):
        """A client that reports its bandwidth. Returns the server's report."""
        output, report = self.run(kind)
        bandwidth = re.search(rf'^ {SIZE} +{MESSAGES} .*$', output, re.M)
        assert bandwidth, output
        print(f'ib_{kind}_bw: {bandwidth.group().split()} {report}', flush=True)
        self.clean(report)
        return report

    def clean(self, report):
        """Neither end has refused a packet of the other."""
        output = self.guest.run('cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep -H . *', SMALL)
        counts = dict(line.split(':') for line in output.split())
        refused = {name: counts[name] for name in REFUSED if int(counts[name]) != 0}
        naks = [name for name in report['roce'] if name.startswith('naks') and not name.startswith('naks_sequence')]
        drops = [name for name in report['drops'] if name in DROPS]
        assert not refused and not naks and not drops, (counts, report)


def sends(both):
    report = both.transfer('send')
    assert report['messages'] == MESSAGES and report['bytes'] == MESSAGES * SIZE, report


def writes(both):
    report = both.transfer('write')
    assert report['messages'] == 0 and report['touched_outside'] == 0, report
    assert report['touched'] > 0 and report['untouched_blocks'] == 0, report


def write_too_long(both):
    """The window of the key ends one byte before the client's message."""
    output, report = both.run('write', SIZE - 1, status=1)
    assert f'Failed status {REMOTE_ACCESS}:' in output, output
    assert report['roce']['naks_access_sent'] > 0 and report['touched_outside'] == 0, report
    print(f'ib_write_bw beyond its window: refused, {report}', flush=True)


def main():
    with vm.Lab() as lab:
        both = Lab(lab)
        sends(both)
        writes(both)
        write_too_long(both)
    print('vm_perftest: passed', flush=True)


if __name__ == '__main__':
    main()
