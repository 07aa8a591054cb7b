#!/usr/bin/env python3
"""RDMA between two guests: rdma_rxe of Debian's kernel, with path MTU 4096. Data is verified, and each frame is in the
capture of the bridge. The port reports the loss of its carrier and its return. A guest comes back after a power
failure.

ULNET_FULL=1: also a connection over a path that is cut behind the cable (it fails after 100 s), and netem.
"""
import collections
import os
import re

import vm

FULL = os.environ.get('ULNET_FULL', '') not in ('', '0')
SMALL = 60           # seconds for what takes one; the machine may be busy
READ_RESPONSE_ONLY, WRITE_ONLY, SEND_FIRST, SEND_MIDDLE, SEND_LAST, ACKNOWLEDGE, CONNECT = 16, 10, 0, 1, 2, 17, 100
MESSAGES, MESSAGE_BYTES, MTU = 20, 65536, 4096
ROUNDS, SIZE = 5, 4000  # of rping


class Pair:
    def __init__(self, lab):
        self.lab = lab
        lab.bridge('br0', mtu=9000)
        self.a = lab.guest('a', {'br0': '10.0.0.1/24'}, rxe=True)
        self.b = lab.guest('b', {'br0': '10.0.0.2/24'}, rxe=True)
        lab.wait_ready()
        self.server = None

    def serve(self):
        """Starts an rping server on b; it serves until the end of the guest."""
        self.server = self.b.start(f'exec rping -s -P -a 10.0.0.2 -V -S {SIZE}')
        self.b.until('rdma resource show cm_id | grep LISTEN', SMALL)

    def rping(self, works=True, timeout=SMALL):
        """Writes and reads of rping, from a. rping prints each round after it has compared the data. Its exit status
        means nothing: it is 0 after a round that was refused, and 255 if one of its threads ends late.
        """
        command = f'rping -c -a 10.0.0.2 -V -v -C {ROUNDS} -S {SIZE}'
        output = self.a.run(f'{command} >/tmp/rounds 2>/tmp/errors; cat /tmp/rounds /tmp/errors', timeout)
        assert len(re.findall(r'^ping data: rdma-ping-', output, re.M)) == (ROUNDS if works else 0), output
        return output


def commands(guest):
    """Files go in and out, and a command that does not end is ended."""
    data = bytes(range(256)) * 400
    guest.write_file('/tmp/data', data)
    assert guest.read_file('/tmp/data') == data
    try:
        guest.run('sleep 600', timeout=1)
    except vm.GuestError as error:
        assert 'still running after 1 s: sleep 600' in str(error), error
    else:
        raise AssertionError('a command without end has ended')
    guest.run("ps | grep '[s]leep 600'", SMALL, status=1)


def devices(pair):
    for guest in (pair.a, pair.b):
        output = guest.run('ibv_devinfo -d rxe0', SMALL)
        for words in (r'state:\s+PORT_ACTIVE', r'active_mtu:\s+4096', r'link_layer:\s+Ethernet'):
            assert re.search(words, output), (words, output)
        guest.run('ibv_devinfo -d rxe1', SMALL, status=255)


def opcodes(data, source):
    return collections.Counter(one.opcode for one in vm.capture.roce_packets(data) if one.source == source)


