"""Packet ports against the kernel's own stack (tap, AF_PACKET and AF_XDP over veth) and against each other (memif), in
network namespaces. Each test starts its own processes, because DPDK starts once in a process; each demands that all
packet buffers are back at the end. Run one by name: dpdk_ports.py Kernel.test_tap
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import sys
import time
import unittest

import netns

PERF = os.environ.get('ULNET_PERF', '')
READY = r'^ready ([0-9a-f:]{17})'
XDP_KEPT = 2048 + 64  # buffers that the AF_XDP driver does not give back: its fill ring


class Port:
    """`ulnet-perf wire` in a node."""

    def __init__(self, node, mode, device, *options, mtu=1500, workers=1, seconds=60):
        self.program = node.start([PERF, 'wire', mode, '--json', '--device', device, '--mtu', mtu, '--workers', workers,
                                   '--seconds', seconds, *options])
        self.mac = self.program.wait_for(READY, 20).group(1)

    def figures(self, timeout=20):
        """Waits for its end by itself; its figures, checked for what must always hold."""
        self.program.wait(timeout)
        return self._figures()

    def stop(self):
        self.program.stop()
        return self._figures()

    def _figures(self):
        figures = json.loads(self.program.output().strip().splitlines()[-1])
        assert figures['packets_conserved'], figures
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
    node.run(['sysctl', '-qw', 'net.ipv6.conf.default.disable_ipv6=1'], timeout=5)


def flood(test, node, address, packet_bytes, count=3000):
    """ping -f with whole packets of this size; demands every answer. ping itself compares the data."""
    head = 48 if ':' in address else 28
    output = node.run(['ping', '-q', '-f', '-n', '-c', count, '-w', 30, '-s', packet_bytes - head, address],
                      timeout=40)
    test.assertIn(f' {count} received, 0% packet loss', output)


def udp_echo(test, node, address, flows, size):
    """Sends one datagram of each flow from the kernel; demands them back unchanged."""
    script = f'''
import os, socket, sys
for port in range(20000, 20000 + {flows}):
    s = socket.socket(socket.AF_INET6 if ':' in {address!r} else socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('', port))
    s.settimeout(5)
    data = os.urandom({size})
    s.sendto(data, ({address!r}, 7))
    assert s.recv(65536) == data, port
print('echoed')
'''
    test.assertIn('echoed', node.run([sys.executable, '-c', script], timeout=30))


class Kernel(unittest.TestCase):
    """A port at one end, the kernel's stack at the other."""

    def veth(self, net, mtu):
        kernel, port = net.node('kernel'), net.node('port')
        quiet(port)
        net.link(kernel, ['10.9.0.1/24', 'fd09::1/64'], port, None, mtu=mtu)
        # The kernel leaves checksums to a NIC, and a veth pair has none: what it sends must be whole.
        kernel.run(['ethtool', '-K', 'veth0', 'tx', 'off'], timeout=5, status=None)
        return kernel, port

    def both_ways(self, kernel, port, device, mtu, options=(), workers=1):
        """The kernel pings the port with small and full-size packets, and is pinged."""
        its = Port(port, 'serve', device, '--address', '10.9.0.2/24', '--address', 'fd09::2/64', *options, mtu=mtu,
                   workers=workers)
        for address in ('10.9.0.2', 'fd09::2'):
            kernel.run(['ping', '-q', '-c', '1', '-w', '10', address], timeout=15)
            flood(self, kernel, address, 100, 1000)
            flood(self, kernel, address, mtu)
            udp_echo(self, kernel, address, 4 * workers, mtu - 100)
        figures = its.stop()
        answered = sum(w['stack']['echo_answers'] for w in figures['workers'])
        self.assertGreaterEqual(answered, 2 * 4000)
        self.assertGreaterEqual(figures['workers'][0]['stack']['arp_answers'] +
                                sum(w['stack']['arp_answers'] for w in figures['workers'][1:]), 1)
        for address, own in (('10.9.0.1', '10.9.0.3/24'), ('fd09::1', 'fd09::3/64')):
            head = 48 if ':' in address else 28
            ours = Port(port, 'ping', device, '--address', own, '--peer', address, '--count', 300, '--bytes',
                        mtu - head, *options, mtu=mtu)
            figures = ours.figures()
            self.assertEqual(300, figures['workers'][0]['received'], figures)

    def test_af_packet(self):
        with netns.Topology() as net:
            self.both_ways(*self.veth(net, 1500), 'af_packet,iface=veth0', 1500)

    def test_af_packet_jumbo(self):
        with netns.Topology() as net:
            self.both_ways(*self.veth(net, 9000), 'af_packet,iface=veth0', 9000)

    def test_af_packet_four_workers(self):
        with netns.Topology() as net:
            self.both_ways(*self.veth(net, 1500), 'af_packet,iface=veth0', 1500, workers=4)

    def test_af_xdp(self):
        with netns.Topology() as net:
            kernel, port = self.veth(net, 1500)
            try:
                self.both_ways(kernel, port, 'af_xdp,iface=veth0', 1500)
            except netns.ProgramError as error:
                if 'the device' not in str(error):
                    raise
                netns.skip('this kernel or container gives no AF_XDP')

    def test_af_xdp_largest(self):
        with netns.Topology() as net:
            kernel, port = self.veth(net, 3498)
            try:
                self.both_ways(kernel, port, 'af_xdp,iface=veth0', 3498)
            except netns.ProgramError as error:
                if 'the device' not in str(error):
                    raise
                netns.skip('this kernel or container gives no AF_XDP')

    def test_tap(self):
        mtu = 1500
        with netns.Topology() as net:
            kernel = net.node('kernel')
            its = Port(kernel, 'serve', 'tap,iface=rail0', '--address', '10.9.0.2/24', '--address', 'fd09::2/64',
                       mtu=mtu)
            kernel.ip('addr', 'add', '10.9.0.1/24', 'dev', 'rail0')
            kernel.ip('addr', 'add', 'fd09::1/64', 'dev', 'rail0', 'nodad')
            for address in ('10.9.0.2', 'fd09::2'):
                kernel.run(['ping', '-q', '-c', '1', '-w', '10', address], timeout=15)
                flood(self, kernel, address, mtu)
                udp_echo(self, kernel, address, 4, mtu - 100)
            figures = its.stop()
            self.assertTrue(figures['port']['queues'][0]['interrupt'], 'tap wakes a sleeping worker')

    def test_link_down_and_up(self):
        """Link changes are told, traffic goes on afterwards; a reset leaves nothing behind."""
        with netns.Topology() as net:
            kernel, port = self.veth(net, 1500)
            its = Port(port, 'serve', 'af_packet,iface=veth0', '--address', '10.9.0.2/24')
            # The kernel tells of carrier changes once a second, and a new pair starts without.
            its.program.wait_for(r'^link up', 30)
            flood(self, kernel, '10.9.0.2', 1500, 500)
            kernel.ip('link', 'set', 'veth0', 'down')
            its.program.wait_for(r'^link up[\s\S]*^link down', 30)
            kernel.ip('link', 'set', 'veth0', 'up')
            its.program.wait_for(r'^link up[\s\S]*^link down[\s\S]*^link up', 30)
            flood(self, kernel, '10.9.0.2', 1500, 500)
            its.program.process.send_signal(signal.SIGUSR1)
            its.program.wait_for(r'^reset done', 30)
            kernel.run(['ping', '-q', '-c', '1', '-w', '10', '10.9.0.2'], timeout=15)
            flood(self, kernel, '10.9.0.2', 1500, 500)
            self.assertEqual(1, its.stop()['port']['resets'])

    def test_neighbour_silent(self):
        """Nobody answers: asked three times, then each packet is a counted drop."""
        with netns.Topology() as net:
            _, port = self.veth(net, 1500)
            ours = Port(port, 'ping', 'af_packet,iface=veth0', '--address', '10.9.0.2/24', '--peer', '10.9.0.77',
                        '--count', 2)
            figures = ours.figures()
            self.assertEqual(0, figures['workers'][0]['received'])
            self.assertGreaterEqual(figures['workers'][0]['stack']['questions'], 3)


