#!/usr/bin/env python3
"""No request is lost while one path is left. Two ulnetd are joined by four rails, and 16 acknowledged PUTs and 16 GETs
are under way. One rail fails. Either its interface goes down on one of the two sides, or a switch in it stops
forwarding. Meanwhile the other three carry the traffic, and all operations end. When the rail is back, all four carry
traffic. This also holds if the rail goes down and up several times. Each operation ends once, and none fails.

At last, one of two routers is killed. Here, too, no operation fails, and the other router carries the traffic.

    failover.py [CASE]...       default: all cases

ULNET_FULL=1: 100 times down and up.
"""
import os
import sys
import time

import rail_faults as faults
import netns

FULL = os.environ.get('ULNET_FULL', '') not in ('', '0')
SANITIZED = os.environ.get('ULNET_SANITIZED') == '1'
FLAPS = 100 if FULL else 5
SECONDS = (20 if FULL else 8)
FLAP_SECONDS = 0.05
CARRIED = 1 << 20  # bytes of each rail
CONCURRENCY, SIZE, DRAIN = 32, 4096, 30
MBIT = 100


def well(results):
    for operation, run in results.items():
        assert run['lost'] == 0 and run['duplicates'] == 0 and run['accepted'] == run['ended'] > 0, (
            f'{operation}: not one end each: {short(run)}')
        assert run['failed'] == 0, f'{operation}: {run["failed"]} operations failed: {short(run)}'


def short(run):
    """Without the slices of the time line."""
    return {key: value for key, value in run.items() if key != 'timeline'}


def until_others_carry(rails, rail):
    before = rails.carried('a')
    others = [f'veth{one}' for one in range(faults.RAILS) if one != rail]

    def look():
        now = rails.carried('a')
        grown = [now[name] - before[name] for name in others]
        return min(grown) > CARRIED, f'{grown} bytes over {others}'
    faults.until('the other rails carry the traffic', look)


def load_of(rails):
    return faults.Load(rails, 'a', rails.nid('b', 0), CONCURRENCY, SIZE, SECONDS, DRAIN, 10)


def end_well(load, what):
    assert load.running(), f'{what}: the load ended before: {SECONDS} s are too short'
    results = load.results(SECONDS + DRAIN + 60)
    well(results)
    ended = sum(run['ended'] for run in results.values())
    longest = max(run['latency_ns']['max'] for run in results.values()) / 1e6
    print(f'{what}: {ended} operations, none failed, the longest {longest:.0f} ms', flush=True)


def rail_fails(rails, kind, rail):
    load = load_of(rails)
    rails.until_even()
    rails.fault(kind, rail)
    until_others_carry(rails, rail)
    end_well(load, f'{kind}, rail {rail} fails')  # the rail is still dead: no operation waits for its return
    load = load_of(rails)
    until_others_carry(rails, rail)
    rails.fault(kind, rail, False)
    rails.until_even()
    end_well(load, f'{kind}, rail {rail} comes back')


def rail_flaps(rails, kind, rail):
    load = load_of(rails)
    rails.until_even()
    for _ in range(FLAPS):
        rails.fault(kind, rail)
        time.sleep(FLAP_SECONDS)
        rails.fault(kind, rail, False)
        time.sleep(FLAP_SECONDS)
    rails.until_even()
    end_well(load, f'{kind}, rail {rail} fails and comes back {FLAPS} times')


def router_dies():
    with netns.Topology() as topology:
        routers = faults.Routers(topology, MBIT, 'global:\n    transaction_timeout: 10\n')
        load = faults.Load(routers, 'client', routers.SERVER, CONCURRENCY, SIZE, SECONDS, DRAIN, 10)
        before = {name: routers.forwarded(name) for name in ('r1', 'r2')}
        for name in ('r1', 'r2'):
            faults.until(f'{name} carries traffic', lambda name=name: (
                (grown := routers.forwarded(name) - before[name]) > CARRIED, grown))
        routers.daemons['r1'].kill()
        before = routers.forwarded('r2')
        faults.until('the other router carries the traffic', lambda: (
            (grown := routers.forwarded('r2') - before) > 4 * CARRIED, grown))
        assert load.running(), f'the load ended before: {SECONDS} s are too short'
        results = load.results(SECONDS + DRAIN + 60)
        well(results)
        print(f'a router of two was killed: {sum(run["ended"] for run in results.values())} operations, none failed',
              flush=True)
        load = faults.Load(routers, 'client', routers.SERVER, CONCURRENCY, SIZE, 2, DRAIN, 10)
        well(load.results(DRAIN + 60))


def with_rails(fails, kind, rail):
    with netns.Topology() as topology:
        fails(faults.Rails(topology, 1, kind == 'black hole', MBIT), kind, rail)


CASES = {
    'own': lambda: with_rails(rail_fails, 'own', 2),
    'own_first': lambda: with_rails(rail_fails, 'own', 0),  # the rail of the primary NIDs
    'peer': lambda: with_rails(rail_fails, 'peer', 2),
    'black_hole': lambda: with_rails(rail_fails, 'black hole', 2),
    'black_hole_first': lambda: with_rails(rail_fails, 'black hole', 0),
    'flaps': lambda: with_rails(rail_flaps, 'own', 2),
    'black_hole_flaps': lambda: with_rails(rail_flaps, 'black hole', 2),
    'router': router_dies,
}


def main():
    if SANITIZED:
        print('failover: skipped: a sanitized build is too slow for the load')
        sys.exit(77)
    for name in sys.argv[1:] or CASES:
        if name not in CASES:
            sys.exit(f'{name} is no case; there are {", ".join(CASES)}')
        CASES[name]()
    print('failover: passed')


if __name__ == '__main__':
    main()