def traffic(pair):
    """rping and ib_send_bw; the capture has each of their packets."""
    capture = pair.lab.capture('br0')
    pair.serve()
    pair.rping()
    options = f'-d rxe0 -x 1 -F -s {MESSAGE_BYTES} -n {MESSAGES} -t 8'
    receiver = pair.b.start(f'ib_send_bw {options}')
    pair.b.until('netstat -ltn | grep :18515', SMALL)
    output = pair.a.run(f'ib_send_bw {options} 10.0.0.2', SMALL)
    receiver.wait(SMALL)
    assert re.search(rf'^ {MESSAGE_BYTES} +{MESSAGES} ', output, re.M), output
    data = capture.stop()
    sent, answered = opcodes(data, '10.0.0.1'), opcodes(data, '10.0.0.2')
    # At least: a packet may be sent again. Each round of rping reads once and writes once.
    assert sent[SEND_FIRST] >= MESSAGES and sent[SEND_LAST] >= MESSAGES, sent
    assert sent[SEND_MIDDLE] >= MESSAGES * (MESSAGE_BYTES // MTU - 2), sent
    assert answered[WRITE_ONLY] >= ROUNDS and sent[READ_RESPONSE_ONLY] >= ROUNDS, (sent, answered)
    assert answered[ACKNOWLEDGE] > 0 and sent[CONNECT] > 0, (sent, answered)
    longest = max(one.frame_bytes for one in vm.capture.roce_packets(data))
    assert MTU < longest < MTU + 100, longest
    print(f'traffic: {sum(sent.values())} and {sum(answered.values())} RoCEv2 packets captured', flush=True)


def carrier(pair):
    events = pair.a.start('exec ibv_asyncwatch -d rxe0')
    events.wait_for('async event FD', SMALL)
    pair.a.set_carrier(False)
    pair.a.until('grep 0 /sys/class/net/eth0/carrier', SMALL)
    events.wait_for('IBV_EVENT_PORT_ERR', SMALL)
    pair.a.until('ibv_devinfo -d rxe0 | grep PORT_DOWN', SMALL)
    output = pair.rping(works=False)
    assert 'RDMA_CM_EVENT_' in output and 'error' in output, output
    pair.a.set_carrier(True)
    events.wait_for('IBV_EVENT_PORT_ACTIVE', SMALL)
    pair.a.until('grep 1 /sys/class/net/eth0/carrier', SMALL)
    pair.a.until('ping -c 1 -W 1 10.0.0.2', SMALL)
    pair.rping()
    events.kill()
    print('carrier: gone and back, with PORT_ERR and PORT_ACTIVE', flush=True)


def cut_path(pair):
    """Frames are lost, the guest sees no change."""
    pair.a.set_tap(False)
    pair.a.run('ping -c 1 -W 1 10.0.0.2', SMALL, status=1)
    assert pair.a.read_file('/sys/class/net/eth0/carrier') == b'1\n'
    if FULL:
        assert 'RDMA_CM_EVENT_' in pair.rping(works=False, timeout=600)
    pair.a.set_tap(True)
    pair.a.until('ping -c 1 -W 1 10.0.0.2', SMALL)
    pair.rping()
    print('cut path: silent, and mended', flush=True)


def power_failure(pair):
    pair.b.run('echo of the first boot >/tmp/mark', SMALL)
    pair.b.power_cycle()
    pair.b.run('test ! -e /tmp/mark', SMALL)
    pair.serve()
    pair.rping()
    print(f'power failure: back after {pair.b.boot_seconds:.1f} s', flush=True)


def lossy(pair):
    pair.a.run('tc qdisc add dev eth0 root netem delay 2ms loss 2%', SMALL)
    for _ in range(20):
        pair.rping(timeout=600)
    sent, dropped = map(int, re.search(r'Sent \d+ bytes (\d+) pkt \(dropped (\d+)',
                                       pair.a.run('tc -s qdisc show dev eth0 root', SMALL)).groups())
    assert dropped > 0, f'netem dropped none of {sent}'
    pair.a.run('tc qdisc del dev eth0 root', SMALL)
    print(f'lossy: {dropped} packets lost beside {sent}', flush=True)


def main():
    with vm.Lab() as lab:
        pair = Pair(lab)
        print(f'booted in {pair.a.boot_seconds:.1f} s', flush=True)
        commands(pair.a)
        devices(pair)
        traffic(pair)
        carrier(pair)
        cut_path(pair)
        power_failure(pair)
        if FULL:
            lossy(pair)
    print('vm_rdma: passed')


if __name__ == '__main__':
    main()
