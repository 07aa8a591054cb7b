#!/usr/bin/env python3
"""A peer that speaks LNet over TCP and means no good; or, as `probe`, one that means well. Run inside a network
namespace of a test (hostile.py): hostile_peer.py ATTACK VICTIM OWN_ADDRESS[,OWN_ADDRESS...] [COUNT].

An attack prints `attack: on` when it is in full effect, then keeps it up until SIGTERM ends it. An attack is one
function with a line in ATTACKS, here, in hostile_bytes.py or in hostile_hops.py. An address may have a net: A@tcp1.
Needs Python's standard library and ports below 1024 only.
Wire formats: docs/wire/socklnd.md §1.2, §2.1, §3.2; docs/wire/lnet.md §2.
"""
import errno
import json
import os
import re
import select
import signal
import socket
import struct
import sys
import time

PORT = 988
PID = 12345
PUT, GET, REPLY = 1, 2, 3
CONTROL, BULK_IN, BULK_OUT = 1, 2, 3
PING_PORTAL, PING_BITS = 0, 1 << 63
PERF_PORTAL, PERF_SINK, PERF_SOURCE = 63, 0x756C6E657453494E, 0x756C6E6574535243  # docs/ulnet-perf.md, "The target"
NO_HANDLE = b'\xff' * 16


def nid(name):
    """The number of ADDRESS@tcp; or of ADDRESS@tcpN, or @o2ibN, where the net is said."""
    address, _, net = name.partition('@')
    kind, number = re.fullmatch(r'(tcp|o2ib)(\d*)', net or 'tcp').groups()
    return (2 if kind == 'tcp' else 5) << 48 | int(number or 0) << 32 | host(address)


def host(address):
    return struct.unpack('!I', socket.inet_aton(address.partition('@')[0]))[0]


def hello(own, victim, ctype, incarnation):
    """Connection request and HELLO, as the dialling side sends them."""
    return (struct.pack('<IIQ', 0xACCE7100, 1, nid(victim)) +
            struct.pack('<IIQQIIQQII', 0x45726963, 3, nid(own), nid(victim), PID, 0, incarnation, 0, ctype, 0))


def frame(victim, source, kind, payload_length, body):
    """ksock header and LNet header of one message without a zero-copy cookie."""
    return (struct.pack('<IIQQ', 0xC1, 0, 0, 0) +
            struct.pack('<QQIIII', nid(victim), nid(source), PID, PID, kind, payload_length) + body.ljust(40, b'\0'))


def get(victim, source, portal, bits, length, cookie=7):
    return frame(victim, source, GET, 0, struct.pack('<QQQIII', 99, cookie, bits, portal, 0, length))


PORTS = range(1023, 512, -1)
_next_port = {}  # address: where in PORTS to look first


def dial(own, victim, receive_buffer=None):
    """A TCP connection from a port below 1024."""
    own, victim = own.partition('@')[0], victim.partition('@')[0]
    first = _next_port.get(own, 0)
    for index in range(first, first + len(PORTS)):
        port = PORTS[index % len(PORTS)]
        _next_port[own] = index + 1
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        link.settimeout(30)
        try:
            link.bind((own, port))
            link.connect((victim, PORT))
            return link
        except OSError as error:
            link.close()
            if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                raise
    raise OSError(errno.EADDRINUSE, 'no port below 1024 is free')


def connect(own, victim, ctype=CONTROL, receive_buffer=None, incarnation=None):
    """A connection on which both sides have sent HELLO. After the answer NONE, tries again on a new connection."""
    for _ in range(100):
        link = dial(own, victim, receive_buffer)
        link.sendall(hello(own, victim, ctype, incarnation or time.time_ns()))
        if struct.unpack('<I', receive(link, 56)[48:52])[0] != 0xFFFFFFFF:
            return link
        link.close()
        time.sleep(0.1)
    raise ConnectionRefusedError(errno.ECONNREFUSED, 'each HELLO was answered with NONE')


def receive(link, count):
    data = b''
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            raise ConnectionResetError(errno.ECONNRESET, 'closed by the victim')
        data += more
    return data


