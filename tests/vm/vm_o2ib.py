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
import time

import vm
from vm import netns

FULL = os.environ.get('ULNET_FULL', '') not in ('', '0')
SMALL = 90  # seconds for what takes few; the machine may be busy
CTL = 'ulnetctl --socket /run/ulnet.sock'
SMALL_SIZES, LARGE_SIZES, FEW_SIZES = '0,1,4000,4096,65536,131072', '1048575,1M', '0,65536,1M'
COUNT = 200 if FULL else 12
LARGE_COUNT = 200 if FULL else 3  # each takes as long as twenty small ones
MESSAGES = 500 if FULL else 100  # on a rail, before and after what happens to a link
ROUNDS = 5 if FULL else 1
CM_QUEUE_PAIR, CM_MESSAGES = 1, 3  # a connection takes REQ, REP and RTU
MTU, FRAME_BYTES = 4096, 58  # bytes around the payload of a frame: Ethernet 14, IP 20, UDP 8, BTH 12, ICRC 4
# An interface answers for its own address only, and a packet may come by another interface than the way back.
ONE_SUBNET = ('for i in all eth0 eth1; do cd /proc/sys/net/ipv4/conf/$i; echo 1 >arp_ignore; echo 2 >arp_announce; '
              'echo 0 >rp_filter; done')
SPEED, SLOW_SPEED, SLOW_RATE = 10000, 1000, '5mbit'  # of a link, as the guest sees it; and its rate when it is slow
SMALL_MTU = 1024  # of a path whose interfaces have an MTU of 1500
RAILS, RAILS_OF_B = ('10.0.0.1@o2ib', '10.0.1.1@o2ib'), ('10.0.0.2@o2ib', '10.0.1.2@o2ib')
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

    def launch(self, config='ulnet'):
        """Starts ulnetd, and does not wait until it is ready."""
        command = f'exec ulnetd --socket /run/ulnet.sock --config /etc/{config}.yaml'
        self.daemon = self.guest.start(f'{ONE_SUBNET}\n{command}')

    def join(self, *nets):
        """Gives these nets to the ulnetd that was launched."""
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

    def load(self, words, drain=SMALL):
        """Starts operations of 64 KiB without end. After a signal, those under way have `drain` seconds to end."""
        return self.perf(f'{words} --size 65536 -d 1h --drain {drain}s')

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

    def sent(self, *nids):
        """The number of messages that each of these NIs has sent."""
        output = self.ctl('net show -v')
        blocks = [output[output.index(f'nid: {nid}'):] for nid in nids]
        return [int(re.search(r'send_count: (\d+)', block).group(1)) for block in blocks]

    def sent_since(self, before, *nids):
        return [now - then for now, then in zip(self.sent(*nids), before)]

    def sends(self, count, *nids):
        """Waits for this number of messages from these NIs; returns the number of each NI."""
        before, deadline = self.sent(*nids), time.monotonic() + SMALL
        while True:
            more = self.sent_since(before, *nids)
            if sum(more) >= count:
                return more
            assert time.monotonic() < deadline, (nids, more, count)


def results(program, timeout=10 * SMALL):
    """The results of ulnet-perf. Each operation has ended, none with an error."""
    output = program.wait(timeout)
    found = json.loads(output)
    assert found['ok'] and found['runs'], output
    for one in found['runs']:
        assert one['accepted'] == one['ended'] and not one['failed'] and not one['duplicates'], output
    return found['runs']


def stopped(program):
    """Ends a load; returns its result."""
    program.signal('TERM')
    (run,) = results(program)
    return run


ALL = ((SMALL_SIZES, COUNT, 8), (LARGE_SIZES, LARGE_COUNT, 1))
AFTER_A_LOSS = ((FEW_SIZES, 12 if FULL else LARGE_COUNT, 1),)


