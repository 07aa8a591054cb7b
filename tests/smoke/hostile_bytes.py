"""Attacks with bytes and connections, for hostile_peer.py: broken frames and HELLOs, messages that lead nowhere, many
connections, much traffic. Each is a function (victim, own addresses, count) that keeps itself up until it is killed.
Wire formats: docs/wire/socklnd.md §2.1, §3.2; docs/wire/lnet.md §2, §4.
"""
import contextlib
import itertools
import os
import random
import socket
import struct
import threading
import time

from hostile_peer import (NO_HANDLE, PERF_PORTAL, PERF_SINK, PERF_SOURCE, PID, PING_BITS, PING_PORTAL, PORT, PUT, REPLY,
                          connect, dial, frame, get, hello, hold, nid, on, receive)

ACK = 0
FULL_AFTER = 30  # rounds after which an attack that repeats itself is in full effect


def reset(link):
    """Closes at once and leaves no port in TIME_WAIT."""
    with contextlib.suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    link.close()


def again_and_again(own, act):
    """Calls act(own address, round) for ever. The victim may refuse or close any of the connections."""
    random.seed(7)
    for turn in itertools.count():
        with contextlib.suppress(OSError):
            link = act(own[turn % len(own)], turn)
            if link is not None:
                reset(link)
        if turn == FULL_AFTER:
            on()


def put(victim, own, portal, bits, payload, length=None, handle=NO_HANDLE):
    body = handle + struct.pack('<QQII', bits, 0, portal, 0)
    return frame(victim, own, PUT, len(payload) if length is None else length, body) + payload


def drain(link):
    """Reads and discards all bytes, in the background."""
    def read():
        with contextlib.suppress(OSError):
            while link.recv(1 << 20):
                pass
    threading.Thread(target=read, daemon=True).start()


def send_for_ever(victim, own, data):
    """Sends `data` again and again, and reads what comes. A connection that the victim closes is made again."""
    link = None
    for turn in itertools.count():
        try:
            if link is None:
                link = connect(own, victim)
                link.settimeout(None)
                drain(link)
            link.sendall(data)
        except OSError:
            if link is not None:
                reset(link)
            link = None
        if turn == 3:
            on()


# --- Broken bytes ----------------------------------------------------------------------------------------------------

def random_bytes(victim, own, _count):
    def act(address, _turn):
        link = dial(address, victim)
        link.sendall(random.randbytes(4096))
        return link
    again_and_again(own, act)


def half_hellos(victim, own, count):
    links = []
    for number in range(count):
        address = own[number % len(own)]
        links.append(dial(address, victim))
        links[-1].sendall(hello(address, victim, 1, time.time_ns())[:40])
    on()
    hold()


def garbage_after_hello(victim, own, _count):
    def act(address, _turn):
        link = connect(address, victim)
        link.sendall(random.randbytes(512))
        with contextlib.suppress(socket.timeout):
            link.settimeout(1)
            while link.recv(4096):
                pass
        return link
    again_and_again(own, act)


# offset into connection request and HELLO, and what stands there
WRONG = [(0, 0xDEADBEEF), (4, 99), (8, 1), (16, 0xDEADBEEF), (20, 99), (32, 1), (64, 77), (68, 100000),
         (68, 0xFFFFFFFF)]


def bad_hellos(victim, own, _count):
    def act(address, turn):
        offset, value = WRONG[turn % len(WRONG)]
        data = bytearray(hello(address, victim, 1, time.time_ns()))
        struct.pack_into('<I', data, offset, value)
        link = dial(address, victim)
        link.sendall(data)
        return link
    again_and_again(own, act)


def other_hellos(victim, own, _count):
    """HELLOs of other versions, and in the other byte order; then a message as if the HELLO had been good."""
    def act(address, turn):
        version, order = ((1, '<'), (2, '<'), (3, '>'), (4, '<'), (4, '>'), (5, '<'), (1, '>'), (2, '>'))[turn % 8]
        link = dial(address, victim)
        link.sendall(struct.pack(order + 'IIQ', 0xACCE7100, 1, nid(victim)) +
                     struct.pack(order + 'IIQQIIQQII', 0x45726963, version, nid(address), nid(victim), PID, 0,
                                 time.time_ns(), 0, 1 + turn % 3, 0) + b'\0' * (turn % 2 * 40))
        link.settimeout(0.1)
        with contextlib.suppress(socket.timeout):
            link.recv(4096)
        link.sendall(put(victim, address, PERF_PORTAL, PERF_SINK, bytes(turn % 512)))
        with contextlib.suppress(socket.timeout):
            link.recv(4096)
        return link
    again_and_again(own, act)


