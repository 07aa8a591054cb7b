"""Attacks on a router, for hostile_peer.py, which gives each the router as `victim`. The attacks are messages for hops
that take nothing, forged sources, nets without a way, and loops. hostile_router.py has the nets, and SERVER. Each
attack is a function (router, own addresses, count) that keeps itself up until it is killed.
"""
import contextlib
import itertools
import os
import socket
import struct

from hostile_bytes import connect_as_other, other, put, send_for_ever
from hostile_peer import (PERF_PORTAL, PERF_SOURCE, PORT, connect, connect_all_types, get, hold, on, push_out)

SERVER = '10.78.0.2@tcp1'   # behind the router
FAR_HOPS = [f'10.78.1.{number}@tcp1' for number in range(1, 42)]
NOBODY = [f'10.78.{200 + number // 100}.{number % 100 + 1}@tcp1' for number in range(200)]
SMALL, LARGE = b's' * 4096, b'l' * (1 << 20)


def handle(number):
    return struct.pack('<QQ', 99, number)


def hops_take_nothing(router, own, _count):
    """Every other hop has connections and reads nothing. The others take connections and never send HELLO. Runs on
    the hops' side of the router."""
    kept = connect_all_types(router, own[::2])
    listeners = []
    for address in own[1::2]:
        listeners.append(socket.socket())
        listeners[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listeners[-1].bind((address.partition('@')[0], PORT))
        listeners[-1].listen(64)
    on()
    hold()
    del kept


def feed_hops(router, own, _count):
    """Sends through the router to each hop of hops_take_nothing()."""
    send_through({connect(address, router): b''.join(
        put(hop, address, PERF_PORTAL, number, payload, handle=handle(number))
        for number in range(3) for payload in (SMALL, LARGE) for hop in FAR_HOPS) for address in own})


def feed_nobody(router, own, _count):
    """Sends to hops that are not there."""
    send_through({connect(address, router): b''.join(
        put(hop, address, PERF_PORTAL, number, SMALL, handle=handle(number))
        for number in range(20) for hop in NOBODY) for address in own})


def send_through(links, wait=3.0):
    """{link: bytes}: as fast as they are taken, and for as long."""
    left = push_out(links, wait, wait)
    on()
    while left:
        left = push_out(left)
    hold()
    del links


def asks_for_others(router, own, _count):
    """GETs to the server in the name of clients of the router that read nothing, and of some that are not there."""
    hanging = connect_all_types(router, own[1:])
    asking = connect(own[0], router)
    sources = own[1:] + [f'10.77.{200 + number // 200}.{number % 200 + 1}' for number in range(300)]
    send_through({asking: b''.join(get(SERVER, source, PERF_PORTAL, PERF_SOURCE, length)
                                   for length in (1 << 20, 512) * 4 for source in sources)})
    del hanging


def claims_through(router, own, count):
    """PUTs to the server that announce 1 MiB which never comes."""
    links = []
    for number in range(count):
        with contextlib.suppress(OSError):
            links.append(connect_as_other(router, own[number % len(own)], number))
            links[-1].sendall(put(SERVER, other(number), PERF_PORTAL, PERF_SOURCE, b'', 1 << 20))
    on()
    hold()


def wrong_ways(router, own, _count):
    """PUTs and GETs for nets without a route, and to closed portals of the server."""
    messages = b''.join(put(f'10.1.1.1@{net}', own[0], PERF_PORTAL, number, b'n' * 64)
                        for number, net in enumerate(('tcp7', 'o2ib', 'o2ib5', 'tcp65535')))
    messages += put(SERVER, own[0], 5, 1, SMALL) + get(SERVER, own[0], 5, 1, 1 << 20)
    send_for_ever(router, own[0], messages * 20)


def loop(router, own, count):
    """Messages for a net to which two routers lead each other, ever other ones."""
    link = connect(own[0], router)
    number = itertools.count(int.from_bytes(os.urandom(6), 'little'))
    for size in (0, 64, 4096, 1 << 16):
        for _ in range(count):
            one = next(number)
            push_out({link: put('10.9.9.9@tcp9', own[0], PERF_PORTAL, one, b'o' * size, handle=handle(one)) +
                      put('10.9.9.9@tcp9', own[0], PERF_PORTAL, one, b'o' * size) +
                      get('10.9.9.9@tcp9', own[0], PERF_PORTAL, one, size, one)}, 3)
    on()
    hold()


ATTACKS = {name: function for name, function in globals().items() if name in (
    'hops_take_nothing', 'feed_hops', 'feed_nobody', 'asks_for_others', 'claims_through', 'wrong_ways', 'loop')}