def verified(machine, nid, transfers=ALL, timeout=10 * SMALL):
    """Puts and gets, each byte compared. `transfers`: sizes, the number of each, and how many at a time."""
    for kind in ('put', 'get'):
        for sizes, count, concurrency in transfers:
            runs = results(machine.perf(f'{kind} {nid} --size {sizes} -n {count} -c {concurrency} --verify'), timeout)
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
        self.a, self.b = self.machine('a', 1), self.machine('b', 2)

    def machine(self, name, number):
        """Starts the guest of a machine."""
        addresses = {f'br{index}': f'10.0.{index}.{number}/16' for index in (0, 1)}
        return Machine(self.lab.guest(name, addresses, rxe=True))

    def both(self):
        return self.a, self.b


def efficiency(pair):
    """Payload over all bytes of RoCE frames: at least 99.5 % of what frames with 4096 bytes of payload allow. These are
    the first PUTs of 1 MiB between the nodes, and the set-up of the connection counts. More PUTs would hide it.
    """
    capture = pair.lab.capture('br0')
    for machine in pair.both():
        machine.launch()
    for machine in pair.both():
        machine.join(('o2ib', 'eth0'))
    (run,) = results(pair.a.perf(f'put 10.0.0.2@o2ib --size 1M -n {COUNT} -c 4'))
    packets = list(vm.capture.roce_packets(capture.stop()))
    setup = [one.frame_bytes for one in packets if one.queue_pair == CM_QUEUE_PAIR]
    assert packets[0].queue_pair == CM_QUEUE_PAIR and len(setup) >= CM_MESSAGES, (packets[0], setup)
    on_the_wire = sum(one.frame_bytes for one in packets)
    possible = MTU / (MTU + FRAME_BYTES)
    share = run['bytes'] / on_the_wire / possible
    print(f"efficiency: {share:.4f} of the possible {possible:.4f}, {run['completed']} PUTs, {on_the_wire} bytes, "
          f'{len(setup)} frames of the CM with {sum(setup)} bytes', flush=True)
    assert share >= 0.995, (run['bytes'], on_the_wire)


def one_rail(pair):
    """Pings and verified data, both ways."""
    pair.a.ping('10.0.0.2@o2ib')
    pair.b.ping('10.0.0.1@o2ib')
    verified(pair.a, '10.0.0.2@o2ib')
    verified(pair.b, '10.0.0.1@o2ib')
    print('one rail: verified both ways', flush=True)


def two_rails(pair):
    """Discovery finds the second rail, and both carry messages."""
    for machine in pair.both():
        machine.add('o2ib', 'eth1')
    output = pair.a.ctl('discover 10.0.0.2@o2ib --force')
    assert '10.0.1.2@o2ib' in output, output
    before = pair.a.sent(*RAILS)
    verified(pair.a, '10.0.0.2@o2ib')
    used = pair.a.sent_since(before, *RAILS)
    assert min(used) > max(used) / 3, used
    print(f'two rails: {used} messages', flush=True)


def link_lost(pair):
    """One rail loses its carrier: the NI is down, the other one carries on. Then the carrier comes back."""
    program = pair.a.load('put 10.0.0.2@o2ib -c 4')
    pair.a.sends(MESSAGES, RAILS[1])
    pair.a.guest.set_carrier(False, 1)
    pair.a.state(RAILS[1], 'down')
    pair.a.sends(MESSAGES, RAILS[0])
    pair.a.guest.set_carrier(True, 1)
    pair.a.state(RAILS[1], 'up')
    pair.a.sends(MESSAGES, RAILS[1])
    run = stopped(program)
    verified(pair.a, '10.0.0.2@o2ib', AFTER_A_LOSS)
    print(f"link lost: {run['completed']} puts, none failed", flush=True)


def path_cut(pair):
    """Frames are lost on one rail, and no device reports it. Payload goes both ways, by puts and by gets."""
    ends = ((pair.a, '10.0.0.2@o2ib', RAILS), (pair.b, '10.0.0.1@o2ib', RAILS_OF_B))
    programs = [machine.load(f'{kind} {nid} -c 2') for machine, nid, _ in ends for kind in ('put', 'get')]
    pair.a.guest.set_tap(False, 1)
    pair.a.ni_state(RAILS[1], 'failed')  # no probe is answered
    for machine, _, rails in ends:
        machine.sends(MESSAGES, rails[0])
    runs = [stopped(program) for program in programs]
    pair.a.guest.set_tap(True, 1)
    assert all(run['completed'] > 0 for run in runs), runs
    pair.a.recovered('10.0.1.2@o2ib')
    pair.b.recovered('10.0.1.1@o2ib')
    verified(pair.a, '10.0.0.2@o2ib', AFTER_A_LOSS)
    print(f"path cut: {[run['completed'] for run in runs]} puts and gets, none failed", flush=True)