def tiny_fragments(victim, own, _count):
    """PUTs of 64 bytes over a few connections, three bytes in each segment."""
    links = [connect(address, victim, incarnation=time.time_ns()) for address in own]
    message = {link: put(victim, address, PERF_PORTAL, PERF_SINK, bytes(64)) for link, address in zip(links, own)}
    for link in links:
        link.settimeout(None)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        drain(link)
    on()
    while True:
        for begin in range(0, 160, 3):
            for link in links:
                link.sendall(message[link][begin:begin + 3])


def byte_at_a_time(victim, own, count):
    """HELLO and a PUT, one byte after the other, over many connections."""
    links = [(dial(address, victim), hello(address, victim, 1, time.time_ns()) + put(
        victim, address, PERF_PORTAL, PERF_SOURCE, bytes(64))) for address in itertools.islice(
            itertools.cycle(own), count)]
    for link, _ in links:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    on()
    for turn in itertools.count():
        for link, data in links:
            with contextlib.suppress(OSError):
                link.send(data[turn % len(data):turn % len(data) + 1])
        time.sleep(0.01)


def claims_and_never_sends(victim, own, count):
    """PUTs that announce 1 MiB which never comes."""
    links = []
    for number in range(count):
        links.append(connect_as_other(victim, own[number % len(own)], number))
        links[-1].sendall(put(victim, other(number), PERF_PORTAL, PERF_SOURCE, b'', 1 << 20))
    on()
    hold()


def unknown_cookies(victim, own, _count):
    """Acknowledges zero-copy cookies, single ones and ranges, that were never given out."""
    def act(address, turn):
        link = connect(address, victim)
        low, high = ((0, 777), (2, 1 << 60), (1 << 63, 5), (5, 5))[turn % 4]
        link.sendall(struct.pack('<IIQQ', 0xC0, 0, low, high))
        with contextlib.suppress(socket.timeout):
            link.settimeout(0.2)
            while link.recv(4096):
                pass
        return link
    again_and_again(own, act)


# --- Connections -----------------------------------------------------------------------------------------------------

def many_nids(victim, own, _count):
    """HELLOs in the names of ever other NIDs."""
    again_and_again(own, lambda address, turn: connect_as_other(victim, address, turn))


def other(number):
    """The address of a node that is not there."""
    return f'10.{80 + number // 60000 % 100}.{number // 250 % 240}.{number % 250 + 1}'


def connect_as_other(victim, own, number):
    """A connection and HELLO in the name of such a node."""
    link = dial(own, victim)
    link.sendall(hello(other(number), victim, 1, time.time_ns()))
    link.recv(56)
    return link


def half_open_flood(victim, own, _count):
    """Connections with half a HELLO without end, the last few hundred of them open."""
    links = []

    def act(address, turn):
        links.append(dial(address, victim))
        links[-1].sendall(hello(address, victim, 1, time.time_ns())[:1 + turn % 70])
        return links.pop(0) if len(links) > 800 else None
    again_and_again(own, act)


def silent(victim, own, count):
    links = [dial(own[number % len(own)], victim) for number in range(count)]
    on()
    hold()
    del links


def silent_after_hello(victim, own, count):
    links = []
    for number in range(count):
        with contextlib.suppress(OSError):
            links.append(connect_as_other(victim, own[number % len(own)], number))
    on()
    hold()


def connection_storm(victim, own, _count):
    """Connections that are closed at once, from privileged ports and from others."""
    def act(address, turn):
        if turn % 2 == 0:
            return dial(address, victim)
        link = socket.socket()
        link.settimeout(30)
        link.bind((address, 0))
        link.connect((victim, PORT))
        return link
    again_and_again(own, act)


# --- Traffic ---------------------------------------------------------------------------------------------------------

def ping_flood(victim, own, _count):
    send_for_ever(victim, own[0], get(victim, own[0], PING_PORTAL, PING_BITS, 512) * 100)


def wrong_targets(victim, own, _count):
    """Portals, match bits, offsets and handles that are not there."""
    messages = [get(victim, own[0], portal, bits, 512) for portal, bits in ((5, 1), (64, 1), (1 << 31, 1), (63, 42))]
    messages += [put(victim, own[0], portal, bits, b'x' * 64) for portal, bits in ((5, 1), (64, 1), (63, 42), (0, 1))]
    handle = struct.pack('<QQ', 99, 12345)
    messages.append(frame(victim, own[0], ACK, 0, handle + struct.pack('<QI', 1, 64)))
    messages.append(frame(victim, own[0], REPLY, 64, handle) + b'y' * 64)
    send_for_ever(victim, own[0], b''.join(messages) * 20)