def push_out(links, stalled_after=1.0, at_most=30.0):
    """Sends the data of each link, {link: bytes}, until all is sent, nothing moves, or `at_most` seconds are over.
    Returns the data that is left."""
    left = {link: memoryview(data) for link, data in links.items()}
    for link in left:
        link.setblocking(False)
    start = moved = time.monotonic()
    while left and time.monotonic() - moved < stalled_after and time.monotonic() - start < at_most:
        _, ready, _ = select.select([], list(left), [], 0.1)
        for link in ready:
            try:
                left[link] = left[link][link.send(left[link]):]
                moved = time.monotonic()
            except BlockingIOError:
                continue
            except OSError:
                left[link] = left[link][:0]
            if not left[link]:
                del left[link]
    return left


def on():
    print('attack: on', flush=True)


def hold():
    while True:
        signal.pause()


# --- Attacks: each keeps itself up until it is killed ----------------------------------------------------------------

def never_reads(victim, own, count, portal=PERF_PORTAL, bits=PERF_SOURCE):
    """One connection with `count` small GETs whose REPLYs are never read."""
    link = connect(own[0], victim, receive_buffer=4096)
    push_out({link: get(victim, own[0], portal, bits, 512) * (count or 20000)})
    on()
    hold()


def never_reads_pings(victim, own, count):
    never_reads(victim, own, count, PING_PORTAL, PING_BITS)


def hanging_clients(victim, own, _count):
    """Clients that request 10 MiB each and hang: this can happen without malice."""
    clients = connect_all_types(victim, own)
    push_out({links[0]: get(victim, address, PERF_PORTAL, PERF_SOURCE, 1 << 20) * 10
              for address, links in clients.items()})
    on()
    hold()


def connect_all_types(victim, own):
    """{address: its three connections}, with little room for what comes."""
    links = {}
    for address in own:
        incarnation = time.time_ns()
        links[address] = [connect(address, victim, ctype, 4096, incarnation=incarnation)
                          for ctype in (CONTROL, BULK_IN, BULK_OUT)]
    return links


def tarpit(victim, own, _count):
    """The first address sends requests in the name of the others, whose port takes connections but sends no HELLO."""
    listeners = []
    for address in own[1:]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, PORT))
        listener.listen(64)
        listeners.append(listener)
    forged_pings(victim, own[0], [source for source in own[1:] for _ in range(8)])


def forged_sources(victim, own, count):
    """GETs in the name of nodes that do not exist."""
    sources = [f'10.77.{200 + number // 200}.{number % 200 + 1}' for number in range(count or 300)]
    forged_pings(victim, own[0], sources)


def forged_pings(victim, own, sources):
    link = connect(own, victim)
    push_out({link: b''.join(get(victim, source, PING_PORTAL, PING_BITS, 512) for source in sources)})
    on()
    hold()


ATTACKS = {
    'never_reads': never_reads,
    'never_reads_pings': never_reads_pings,
    'hanging_clients': hanging_clients,
    'tarpit': tarpit,
    'forged_sources': forged_sources,
}


# --- The good one ----------------------------------------------------------------------------------------------------

def probe(victim, own, count):
    """Makes `count` new connections, one after the other, and pings over each. Prints one JSON line."""
    failures, times = [], []
    for _ in range(count or 5):
        start = time.monotonic()
        try:
            with connect(own[0], victim) as link:
                link.sendall(get(victim, own[0], PING_PORTAL, PING_BITS, 4096))
                while True:
                    if struct.unpack('<I', receive(link, 24)[:4])[0] != 0xC1:
                        continue  # a NOOP
                    header = receive(link, 72)
                    kind, length = struct.unpack('<II', header[24:32])
                    receive(link, length)
                    if kind == REPLY:
                        break
        except OSError as error:
            failures.append(str(error))
        times.append(time.monotonic() - start)
    print(json.dumps({'pings': len(times), 'failures': failures, 'slowest_s': round(max(times), 3)}), flush=True)


def main():
    import hostile_bytes  # they stand on this file  pylint: disable=import-outside-toplevel
    import hostile_hops  # pylint: disable=import-outside-toplevel
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    what, victim, own = sys.argv[1], sys.argv[2], sys.argv[3].split(',')
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    if what != 'probe':
        os.nice(19)  # the machine is the victim's and its clients'
    {**ATTACKS, **hostile_bytes.ATTACKS, **hostile_hops.ATTACKS, 'probe': probe}[what](victim, own, count)


if __name__ == '__main__':
    main()