class Frames(unittest.TestCase):
    """Broken frames from a raw socket: each is counted by its reason, and none harms."""

    def test_reasons(self):
        with netns.Topology() as net:
            kernel = net.node('kernel')  # tap: the kernel would put fragments together for AF_PACKET
            quiet(kernel)
            its = Port(kernel, 'serve', 'tap,iface=rail0', '--address', '10.9.0.2/24', '--address', 'fd09::2/64')
            kernel.run([sys.executable, __file__, '--send-broken', its.mac], timeout=20)
            time.sleep(0.3)
            counted = drops(its.stop())
            for reason, count in BROKEN_COUNTS.items():
                self.assertEqual(count, counted.get(reason, 0), f'{reason} of {counted}')

    def test_capture(self):
        """Both directions and each drop with its reason are in the file; a filter leaves out the rest."""
        if shutil.which('tshark') is None:
            netns.skip('no tshark')
        with netns.Topology() as net:
            kernel = net.node('kernel')
            quiet(kernel)
            for packet_filter, echoes, others in (('', 10, True), ('icmp', 10, False), ('udp port 4', 0, False)):
                file = net.folder / 'capture.pcapng'
                its = Port(kernel, 'serve', 'tap,iface=rail0', '--address', '10.9.0.2/24', '--address', 'fd09::2/64',
                           '--capture', file, '--filter', packet_filter)
                kernel.ip('addr', 'add', '10.9.0.1/24', 'dev', 'rail0')
                kernel.run(['ping', '-q', '-c', '10', '-i', '0.01', '10.9.0.2'], timeout=15)
                kernel.run([sys.executable, __file__, '--send-broken', its.mac], timeout=20)
                time.sleep(0.3)
                its.stop()
                seen = kernel.run(['tshark', '-n', '-r', file, '-o', 'ip.defragment:FALSE', '-T', 'fields', '-e',
                                   'icmp.type', '-e', 'frame.packet_flags_direction', '-e', 'frame.comment'],
                                  timeout=30)
                lines = seen.splitlines()
                asked = sum(line.startswith('8\t0x00000001') and 'dropped' not in line for line in lines)
                self.assertEqual(echoes + (1 if echoes else 0), asked, seen)  # one is the broken one on its way in
                self.assertEqual(echoes, sum(line.startswith('0\t0x00000002') for line in lines), seen)
                if others:
                    for reason, count in BROKEN_COUNTS.items():
                        found = sum(f'dropped: {reason}' in line for line in lines)
                        self.assertEqual(count, found, f'{reason} in {seen}')
            refused = kernel.run([PERF, 'wire', 'serve', '--device', 'null', '--capture', file, '--filter',
                                  'no such thing'], timeout=20, status=1)
            self.assertIn('the filter is not understood', refused)

    def test_vlan(self):
        """Two ports in one VLAN talk; a port of another VLAN counts what it must not see."""
        with netns.Topology() as net:
            a, b = net.node('a'), net.node('b')
            quiet(a)
            quiet(b)
            net.link(a, None, b, None)
            for vlan_b, received in ((5, 200), (6, 0)):
                server = Port(a, 'serve', 'af_packet,iface=veth0', '--address', '10.9.0.1/24', '--vlan', 5)
                client = Port(b, 'ping', 'af_packet,iface=veth0', '--address', '10.9.0.2/24', '--vlan', vlan_b,
                              '--peer', '10.9.0.1', '--count', 200 if received else 1, '--bytes', 1400)
                self.assertEqual(received, client.figures()['workers'][0]['received'])
                counted = drops(server.stop())
                self.assertEqual(received == 0, counted.get('vlan_other', 0) > 0, counted)


