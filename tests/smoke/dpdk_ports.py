"""Drops, captures and refusals of packet ports, in network namespaces.

Run one by name: dpdk_ports.py Frames.test_reasons
"""
import json
import os
import shutil
import socket
import struct
import sys
import unittest

import netns
from wire import PERF, Port, drops, main, quiet


class Frames(unittest.TestCase):
    """Broken frames from a raw socket: each is counted by its reason, and none harms."""

    def test_reasons(self):
        with netns.Topology() as net:
            kernel = net.node('kernel')  # tap: the kernel would put fragments together for AF_PACKET
            quiet(kernel)
            its = Port(kernel, 'serve', 'tap,iface=rail0', '--address', '10.9.0.2/24', '--address', 'fd09::2/64')
            kernel.run([sys.executable, __file__, '--send-broken', its.mac], timeout=60)
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
                kernel.run(['ping', '-q', '-c', '10', '-i', '0.01', '10.9.0.2'], timeout=30)
                kernel.run([sys.executable, __file__, '--send-broken', its.mac], timeout=60)
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
                                  'no such thing'], timeout=60, status=1)
            self.assertIn('libpcap refuses the filter', refused)

    def test_vlan(self):
        """Two ports in one VLAN talk, with the longest frames too. A port drops and counts frames of another VLAN."""
        with netns.Topology() as net:
            a, b = net.node('a'), net.node('b')
            quiet(a)
            quiet(b)
            net.link(a, None, b, None, mtu=9000)
            for vlan_b, mtu, received in ((5, 1500, 200), (5, 9000, 200), (6, 1500, 0)):
                server = Port(a, 'serve', 'af_packet,iface=veth0', '--address', '10.9.0.1/24', '--vlan', 5, mtu=mtu)
                client = Port(b, 'ping', 'af_packet,iface=veth0', '--address', '10.9.0.2/24', '--vlan', vlan_b,
                              '--peer', '10.9.0.1', '--count', 200 if received else 1, '--bytes', mtu - 28, mtu=mtu)
                self.assertEqual(received, client.figures()['workers'][0]['received'])
                counted = drops(server.stop())
                self.assertEqual(received == 0, counted.get('vlan_other', 0) > 0, counted)

    def test_priority(self):
        """All frames of a port have its priority, in its VLAN or in none. A capture has the first of them, too."""
        if shutil.which('tshark') is None:
            netns.skip('no tshark')
        with netns.Topology() as net:
            a, b = net.node('a'), net.node('b')
            quiet(a)
            quiet(b)
            net.link(a, None, b, None, mtu=1500)
            for vlan in (5, 0):
                capture = net.folder / f'{vlan}.pcapng'
                server = Port(a, 'serve', 'af_packet,iface=veth0', '--address', '10.9.0.1/24', '--vlan', vlan)
                client = Port(b, 'ping', 'af_packet,iface=veth0', '--address', '10.9.0.2/24', '--vlan', vlan,
                              '--pcp', 3, '--peer', '10.9.0.1', '--count', 20, '--capture', capture)
                figures = client.figures()
                self.assertEqual(20, figures['workers'][0]['received'])
                self.assertEqual((vlan, 3), (figures['port']['vlan'], figures['port']['pcp']))
                server.stop()
                seen = b.run(['tshark', '-n', '-r', capture, '-Y', 'arp.opcode == 1 || icmp.type == 8', '-T', 'fields',
                              '-e', 'vlan.priority', '-e', 'vlan.id'], timeout=30)
                tags = [line for line in seen.splitlines() if '\t' in line]  # not its words about root
                self.assertEqual({f'3\t{vlan}'}, set(tags))
                self.assertGreaterEqual(len(tags), 21, 'a question for the address, and all requests')

    def test_pcap(self):
        """Frames from a file: answers to requests go into another file, wrong frames are counted."""
        with netns.Topology() as net:
            own = bytes.fromhex('020000000002')
            asker = bytes.fromhex('020000000001')
            echoes = [struct.pack('>BBHHH', 8, 0, 0, 7, i) + os.urandom(size)
                      for i, size in enumerate((0, 56, 1472, 8972))]
            echoes = [echo[:2] + struct.pack('>H', ip_checksum(echo)) + echo[4:] for echo in echoes]
            asked = [own + asker + struct.pack('>H', 0x0800) + ipv4(1, echo) for echo in echoes]
            others = [frame for _, frame in broken_frames('02:00:00:00:00:02')]
            source, target = net.folder / 'in.pcap', net.folder / 'out.pcap'
            pcap_write(source, asked + others)
            its = Port(net.node('files'), 'serve', f'pcap,rx_pcap={source},tx_pcap={target}', '--mac',
                       '02:00:00:00:00:02', '--address', '10.9.0.2/24', '--address', 'fd09::2/64', mtu=9000, seconds=2)
            counted = drops(its.figures())
            for reason, count in BROKEN_COUNTS.items():
                self.assertEqual(count, counted.get(reason, 0), f'{reason} of {counted}')
            answered = [frame for frame in pcap_read(target) if frame[12:14] == b'\x08\x00']
            self.assertEqual([echo[4:] for echo in echoes], [frame[38:] for frame in answered])
            for frame in answered:
                self.assertEqual(asker + own, frame[:12])
                self.assertEqual(0, ip_checksum(frame[34:] + bytes(len(frame) % 2)))


def pcap_write(path, frames):
    head = struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(head + b''.join(struct.pack('<IIII', 0, 0, len(frame), len(frame)) + frame for frame in frames))


def pcap_read(path):
    data, at, frames = path.read_bytes(), 24, []
    while at < len(data):
        size = struct.unpack_from('<I', data, at + 8)[0]
        frames.append(data[at + 16:at + 16 + size])
        at += 16 + size
    return frames


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
    """Ends when the port has taken all frames: the port answers an ARP request that comes after them."""
    arp = 0x0806
    own = bytes.fromhex('020000000077')
    question = (bytes.fromhex(mac.replace(':', '')) + own + struct.pack('>HHHBBH', arp, 1, 0x0800, 6, 4, 1) + own
                + socket.inet_aton('10.9.0.77') + bytes(6) + socket.inet_aton('10.9.0.2') + bytes(18))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(arp)) as raw:
        raw.bind(('rail0', arp))
        for _, frame in broken_frames(mac):
            raw.send(frame)
        raw.send(question)
        raw.settimeout(30)
        while (answer := raw.recv(2000))[:6] != own or answer[20:22] != b'\0\2':
            pass


class Refused(unittest.TestCase):
    """Impossible options are refused with the reason and the number."""

    def refused(self, *options):
        with netns.Topology() as net:
            output = net.node('a').run([PERF, 'wire', 'serve', *options], timeout=60, status=1)
            answer = json.loads(output.strip().splitlines()[-1])
            return answer['error']

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

    def test_more_memory_than_there_is(self):
        """Refused before anything is taken, with the sum of all ports."""
        said = self.refused('--device', 'null', '--in-flight', 100000000)
        self.assertIn('packet buffers would take more memory than this machine can give them', said)
        self.assertRegex(said, r'port port0: 1 queues x .* 100000000 in flight .* and a quarter to spare: \d{6} MiB')


if __name__ == '__main__':
    if '--send-broken' in sys.argv:
        send_broken(sys.argv[-1])
        sys.exit(0)
    main()