def link_slow(pair):
    """The link of one rail comes back slower: its NI is degraded, and the other rail carries most. Then it is fast, and
    both carry as much. Puts go on meanwhile.
    """
    pair.a.link(SPEED, None)
    pair.a.ni_state(RAILS[1], 'created')
    pair.a.link(SLOW_SPEED, f'add dev eth1 root tbf rate {SLOW_RATE} burst 64k limit 8m')
    pair.a.ni_state(RAILS[1], 'degraded')
    output = pair.a.ctl('net show -v 4')
    assert re.findall(r'link speed: (.*)', output) == [f'{SLOW_SPEED} of {SPEED} Mbit/s'], output
    program = pair.a.load('put 10.0.0.2@o2ib -c 4')
    slow = pair.a.sends(4 * MESSAGES, *RAILS)
    assert slow[0] > 2 * slow[1], slow
    pair.a.link(SPEED, 'del dev eth1 root')
    pair.a.ni_state(RAILS[1], 'created')
    deadline, fast = time.monotonic() + SMALL, [1, 0]
    while min(fast) <= max(fast) / 3:  # the worker measures the rail again by its messages
        assert time.monotonic() < deadline, f'the rail that is fast again carries few messages: {fast}'
        fast = pair.a.sends(2 * MESSAGES, *RAILS)
    stopped(program)
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
    """The other machine loses its power. Its next life makes connections, so that operations of the former one end, and
    later ones arrive.
    """
    program = pair.a.load('put 10.0.0.2@o2ib -c 4', drain=5)
    pair.a.sends(MESSAGES, *RAILS)
    pair.b.guest.power_off()
    program.signal('TERM')
    pair.b.guest.power_on()
    pair.b.guest.wait_ready()
    pair.b.launch()
    pair.b.join(('o2ib', 'eth0'), ('o2ib', 'eth1'))
    for nid in RAILS:
        pair.b.ping(nid)
    output = program.wait(10 * SMALL, status=None)
    (run,) = json.loads(output)['runs']
    assert run['accepted'] == run['ended'] and not run['duplicates'], output
    pair.a.guest.until(f'{CTL} ping 10.0.0.2@o2ib --timeout 5', SMALL)
    verified(pair.a, '10.0.0.2@o2ib', AFTER_A_LOSS)
    print(f"peer lost: {run['failed']} of {run['accepted']} puts failed, and all ended", flush=True)


def router(pair, c):
    """o2ib on one side, tcp on the other, and `c` is a router between them."""
    c.guest.wait_ready()
    c.launch('router')
    c.join(('o2ib', 'eth0'), ('tcp', 'eth1'))
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


def steps(pair):
    efficiency(pair)
    one_rail(pair)
    guest_capture(pair)
    if FULL:
        small_mtu(pair)
    two_rails(pair)
    link_slow(pair)
    for _ in range(ROUNDS):
        link_lost(pair)
        path_cut(pair)
    assert [machine.rnr() for machine in pair.both()] == [0, 0]
    c = pair.machine('c', 3)  # boots while the end of a peer is noticed
    for _ in range(ROUNDS):
        peer_lost(pair)
    assert [machine.rnr() for machine in pair.both()] == [0, 0]
    router(pair, c)


def main():
    programs = {f'/usr/bin/{name}': netns.binary(name) for name in ('ulnetd', 'ulnetctl', 'ulnet-perf')}
    with vm.Lab(files={'/etc/ulnet.yaml': CONFIG, '/etc/router.yaml': ROUTER}, programs=programs) as lab:
        pair = Pair(lab)
        lab.wait_ready()
        try:
            steps(pair)
        except Exception:
            for machine in pair.both():
                machine.report()
            raise
    print('vm_o2ib: passed')


if __name__ == '__main__':
    main()