def ip_checksum(data):
    total = sum(struct.unpack(f'>{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(protocol, body, fragment=0, destination='10.9.0.2', total=None, source='10.9.0.1'):
    head = struct.pack('>BBHHHBBH4s4s', 0x45, 0, total or 20 + len(body), 1, fragment, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(destination))
    return head[:10] + struct.pack('>H', ip_checksum(head)) + head[12:] + body


def broken_frames(mac):
    """(reason, frame) of each kind."""
    to, source = bytes.fromhex(mac.replace(':', '')), bytes.fromhex('020000000001')

    def eth(kind, body, tags=b'', destination=to, from_mac=source):
        return destination + from_mac + tags + struct.pack('>H', kind) + body
    udp = struct.pack('>HHHH', 1000, 9999, 12, 0) + b'abcd'
    bad_sum = struct.pack('>HHHH', 1000, 7, 12, 0x1234) + b'abcd'
    echo = struct.pack('>BBHHH', 8, 0, 0x1111, 1, 1) + b'x' * 40
    good = ipv4(17, udp)
    tag = bytes.fromhex('81000005')
    v6 = bytes.fromhex('60000000') + struct.pack('>HBB', 8, 44, 64) + bytes(15) + b'\1' + bytes.fromhex(
        'fd090000000000000000000000000002') + bytes(8)
    yield 'eth_type', eth(0x88CC, bytes(46))
    yield 'vlan_other', eth(0x0800, good, tag)
    yield 'vlan_stacked', eth(0x0800, good, bytes.fromhex('88a80001') + tag)
    yield 'vlan_stacked', eth(0x0800, good, tag * 3)
    yield 'mac_other', eth(0x0800, good, destination=bytes.fromhex('020000000099'))
    yield 'ip_header', eth(0x0800, b'\x65' + good[1:])
    yield 'ip_length', eth(0x0800, ipv4(17, udp, total=1400))
    yield 'ip_checksum', eth(0x0800, good[:10] + b'\0\0' + good[12:])
    yield 'ip_fragment', eth(0x0800, ipv4(17, udp, fragment=0x2000))
    yield 'ip_fragment', eth(0x0800, ipv4(17, udp, fragment=0x0010))
    yield 'ip_fragment', eth(0x86DD, v6)
    yield 'ip_extension', eth(0x86DD, v6[:6] + b'\0' + v6[7:])
    yield 'ip_other', eth(0x0800, ipv4(17, udp, destination='10.9.0.9'))
    yield 'ip_source', eth(0x0800, ipv4(17, udp, source='10.9.0.2'))
    yield 'ip_source', eth(0x0800, ipv4(17, udp, source='224.0.0.1'))
    yield 'ip_protocol', eth(0x0800, ipv4(6, bytes(20)))
    yield 'udp_port', eth(0x0800, good)
    yield 'udp_length', eth(0x0800, ipv4(17, struct.pack('>HHHH', 1, 7, 999, 0)))
    yield 'udp_checksum', eth(0x0800, ipv4(17, bad_sum))
    yield 'icmp_checksum', eth(0x0800, ipv4(1, echo))
    yield 'arp_format', eth(0x0806, bytes(28))
    yield 'truncated', eth(0x0806, bytes(10))
    yield 'truncated', eth(0x0800, b'\x45\0')


BROKEN_COUNTS = {}
for _reason, _ in broken_frames('02:00:00:00:00:02'):
    BROKEN_COUNTS[_reason] = BROKEN_COUNTS.get(_reason, 0) + 1


def send_broken(mac):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind(('rail0', 0))
        for _, frame in broken_frames(mac):
            raw.send(frame)


class Memif(unittest.TestCase):
    """Two processes of ours."""

    def exchange(self, net, mtu, workers, payload, count, mode='serve', options=(), server_options=()):
        node = net.node(f'memif{len(net.nodes)}')
        device = f'memif,socket={net.folder}/{len(net.nodes)}.sock'
        server = Port(node, mode, device + ',role=server', '--address', '10.8.0.1/24', *server_options, mtu=mtu,
                      workers=workers)
        client = Port(node, 'generate', device + ',role=client', '--address', '10.8.0.2/24', '--peer', '10.8.0.1',
                      '--bytes', payload, '--count', count, *options, mtu=mtu, workers=workers)
        sent = client.figures(timeout=60)
        server.program.wait_for('^link down', 30)
        return sent, server.stop()

    def all_back(self, figures, count):
        for worker in figures['workers']:
            self.assertEqual((count, 0), (worker['received'], worker['lost']), worker)

    def test_one_and_four_workers(self):
        with netns.Topology() as net:
            for workers, count in ((1, 20000), (4, 3000)):
                sent, echoed = self.exchange(net, 1500, workers, 1400, count)
                self.all_back(sent, count)
                self.assertEqual(workers * count, sum(w['received'] for w in echoed['workers']))

    def test_jumbo(self):
        with netns.Topology() as net:
            sent, _ = self.exchange(net, 9000, 1, 8900, 10000)
            self.all_back(sent, 10000)

    def test_receiver_that_holds_cannot_starve_the_port(self):
        """It wants to hold more packets than there are: what goes beyond three quarters is copied, all arrive."""
        with netns.Topology() as net:
            sent, held = self.exchange(net, 1500, 1, 1400, 20000, mode='hold', options=['--flood-only'],
                                       server_options=['--hold', 100000, '--in-flight', 300])
            worker, queue = held['workers'][0], held['port']['queues'][0]
            self.assertEqual(20000, worker['received'])
            self.assertGreater(worker['copied'], 10000)
            self.assertLessEqual(worker['held_max'], 300)
            self.assertEqual(300, queue['pool_held_max'])
            self.assertEqual(20000, sent['workers'][0]['sent'])

    def test_hugepages(self):
        """The same with huge pages, where the machine lets us have some; they go back afterwards."""
        file = pathlib.Path('/proc/sys/vm/nr_hugepages')
        before = file.read_text()
        try:
            with contextlib.suppress(OSError):
                file.write_text(str(int(before) + 128))
            if int(file.read_text()) < int(before) + 128:
                netns.skip('no huge pages to be had here')
            with netns.Topology() as net:
                sent, _ = self.exchange(net, 1500, 1, 1400, 10000)
                self.all_back(sent, 10000)
        finally:
            with contextlib.suppress(OSError):
                file.write_text(before)


class Refused(unittest.TestCase):
    """What cannot be is refused with the reason and the number."""

    def refused(self, *options):
        with netns.Topology() as net:
            output = net.node('a').run([PERF, 'wire', 'serve', *options], timeout=20, status=1)
            answer = json.loads(output.strip().splitlines()[-1])
            return f'{answer["error"]}: {answer.get("detail", "")}'

    def test_limits(self):
        self.assertIn('one frame must fit into one page', self.refused('--device', 'af_xdp,iface=lo', '--mtu', 9000))
        self.assertIn('the limit is 3498', self.refused('--device', 'af_xdp,iface=lo', '--mtu', 9000))
        self.assertIn('the limit is 1500', self.refused('--device', 'tap', '--mtu', 9000))
        self.assertIn('the MTU is above 16000', self.refused('--device', 'null', '--mtu', 20000))
        self.assertIn('no interface of this name', self.refused('--device', 'af_packet,iface=none'))
        self.assertIn('iface=NAME', self.refused('--device', 'af_packet'))
        self.assertIn('a device is a PCI address', self.refused('--device', 'eth0'))
        self.assertIn('below 576', self.refused('--device', 'null', '--mtu', 100))

    def test_memory_sum(self):
        said = self.refused('--device', 'null', '--memory-mb', 32, '--rx-depth', 32768)
        self.assertRegex(said, r'1 queues x \(32768 receive queue \+ 512 send queue \+ .* in flight \+ \d+ kept free: '
                               r'a quarter = \d+ buffers\) x 2304 bytes \+ .* = \d+ MiB; free now, with 0 queues made')


if __name__ == '__main__':
    if '--send-broken' in sys.argv:
        send_broken(sys.argv[-1])
        sys.exit(0)
    if not pathlib.Path(PERF).exists():
        sys.exit(f'ULNET_PERF={PERF}: not built')
    REASON = netns.why_not()
    if REASON:
        netns.skip(REASON)
    unittest.main()
