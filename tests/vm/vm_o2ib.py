#!/usr/bin/env python3
"""o2ib between guests with rdma_rxe: ulnetd on each, puts and gets of ulnet-perf. Two rails, a slow rail, a small path
MTU, a router to tcp, losses of a link, a path and a machine. Each operation ends once, data is verified, and no message
ever lacks a receive buffer. A capture in the guest is readable by tshark.

ULNET_FULL=1: more operations, the small path MTU, and each loss several times.
"""
import json
import os
import re
import shutil
import subprocess

import vm
from vm import netns

FULL = os.environ.get('ULNET_FULL', '') not in ('', '0')
SMALL = 90  # seconds for what takes few; the machine may be busy
CTL = 'ulnetctl --socket /run/ulnet.sock'
SMALL_SIZES, LARGE_SIZES = '0,1,4000,4096,65536,131072', '1048575,1M'
COUNT = 200 if FULL else 12
ROUNDS = 5 if FULL else 1
MTU, FRAME_BYTES = 4096, 58  # bytes around the payload of a frame: Ethernet 14, IP 20, UDP 8, BTH 12, ICRC 4
# An interface answers for its own address only, and a packet may come by another interface than the way back.
ONE_SUBNET = ('for i in all eth0 eth1; do cd /proc/sys/net/ipv4/conf/$i; echo 1 >arp_ignore; echo 2 >arp_announce; '
              'echo 0 >rp_filter; done')
SPEED, SLOW_SPEED, SLOW_RATE = 10000, 1000, '5mbit'  # of a link, as the guest sees it; and its rate when it is slow
SMALL_MTU = 1024  # of a path whose interfaces have an MTU of 1500
RAILS = ('10.0.0.1@o2ib', '10.0.1.1@o2ib')
CONFIG = b'ulnet:\n    perf_target: true\n'
ROUTER = b'''routing:
    enable: 1
buffers:
    tiny: 512
    small: 512
    large: 64
'''


class Machine:
    """A guest with ulnetd."""

    def __init__(self, guest):
        self.guest = guest
        self.daemon = None

    def start(self, *nets, config='ulnet'):
        self.guest.run(ONE_SUBNET, SMALL)
        self.daemon = self.guest.start(f'exec ulnetd --socket /run/ulnet.sock --config /etc/{config}.yaml')
        self.daemon.wait_for('ulnetd: ready', SMALL)
        self.ctl('lnet configure')
        for net, interface in nets:
            self.add(net, interface)

    def add(self, net, interface):
        self.ctl(f'net add --net {net} --if {interface}')
        self.guest.until(f"{CTL} net show --net {net} | grep -c 'status: up' | grep -x "
                         f"$({CTL} net show --net {net} | grep -c 'nid:')", SMALL)

    def report(self):
        """For a test that failed."""
        if self.daemon is None:
            return
        print(f'--- ulnetd of {self.guest.name}', self.daemon.output(), sep='\n', flush=True)
        print(self.ctl('net show -v', status=None), flush=True)

    def ctl(self, words, timeout=SMALL, status=0):
        return self.guest.run(f'{CTL} {words}', timeout, status=status)

    def ping(self, nid, status=0):
        output = self.ctl(f'ping {nid} --timeout 20', status=status)
        assert status != 0 or nid in output, output

    def perf(self, words):
        """Starts ulnet-perf in this ulnetd."""
        return self.guest.start(f'exec ulnet-perf {words} --socket /run/ulnet.sock --json')

    def rnr(self):
        """Messages that met no receive buffer, as the devices count them."""
        output = self.guest.run('cat /sys/class/infiniband/rxe*/ports/1/hw_counters/*rnr*', SMALL)
        return sum(map(int, output.split()))

    def state(self, nid, word):
        """Waits until the NI has this status."""
        self.guest.until(f"{CTL} net show | grep -A1 'nid: {nid}' | grep 'status: {word}'", SMALL)

    def link(self, mbps, shape):
        """The link of eth1 goes, and comes back with this speed. `shape`: words of tc qdisc, or none."""
        self.guest.set_carrier(False, 1)
        self.state(RAILS[1], 'down')
        self.guest.run(f'ethtool -s eth1 speed {mbps} duplex full' + (f'; tc qdisc {shape}' if shape else ''), SMALL)
        self.guest.set_carrier(True, 1)
        self.state(RAILS[1], 'up')

    def ni_state(self, nid, word):
        """Waits until the NI has this state (figures 10, 11 and 13 of the high level design)."""
        self.guest.until(f"{CTL} net show -v 4 | sed -n '/nid: {nid}$/,/ni state/p' | grep 'ni state: {word}'", SMALL)

    def recovered(self, nid):
        """Waits until the peer NI has its full health again."""
        self.guest.until(f"{CTL} peer show -v 3 | grep -A80 'nid: {nid}' | grep -m1 'health value' | grep 1000", SMALL)

    def sent(self, nid):
        """Messages that this NI has sent."""
        output = self.ctl('net show -v')
        block = output[output.index(f'nid: {nid}'):]
        return int(re.search(r'send_count: (\d+)', block).group(1))


