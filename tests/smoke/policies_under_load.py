#!/usr/bin/env python3
"""Rules, a link and routers change while traffic runs without a pause. Each change moves the traffic of the generator
that runs throughout, and no operation is lost.

Two ulnetd are joined by four veth rails, and put and get both ways. Rules are added and deleted, and no operation
fails. Then the preferred rail goes down and comes back. The operations that are on this rail may time out. Each place
of the generator has one operation at a time, and fails at most once in a timeout. At last, a client puts to a server
over two routers. An `rte` rule, a route and a router go and come back, and no operation fails.
"""
import json
import time

import netns
from policies import ROUTE_NIDS, Routed, put_counts
from rails import LOAD_CONCURRENCY, Load, Rails, both_ways, discovered, nid

TRANSACTION_TIMEOUT = 10  # seconds
BUSY = 50  # PUTs between two looks that show that traffic runs
TIMEOUTS = '    alive_router_check_interval: 1\n    router_ping_timeout: 2\n'


class Watch:
    """Waits until the running traffic takes these NIs, all of them and no others."""

    def __init__(self, ctl, show):
        self.ctl, self.show = ctl, show

    def __call__(self, what, names):
        end = time.monotonic() + 100
        before = put_counts(self.ctl, *self.show, acks=True)
        while True:
            time.sleep(0.1)
            after = put_counts(self.ctl, *self.show, acks=True)
            used = {name: after[name] - before.get(name, 0) for name in after if after[name] > before.get(name, 0)}
            if set(used) == set(names) and sum(used.values()) >= BUSY:
                print(f'{what}: {used}', flush=True)
                return
            assert time.monotonic() < end, f'never: {what}: {used}'
            before = after


def rails_under_load(topology):
    rails = Rails(topology)
    for side in 'ab':
        rails.ctl(side, 'set', 'transaction_timeout', str(TRANSACTION_TIMEOUT))
    discovered(rails)

    def ctl(*words):
        return rails.ctl('a', *words)
    watch = Watch(ctl, ('--json', 'net', 'show', '-v', '4'))
    all_rails = [nid('a', rail) for rail in range(4)]
    load = Load(both_ways(rails))
    watch('without rules', all_rails)
    for _ in range(3):
        ctl('udsp', 'add', '--src', nid('a', 2), '--priority', '0')
        watch('the rule prefers rail 2', [nid('a', 2)])
        ctl('udsp', 'add', '--src', nid('a', 1), '--priority', '0', '--idx', '0')
        watch('rails 1 and 2 are equal', [nid('a', 1), nid('a', 2)])
        ctl('udsp', 'del', '--all')
        watch('the rules are deleted', all_rails)
    print(f'rules: {load.stop()} operations, none failed', flush=True)

    load = Load(both_ways(rails))
    ctl('udsp', 'add', '--src', nid('a', 2), '--priority', '0')
    watch('the rule prefers rail 2', [nid('a', 2)])
    began = time.monotonic()
    rails.nodes['a'].ip('link', 'set', 'veth2', 'down')
    watch('rail 2 is down', [one for one in all_rails if one != nid('a', 2)])
    rails.nodes['a'].ip('link', 'set', 'veth2', 'up')
    watch('rail 2 is up', [nid('a', 2)])
    ctl('udsp', 'del', '--idx', '0')
    watch('the rule is deleted', all_rails)
    timeouts = 1 + int((time.monotonic() - began) / TRANSACTION_TIMEOUT)  # the last one while stop() waits
    print(f'a link: {load.stop(failures_max=timeouts * LOAD_CONCURRENCY)} operations', flush=True)


def routers_under_load(topology):
    routed = Routed(topology, TIMEOUTS)
    routed.until_routes_are_up()
    watch = Watch(routed.ctl, ('--json', 'peer', 'show', '-v', '4'))
    both = list(ROUTE_NIDS.values())
    load = Load([(routed.nodes['client'], routed.socket('client'), 'put', '10.1.0.2@tcp1')])
    watch('without rules', both)
    routed.ctl('udsp', 'add', '--dst', '10.1.0.[2-9]@tcp1', '--rte', ROUTE_NIDS['r2'])
    watch('the rule prefers r2', [ROUTE_NIDS['r2']])
    routed.ctl('route', 'del', '--net', 'tcp1', '--gateway', ROUTE_NIDS['r2'])
    watch('no route over r2', [ROUTE_NIDS['r1']])
    routed.ctl('route', 'add', '--net', 'tcp1', '--gateway', ROUTE_NIDS['r2'])
    watch('a route over r2 again', [ROUTE_NIDS['r2']])
    routed.ctl('set', 'routing', '0', node='r2')
    watch('r2 does not forward', [ROUTE_NIDS['r1']])
    routed.ctl('set', 'routing', '1', node='r2')
    watch('r2 forwards again', [ROUTE_NIDS['r2']])
    routed.ctl('udsp', 'del', '--all')
    watch('the rule is deleted', both)
    print(f'routers: {load.stop()} operations, none failed', flush=True)


def main():
    with netns.Topology() as topology:
        rails_under_load(topology)
    with netns.Topology() as topology:
        routers_under_load(topology)
    print('policies under load: passed')


if __name__ == '__main__':
    main()
