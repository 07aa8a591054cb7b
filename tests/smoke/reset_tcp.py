#!/usr/bin/env python3
"""Ends TCP connections of LNet (port 988) that carry traffic on one interface, by forged segments to the other side:
RST (default) or FIN. Run inside a network namespace of a test. Prints how many segments it sent.
Usage: reset_tcp.py INTERFACE SECONDS [rst|fin [PAUSE]]. With PAUSE, the program waits PAUSE seconds after each segment.
Without PAUSE, it sends at most 200.
"""
import socket
import struct
import sys
import time

PORT = 988
PACKET_HOST = 0
FLAGS = {'rst': 0x14, 'fin': 0x11}  # with ACK


def checksum(data):
    if len(data) % 2:
        data += b'\0'
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def parse(frame):
    """(frame's Ethernet header, addresses, ports, seq, ack, payload length) of a TCP/IPv4 frame, else None."""
    if len(frame) < 54 or frame[12:14] != b'\x08\x00' or frame[23] != 6:
        return None
    ip_bytes = (frame[14] & 0xF) * 4
    total = struct.unpack('!H', frame[16:18])[0]
    tcp = frame[14 + ip_bytes:]
    source, dest, seq, ack = struct.unpack('!HHII', tcp[:12])
    flags = tcp[13]
    if PORT not in (source, dest) or not flags & 0x10 or flags & 0x07:
        return None
    return frame[:12], frame[26:30], frame[30:34], source, dest, seq, ack, total - ip_bytes - (tcp[12] >> 4) * 4


def forge(parsed, flags):
    """The RST or FIN that the receiver of this segment would have sent."""
    ethernet, source_ip, dest_ip, source, dest, seq, ack, length = parsed
    tcp = struct.pack('!HHIIBBHHH', dest, source, ack, (seq + length) & 0xFFFFFFFF, 5 << 4, flags, 64, 0, 0)
    pseudo = dest_ip + source_ip + struct.pack('!BBH', 0, 6, len(tcp))
    tcp = tcp[:16] + struct.pack('!H', checksum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, dest_ip, source_ip)
    ip = ip[:10] + struct.pack('!H', checksum(ip)) + ip[12:]
    return ethernet[6:12] + ethernet[0:6] + b'\x08\x00' + ip + tcp


def listen(interface):
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    packet.bind((interface, 0x0800))
    packet.settimeout(0.1)
    return packet


def main():
    interface, seconds = sys.argv[1], float(sys.argv[2])
    flags = FLAGS[sys.argv[3] if len(sys.argv) > 3 else 'rst']
    pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    packet = listen(interface)
    end = time.monotonic() + seconds
    sent = 0
    while time.monotonic() < end and (pause > 0 or sent < 200):
        try:
            frame, address = packet.recvfrom(65536)
        except socket.timeout:
            continue
        parsed = parse(frame) if address[2] == PACKET_HOST else None
        if parsed:
            packet.send(forge(parsed, flags))
            sent += 1
            if pause > 0:
                packet.close()  # frames that come meanwhile are stale
                time.sleep(pause)
                packet = listen(interface)
    print(f'{sent} segments sent')


if __name__ == '__main__':
    main()