def results(program, timeout=10 * SMALL):
    """The results of ulnet-perf. Each operation has ended, none with an error."""
    output = program.wait(timeout)
    found = json.loads(output)
    assert found['ok'] and found['runs'], output
    for one in found['runs']:
        assert one['accepted'] == one['ended'] and not one['failed'] and not one['duplicates'], output
    return found['runs']


def verified(machine, nid, timeout=10 * SMALL):
    """Puts and gets of all sizes, each byte compared."""
    for kind in ('put', 'get'):
        for sizes, concurrency in ((SMALL_SIZES, 8), (LARGE_SIZES, 1)):
            runs = results(machine.perf(f'{kind} {nid} --size {sizes} -n {COUNT} -c {concurrency} --verify'), timeout)
            assert all(one['verified'] == one['completed'] for one in runs), runs


class Pair:
    """Two machines with two interfaces each, in one subnet. As in each LNet net, all interfaces reach each other."""

    def __init__(self, lab):
        self.lab = lab
        for bridge in ('br0', 'br1'):
            lab.bridge(bridge, mtu=9000)
        lab.node.ip('link', 'add', 'wire0', 'mtu', '9000', 'type', 'veth', 'peer', 'name', 'wire1', 'mtu', '9000')
        for index in '01':
            lab.node.ip('link', 'set', f'wire{index}', 'master', f'br{index}', 'up')
        self.a = Machine(lab.guest('a', {'br0': '10.0.0.1/16', 'br1': '10.0.1.1/16'}, rxe=True))
        self.b = Machine(lab.guest('b', {'br0': '10.0.0.2/16', 'br1': '10.0.1.2/16'}, rxe=True))

    def both(self):
        return self.a, self.b


def one_rail(pair):
    """Pings and verified data, both ways."""
    for machine in pair.both():
        machine.start(('o2ib', 'eth0'))
    pair.a.ping('10.0.0.2@o2ib')
    pair.b.ping('10.0.0.1@o2ib')
    verified(pair.a, '10.0.0.2@o2ib')
    verified(pair.b, '10.0.0.1@o2ib')
    print('one rail: verified both ways', flush=True)


def efficiency(pair):
    """Payload over all bytes of the bridge, for PUTs of 1 MiB: at least 99.5 % of what frames with 4096 bytes allow."""
    capture = pair.lab.capture('br0')
    (run,) = results(pair.a.perf(f'put 10.0.0.2@o2ib --size 1M -n {COUNT} -c 4'))
    data = capture.stop()
    on_the_wire = sum(one.frame_bytes for one in vm.capture.roce_packets(data))
    possible = MTU / (MTU + FRAME_BYTES)
    share = run['bytes'] / on_the_wire / possible
    print(f'efficiency: {share:.4f} of the possible {possible:.4f}', flush=True)
    assert share >= 0.995, (run['bytes'], on_the_wire)


def two_rails(pair):
    """Discovery finds the second rail, and both carry messages."""
    for machine in pair.both():
        machine.add('o2ib', 'eth1')
    output = pair.a.ctl('discover 10.0.0.2@o2ib --force')
    assert '10.0.1.2@o2ib' in output, output
    before = [pair.a.sent(nid) for nid in RAILS]
    verified(pair.a, '10.0.0.2@o2ib')
    used = [pair.a.sent(nid) - count for nid, count in zip(RAILS, before)]
    assert min(used) > max(used) / 3, used
    print(f'two rails: {used} messages', flush=True)