def closed_portal(victim, own, _count):
    """1 MiB for a portal that is closed, and for match bits without a match entry."""
    send_for_ever(victim, own[0], put(victim, own[0], 5, 1, b'x' * (1 << 20)) +
                  put(victim, own[0], PERF_PORTAL, 42, b'x' * (1 << 20)))


def odd_lengths(victim, own, _count):
    """GETs with sinks that no node has, pings cut anywhere, pushes that end in the midst of an entry."""
    lengths = (0, 1, 15, 16, 17, 31, 33, 48, (1 << 20) + 1, 1 << 24, 1 << 31, 0xFFFFFFFF)
    messages = [get(victim, own[0], portal, bits, length) for length in lengths
                for portal, bits in ((PERF_PORTAL, PERF_SOURCE), (PING_PORTAL, PING_BITS))]
    info = struct.pack('<IIII', 0x70696E67, 0x1E, PID, 3) + struct.pack('<QII', nid(own[0]), 0x15AAC0DE, 0) * 3
    messages += [put(victim, own[0], PING_PORTAL, PING_BITS, info[:length], handle=os.urandom(16))
                 for length in range(0, len(info), 3)]
    send_for_ever(victim, own[0], b''.join(messages))


def to_nowhere(victim, own, _count):
    """Messages for other nodes and nets, although the victim does not route."""
    messages = b''
    for net, host in ((2 << 16, '10.77.9.9'), (2 << 16 | 1, '10.1.1.1'), (5 << 16, '10.1.1.1')):
        one = bytearray(put(victim, own[0], PERF_PORTAL, PERF_SOURCE, b'z' * 64))
        struct.pack_into('<Q', one, 24, net << 32 | struct.unpack('!I', socket.inet_aton(host))[0])
        messages += one
    send_for_ever(victim, own[0], messages * 40)


def push_flood(victim, own, _count):
    """Pushes that name thousands of NIDs, or lie about their number."""
    sequence = itertools.count(2)

    def act(address, turn):
        nids = [f'10.{60 + turn % 20}.{index // 250}.{index % 250 + 1}' for index in range((1, 100, 4000)[turn % 3])]
        entries = struct.pack('<QII', 9 << 48, next(sequence), 0) + b''.join(
            struct.pack('<QII', nid(one), 0x15AAC0DE, 0) for one in [address] + nids)
        claimed = len(nids) + 2 if turn % 4 else 1 << 20
        info = struct.pack('<IIII', 0x70696E67, 0x1E, PID, claimed) + entries
        link = connect(address, victim)
        link.sendall(put(victim, address, PING_PORTAL, PING_BITS, info, handle=os.urandom(16)))
        link.settimeout(1)
        with contextlib.suppress(socket.timeout):
            receive(link, 24)
        return link
    again_and_again(own, act)


def push_as_client(victim, own, _count):
    """Pushes in the name of clients that are at work: their NIDs, and some NIDs without a node."""
    sequence = itertools.count(1 << 20)

    def act(address, turn):
        client = f'10.77.0.{2 + turn % 2}'
        entries = struct.pack('<QII', 9 << 48, next(sequence), 0) + b''.join(
            struct.pack('<QII', nid(one), 0x15AAC0DE, 0) for one in (client, f'10.66.{turn % 250}.1', address))
        info = struct.pack('<IIII', 0x70696E67, 0x1E, PID, 4) + entries
        link = connect(address, victim)
        link.sendall(put(victim, client, PING_PORTAL, PING_BITS, info, handle=os.urandom(16)))
        link.settimeout(0.1)
        with contextlib.suppress(socket.timeout):
            receive(link, 24)
        return link
    again_and_again(own, act)


def impostor(victim, own, _count):
    """HELLOs in the name of a client that is at work, each a later life of it."""
    def act(address, _turn):
        link = dial(address, victim)
        link.sendall(hello('10.77.0.2', victim, 1, time.time_ns()))
        link.recv(56)
        time.sleep(0.02)
        return link
    again_and_again(own, act)


ATTACKS = {name: function for name, function in globals().items() if name in (
    'random_bytes', 'half_hellos', 'garbage_after_hello', 'bad_hellos', 'byte_at_a_time', 'claims_and_never_sends',
    'unknown_cookies', 'many_nids', 'silent', 'silent_after_hello', 'connection_storm', 'ping_flood', 'wrong_targets',
    'to_nowhere', 'push_flood', 'impostor', 'other_hellos', 'tiny_fragments', 'half_open_flood', 'closed_portal',
    'odd_lengths', 'push_as_client')}
