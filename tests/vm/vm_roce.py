#!/usr/bin/env python3
"""o2ib between our RoCE on packet ports and rdma_rxe of a guest's kernel. Data is verified both ways, packets are lost
on the way, and the guest loses its power. The kernel's device refuses no packet, and tshark can read each of them.

ULNET_FULL=1: more operations.
"""
import collections
import json
import shutil
import subprocess
import time

import vm
from vm import netns
from vm_o2ib import CONFIG, FULL, SMALL, Machine, verified

COUNT = 100 if FULL else 6
MTU = 4200
DEVICE = '''
        - name: rail{index}
          device: af_packet,iface=port{index}
          addresses: [10.0.{index}.{number}/24]
          mtu: {mtu}'''
NET = '''
    - net type: {net}
      local NI(s):
        - interfaces:
              0: rail{index}'''
RAILS = ('10.0.0.1@o2ib', '10.0.1.1@o2ib1')
LOSSY = (('0,4096,65536', 4 * COUNT, 4), ('1M', 2, 1))
TRANSFERS = (('0,1,4000,4096,65536', COUNT, 4), ('1048575,1M', COUNT // 2, 1))
# Counts of rdma_rxe that stay 0 if the peer follows the protocol.
CLEAN = ('rcvd_seq_err', 'out_of_seq_request', 'send_rnr_err', 'rcvd_rnr_err', 'retry_rnr_exceeded_err')


class Outside:
    """ulnetd with a packet port on some bridges, in a namespace of its own. `nets`: {index of the bridge: net}."""

    def __init__(self, lab, nets, number=9):
        self.lab = lab
        name = f'outside{number}'
        self.node = lab.topology.node(name)
        for index in nets:
            wire = f'wire{index}-{number}'
            lab.node.ip('link', 'add', wire, 'mtu', str(MTU), 'type', 'veth', 'peer', 'name', f'port{index}', 'netns',
                        self.node.netns)
            lab.node.ip('link', 'set', wire, 'master', f'br{index}', 'up')
            self.node.ip('link', 'set', f'port{index}', 'mtu', str(MTU), 'addrgenmode', 'none', 'up')
        self.path, self.socket = lab.folder / f'{name}.yaml', str(lab.folder / f'{name}.sock')
        devices = ''.join(DEVICE.format(index=index, number=number, mtu=MTU) for index in nets)
        entries = ''.join(NET.format(index=index, net=net) for index, net in nets.items())
        self.path.write_text(f'ulnet:\n    workers: 1\n    perf_target: true\n    devices:{devices}\nnet:{entries}\n')
        self.daemon = self.node.start([netns.binary('ulnetd'), '--config', str(self.path), '--socket', self.socket])

    def ctl(self, words, status=0):
        return self.node.run([netns.binary('ulnetctl'), '--socket', self.socket, *words.split()], SMALL, status=status)

    def perf(self, words):
        """Starts ulnet-perf in this ulnetd, and has the interface of a guest's program."""
        return Program(self.node.start([netns.binary('ulnet-perf'), *words.split(), '--socket', self.socket, '--json']))

    def counts(self):
        total = collections.Counter()
        for port in json.loads(self.ctl('--json port show -v 1'))['port']:
            total.update(port.get('roce', {}))
        return total

    def report(self):
        print('--- ulnetd outside', self.daemon.tail(60), self.ctl('port show -v', status=None), sep='\n', flush=True)


class Program:
    def __init__(self, program):
        self.program = program

    def wait(self, timeout):
        self.program.wait(timeout)
        return self.program.output()


def device_counts(guest):
    """Counts of rdma_rxe that should be 0, and are not."""
    output = guest.run('cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep -H . *', SMALL)
    counts = dict(line.split(':') for line in output.split())
    return {name: int(counts[name]) for name in CLEAN if int(counts[name]) != 0}


def both_ways(outside, inside, transfers=TRANSFERS):
    verified(inside, '10.0.0.9@o2ib', transfers)
    verified(outside, '10.0.0.1@o2ib', transfers)


def readable(capture, path):
    """tshark finds LNet's messages in the packets. Below LNet, nothing is malformed."""
    path.write_bytes(capture.stop())
    if shutil.which('tshark') is None:
        return

    def count(*words):
        # tshark takes some messages of LNet for RPC over RDMA if the capture begins behind their requests.
        command = ['tshark', '--disable-protocol', 'rpcordma', '-r', path, *words]
        output = subprocess.run(command, capture_output=True, text=True, timeout=SMALL, check=False)
        return len(output.stdout.splitlines())

    ours, lnet = count('-Y', 'infiniband.bth && ip.src == 10.0.0.9'), count('-Y', 'lnet')
    malformed = count('-Y', '_ws.malformed && !lnet')  # tshark misses a byte in some messages of LNet, the kernel's too
    assert ours > 0 and lnet > 0 and malformed == 0, (ours, lnet, malformed)
    print(f'{ours} packets of our RoCE, {lnet} messages of LNet', flush=True)


def exchange(lab, outside, inside):
    capture = lab.capture('br0')
    inside.ping('10.0.0.9@o2ib')
    assert '10.0.0.1@o2ib' in outside.ctl('ping 10.0.0.1@o2ib --timeout 20')
    both_ways(outside, inside)
    readable(capture, lab.folder / 'roce.pcap')
    refused = device_counts(inside.guest)
    assert not refused, refused
    counts = outside.counts()
    naks = {name: value for name, value in counts.items() if name.startswith('naks')}
    assert counts['acks_received'] > 0 and not naks, counts
    print(f'verified both ways: {counts}', flush=True)


def two_rails(outside, inside):
    """Discovery finds the second rail, and both carry messages."""
    inside.add('o2ib1', 'eth1')
    until = time.monotonic() + SMALL
    while '10.0.1.1@o2ib1' not in outside.ctl('discover 10.0.0.1@o2ib --force', status=None):
        assert time.monotonic() < until
    assert '10.0.1.9@o2ib1' in inside.ctl('discover 10.0.0.9@o2ib --force')
    before = inside.sent(*RAILS)
    both_ways(outside, inside)
    used = inside.sent_since(before, *RAILS)
    assert min(used) > max(used) / 4, used
    print(f'two rails: {used} messages', flush=True)


def lossy(outside, inside):
    """The guest loses 1 of 100 packets that it sends: requests, and answers to ours."""
    inside.guest.run('for i in 0 1; do tc qdisc add dev eth$i root netem loss 1%; done', SMALL)
    before = outside.counts()
    both_ways(outside, inside, LOSSY)
    after = outside.counts()
    inside.guest.run('for i in 0 1; do tc qdisc del dev eth$i root; done', SMALL)
    repaired = sum(after.get(name, 0) - before.get(name, 0) for name in ('packets_resent', 'naks_sequence_sent'))
    assert repaired > 0, after
    print(f'1 % lost: verified, {repaired} repairs', flush=True)


def power_lost(outside, inside):
    inside.guest.power_cycle()
    inside.launch()
    inside.join(('o2ib', 'eth0'), ('o2ib1', 'eth1'))
    until = time.monotonic() + SMALL
    while '10.0.0.1@o2ib' not in outside.ctl('ping 10.0.0.1@o2ib --timeout 5', status=None):
        assert time.monotonic() < until
    both_ways(outside, inside)
    print('power lost: verified again', flush=True)


def main():
    programs = {f'/usr/bin/{name}': netns.binary(name) for name in ('ulnetd', 'ulnetctl', 'ulnet-perf')}
    with vm.Lab(files={'/etc/ulnet.yaml': CONFIG}, programs=programs) as lab:
        for bridge in ('br0', 'br1'):
            lab.bridge(bridge, mtu=MTU)
        outside = Outside(lab, {0: 'o2ib', 1: 'o2ib1'})
        inside = Machine(lab.guest('a', {'br0': '10.0.0.1/24', 'br1': '10.0.1.1/24'}, rxe=True))
        try:
            lab.wait_ready()
            inside.launch()
            inside.join(('o2ib', 'eth0'))
            exchange(lab, outside, inside)
            two_rails(outside, inside)
            lossy(outside, inside)
            power_lost(outside, inside)
        except BaseException:
            inside.report()
            outside.report()
            raise
    print('o2ib over our RoCE and rdma_rxe: both ways', flush=True)


if __name__ == '__main__':
    main()