def link_lost(pair):
    """One rail loses its carrier: the NI is down, the other one carries on. Then the carrier comes back."""
    program = pair.a.perf('put 10.0.0.2@o2ib --size 65536 -c 4 -d 12s')
    program.guest.until(f'{CTL} net show -v | grep send_count', SMALL)
    pair.a.guest.set_carrier(False, 1)
    pair.a.state('10.0.1.1@o2ib', 'down')
    pair.a.guest.set_carrier(True, 1)
    pair.a.state('10.0.1.1@o2ib', 'up')
    (run,) = results(program)
    assert run['completed'] > 0, run
    verified(pair.a, '10.0.0.2@o2ib')
    print(f"link lost: {run['completed']} puts, none failed", flush=True)


def path_cut(pair):
    """Frames are lost on one rail, and no device reports it. Payload goes both ways, by puts and by gets."""
    kinds = ('put', 'get')
    programs = [machine.perf(f'{kind} {nid} --size 65536 -c 2 -d 10s')
                for machine, nid in ((pair.a, '10.0.0.2@o2ib'), (pair.b, '10.0.0.1@o2ib')) for kind in kinds]
    pair.a.guest.set_tap(False, 1)
    runs = [run for program in programs for run in results(program)]
    pair.a.guest.set_tap(True, 1)
    assert all(run['completed'] > 0 for run in runs), runs
    pair.a.recovered('10.0.1.2@o2ib')
    pair.b.recovered('10.0.1.1@o2ib')
    verified(pair.a, '10.0.0.2@o2ib')
    print(f"path cut: {[run['completed'] for run in runs]} puts and gets, none failed", flush=True)


def shares(pair, seconds):
    """Messages of each rail for some puts of 64 KiB."""
    before = [pair.a.sent(nid) for nid in RAILS]
    results(pair.a.perf(f'put 10.0.0.2@o2ib --size 65536 -c 4 -d {seconds}s'))
    return [pair.a.sent(nid) - count for nid, count in zip(RAILS, before)]


def link_slow(pair):
    """The link of one rail comes back slower: its NI is degraded, and the other rail carries most. Then it is fast."""
    pair.a.link(SPEED, None)
    pair.a.ni_state(RAILS[1], 'created')
    pair.a.link(SLOW_SPEED, f'add dev eth1 root tbf rate {SLOW_RATE} burst 64k limit 8m')
    pair.a.ni_state(RAILS[1], 'degraded')
    output = pair.a.ctl('net show -v 4')
    assert re.findall(r'link speed: (.*)', output) == [f'{SLOW_SPEED} of {SPEED} Mbit/s'], output
    slow = shares(pair, 6)
    assert slow[0] > 2 * slow[1], slow
    pair.a.link(SPEED, 'del dev eth1 root')
    pair.a.ni_state(RAILS[1], 'created')
    for _ in range(10):  # the worker measures the rail again by its messages
        fast = shares(pair, 3)
        if min(fast) > max(fast) / 3:
            break
    else:
        raise AssertionError(f'the rail that is fast again carries few messages: {fast}')
    print(f'link slow: {slow} messages, then {fast}', flush=True)


def small_mtu(pair):
    """A path of 1500 bytes: packets have at most 1024 bytes of payload, and data is whole."""
    for mtu, payload in ((1500, SMALL_MTU), (9000, MTU)):
        for machine in pair.both():
            machine.ctl('net del --net o2ib')
            machine.guest.run(f'ip link set eth0 mtu {mtu}', SMALL)
            machine.guest.until(f"ibv_devinfo -d rxe0 | grep 'active_mtu:[[:space:]]*{payload} '", SMALL)
        for machine in pair.both():
            machine.add('o2ib', 'eth0')
        pair.a.guest.until(f'{CTL} ping 10.0.0.2@o2ib --timeout 5', SMALL)
        if mtu == 1500:
            capture = pair.lab.capture('br0')
            verified(pair.a, '10.0.0.2@o2ib')
            longest = max(one.frame_bytes for one in vm.capture.roce_packets(capture.stop()))
            assert payload < longest < payload + 100, longest
    print('path of 1500 bytes: verified', flush=True)


