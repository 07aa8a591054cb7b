#!/usr/bin/env python3
"""Captures all frames of an interface into a pcap file, and reads such files.

    capture.py INTERFACE FILE       prints "capturing", then captures until SIGTERM

The program demands that the kernel has dropped no frame: a capture that is not whole ends with status 1. As a module,
the file has a reader of frames and a decoder of RoCEv2 headers.
"""
import collections
import select
import signal
import socket
import struct
import sys
import time

LINKTYPE_ETHERNET = 1
SNAP_BYTES = 65535
ETH_P_ALL, ETH_P_IPV4, ETH_P_IPV6 = 3, 0x0800, 0x86dd
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_STATISTICS, PACKET_MR_PROMISC = 263, 1, 6, 1
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 256 << 20
ROCE_PORT = 4791
HEADER = struct.Struct('<IHHiIII')
RECORD = struct.Struct('<IIII')

# One RoCEv2 packet: bytes of opcode and destination queue pair of its BTH, length of the whole frame.
Roce = collections.namedtuple('Roce', 'source destination opcode queue_pair psn frame_bytes')


def frames(data):
    """The frames of the bytes of a pcap file, in order."""
    magic, *_, linktype = HEADER.unpack_from(data)
    if magic != 0xa1b2c3d4 or linktype != LINKTYPE_ETHERNET:
        raise ValueError(f'not a pcap file of Ethernet frames: {magic:#x} {linktype}')
    offset = HEADER.size
    while offset + RECORD.size <= len(data):
        _, _, kept, _ = RECORD.unpack_from(data, offset)
        offset += RECORD.size
        yield data[offset:offset + kept]
        offset += kept


def udp_of(frame):
    """(source address, destination address, destination port, payload) of a UDP frame; None for all others."""
    kind, = struct.unpack_from('>H', frame, 12)
    if kind == ETH_P_IPV4 and frame[23] == socket.IPPROTO_UDP:
        udp = 14 + 4 * (frame[14] & 15)
        source, destination = frame[26:30], frame[30:34]
        family = socket.AF_INET
    elif kind == ETH_P_IPV6 and frame[20] == socket.IPPROTO_UDP:
        udp, family = 54, socket.AF_INET6
        source, destination = frame[22:38], frame[38:54]
    else:
        return None
    port, = struct.unpack_from('>H', frame, udp + 2)
    return socket.inet_ntop(family, source), socket.inet_ntop(family, destination), port, frame[udp + 8:]


def roce_packets(data):
    """All RoCEv2 packets of the bytes of a pcap file."""
    for frame in frames(data):
        udp = udp_of(frame)
        if udp and udp[2] == ROCE_PORT and len(udp[3]) >= 12:
            opcode, _, _, queue_pair, psn = struct.unpack_from('>BBHII', udp[3])
            yield Roce(udp[0], udp[1], opcode, queue_pair & 0xffffff, psn & 0xffffff, len(frame))


def write_frame(stream, seconds, frame):
    stream.write(RECORD.pack(int(seconds), int(seconds % 1 * 1e6), len(frame), len(frame)) + frame)


def write_header(stream):
    stream.write(HEADER.pack(0xa1b2c3d4, 2, 4, 0, 0, SNAP_BYTES, LINKTYPE_ETHERNET))


def capture(interface, path):
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # receives from bind() on
    packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    packets.bind((interface, ETH_P_ALL))
    packets.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP,
                       struct.pack('IHH8s', socket.if_nametoindex(interface), PACKET_MR_PROMISC, 0, b''))
    packets.setblocking(False)
    ending, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    with open(path, 'wb') as stream:
        write_header(stream)
        print('capturing', flush=True)
        while True:
            readable, _, _ = select.select([packets, ending], [], [])
            try:
                while True:  # the frames in the socket's buffer are captured before the end, too
                    write_frame(stream, time.time(), packets.recv(SNAP_BYTES))
            except BlockingIOError:
                stream.flush()
            if ending in readable:
                break
    _, dropped = struct.unpack('II', packets.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    if dropped:
        print(f'{dropped} frames were not captured', flush=True)
    return 1 if dropped else 0


if __name__ == '__main__':
    sys.exit(capture(*sys.argv[1:]))