def guest_capture(pair):
    """tcpdump in the guest gets the packets of RoCEv2. tshark reads each of them, and finds LNet's messages in them."""
    program = pair.a.guest.start('exec tcpdump -i eth0 -U -w /tmp/o2ib.pcap udp port 4791')
    program.wait_for('listening on', SMALL)
    results(pair.a.perf(f'put 10.0.0.2@o2ib --size 64,65536 -n {COUNT} -c 1'))
    program.signal('TERM')
    program.wait(SMALL)
    data = pair.a.guest.read_file('/tmp/o2ib.pcap')
    count = len(list(vm.capture.roce_packets(data)))
    assert count >= 2 * COUNT, count
    if shutil.which('tshark'):
        path = pair.lab.folder / 'o2ib.pcap'
        path.write_bytes(data)
        found = [len(subprocess.run(['tshark', '-r', path, '-Y', words], capture_output=True, text=True, timeout=SMALL,
                                    check=False).stdout.splitlines()) for words in ('infiniband.bth', 'lnet')]
        assert found[0] == count and found[1] >= 2 * COUNT, (count, found)
    print(f'capture in the guest: {count} packets', flush=True)


def peer_lost(pair):
    """The other machine loses its power. Operations end, and later ones arrive at its next life."""
    program = pair.a.perf('put 10.0.0.2@o2ib --size 65536 -c 4 -d 5s')
    pair.b.guest.power_cycle()
    output = program.wait(10 * SMALL, status=None)
    (run,) = json.loads(output)['runs']
    assert run['accepted'] == run['ended'] and not run['duplicates'], output
    pair.b.start(('o2ib', 'eth0'), ('o2ib', 'eth1'))
    pair.a.guest.until(f'{CTL} ping 10.0.0.2@o2ib --timeout 5', SMALL)
    verified(pair.a, '10.0.0.2@o2ib')
    print(f"peer lost: {run['failed']} of {run['accepted']} puts failed, and all ended", flush=True)


def router(lab, pair):
    """o2ib on one side, tcp on the other, and a router between them."""
    c = Machine(lab.guest('c', {'br0': '10.0.0.3/16', 'br1': '10.0.1.3/16'}, rxe=True))
    c.guest.wait_ready()
    c.start(('o2ib', 'eth0'), ('tcp', 'eth1'), config='router')
    d = pair.b
    d.ctl('net del --net o2ib')
    d.ctl('net add --net tcp --if eth1')
    d.ctl('route add --net o2ib --gateway 10.0.1.3@tcp')
    pair.a.ctl('net del --net o2ib --if eth1')
    pair.a.ctl('route add --net tcp --gateway 10.0.0.3@o2ib')
    pair.a.guest.until(f'{CTL} ping 10.0.1.2@tcp --timeout 5', SMALL)
    verified(pair.a, '10.0.1.2@tcp')
    verified(d, '10.0.0.1@o2ib')
    assert [machine.rnr() for machine in (c, *pair.both())] == [0, 0, 0]
    print('router: verified both ways', flush=True)


def steps(lab, pair):
    one_rail(pair)
    efficiency(pair)
    guest_capture(pair)
    if FULL:
        small_mtu(pair)
    two_rails(pair)
    link_slow(pair)
    for _ in range(ROUNDS):
        link_lost(pair)
        path_cut(pair)
    assert [machine.rnr() for machine in pair.both()] == [0, 0]
    for _ in range(ROUNDS):
        peer_lost(pair)
    assert [machine.rnr() for machine in pair.both()] == [0, 0]
    router(lab, pair)


def main():
    programs = {f'/usr/bin/{name}': netns.binary(name) for name in ('ulnetd', 'ulnetctl', 'ulnet-perf')}
    with vm.Lab(files={'/etc/ulnet.yaml': CONFIG, '/etc/router.yaml': ROUTER}, programs=programs) as lab:
        pair = Pair(lab)
        lab.wait_ready()
        try:
            steps(lab, pair)
        except Exception:
            for machine in pair.both():
                machine.report()
            raise
    print('vm_o2ib: passed')


if __name__ == '__main__':
    main()
