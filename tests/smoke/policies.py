#!/usr/bin/env python3
"""Selection policies between real processes. Two ulnetd are joined by four veth rails. A rule that prefers one rail
moves all traffic there. The rail goes down, and the traffic moves. The rule is deleted, and the traffic spreads again.
Then a client reaches a server over two routers, and an `rte` rule does the same with the routers. `ulnetctl explain`
names the path and the rule that the counters show. No operation fails. At last, ulnetd restarts with rules in its
file.
"""
import json
import time

import netns
from rails import Rails, all_well, discovered, nid

MESSAGES = 400
PINGS = 8  # messages of the nodes themselves that may come between, such as recovery pings
SIZE = 16384
ROUTERS = ('r1', 'r2')
ROUTE_NIDS = {'r1': '10.0.0.91@tcp', 'r2': '10.0.0.92@tcp'}


def put_counts(ctl, *words, acks=False):
    """PUTs sent over each NI of the answer of `net show` or `peer show`. As in Lustre, an ACK that is sent counts as a
    PUT. `acks`: the ACKs received, which come to the NI that sent the PUT."""
    shown = json.loads(ctl(*words))
    return {ni['nid']: ni['received_stats']['ack'] if acks else ni['sent_stats']['put']
            for key, one in shown.items() for part in one for ni in part.get('local NI(s)', part.get('peer ni', []))
            if 'sent_stats' in ni}


class Shares:
    """Messages by NI, as the counters of the sender have them."""

    def __init__(self, ctl, perf, show, target):
        self.ctl, self.perf, self.show, self.target = ctl, perf, show, target

    def __call__(self):
        before = put_counts(self.ctl, *self.show)
        self.perf('put', '--size', str(SIZE), '-c', '16', '-n', str(MESSAGES), self.target)
        after = put_counts(self.ctl, *self.show)
        return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}


def path_of(explained):
    one = explained['explain'][0]
    one = one.get('without discovery', one)  # while a push to the peer is under way
    return one['source'], one['next hop']


def sides(ctl, rail):
    """The sides with an NI of this rail in the paths of the next messages, and the paths."""
    explained = json.loads(ctl('--json', 'explain', nid('b', 0), '--count', '64'))
    paths = [one['path'] for one in explained['explain'][0]['spread']]
    return ''.join(side for side in 'ab' if any(nid(side, rail) in path for path in paths)), paths


def is_all_over(shares, name):
    # ulnet-perf greets its target and says good-bye with messages of its own.
    return shares.get(name, 0) >= MESSAGES and sum(shares.values()) <= shares[name] + PINGS


def all_over(shares, name, what):
    assert is_all_over(shares, name), f'{what}: {shares}'


def is_spread(shares, names):
    even = sum(shares.values()) / len(names)
    return set(shares) == set(names) and all(one >= 0.1 * even for one in shares.values())


def spread(shares, names, what):
    """Each has a real share, and nobody else has one. A path that had to wait for the CPU gets less for a time, and
    rightly so: then more messages are sent. How even shares are is a matter for the simulation."""
    total = {}
    for _ in range(20):
        said = shares()
        assert set(said) <= set(names), f'{what}: {said}'
        total = {name: total.get(name, 0) + said.get(name, 0) for name in names}
        if is_spread(total, names):
            return
    raise AssertionError(f'{what}: {total}')


def rails_by_rule(topology):
    rails = Rails(topology)
    # The timeout bounds a push that is on a rail when the link goes down.
    for side in 'ab':
        rails.ctl(side, 'set', 'transaction_timeout', '10')
    discovered(rails)

    def ctl(*words, status=0):
        return rails.ctl('a', *words, status=status)
    shares = Shares(ctl, lambda *words: rails.perf('a', *words), ('--json', 'net', 'show', '-v', '4'), nid('b', 0))
    all_rails = [nid('a', rail) for rail in range(4)]
    rails.until('all rails are connected', lambda: (len(said := shares()) == 4, said))
    spread(shares, all_rails, 'without rules')
    preview = json.loads(ctl('--json', 'udsp', 'add', '--src', nid('a', 2), '--priority', '0', '--dry-run'))
    assert preview == {'dry run': [{'local ni': nid('a', 2),
                                    'nid priority': {'before': '-1', 'after': '0 (idx 0)'}}]}, preview
    spread(shares, all_rails, 'after a dry run')
    ctl('udsp', 'add', '--src', nid('a', 2), '--priority', '0')
    all_over(shares(), nid('a', 2), 'the rule prefers rail 2')
    explained = json.loads(ctl('--json', 'explain', nid('b', 0), '--count', '100'))
    assert path_of(explained)[0] == nid('a', 2), explained
    local = next(step for step in explained['explain'][0]['steps'] if step['step'] == 'local NI')
    won = next(one for one in local['candidates'] if one['nid'] == nid('a', 2))
    lost = next(one for one in local['candidates'] if one['nid'] == nid('a', 3))
    assert won['udsp'] == {'nid': {'priority': 0, 'idx': 0}} and lost['result'] == 'lost' and \
        lost['by'] == 'priority' and (lost['value'], lost['its value']) == (-1, 0), local
    assert sum(one['messages'] for one in explained['explain'][0]['spread']) == 100 and \
        all(one['path'].startswith(nid('a', 2)) for one in explained['explain'][0]['spread']), explained
    rails.nodes['a'].ip('link', 'set', 'veth2', 'down')
    rails.until('rail 2 is down', lambda: ((said := sides(ctl, 2))[0] == '', said[1]))
    spread(shares, [one for one in all_rails if one != nid('a', 2)], 'rail 2 is down')
    rails.nodes['a'].ip('link', 'set', 'veth2', 'up')
    rails.until('rail 2 is up', lambda: ((said := sides(ctl, 2))[0] == 'ab', said[1]))
    # The first messages may wait for TCP's next attempt. Then the rail is out of service until it answers a ping.
    rails.until('rail 2 carries all again', lambda: (is_all_over(said := shares(), nid('a', 2)), said))
    ctl('udsp', 'del', '--idx', '0')
    rails.until('all rails carry again', lambda: (len(said := shares()) == 4, said))
    spread(shares, all_rails, 'the rule is deleted')
    print('four rails: a rule moves the traffic, a dead rail and the end of the rule move it again')


def rules_in_the_file(topology):
    """Rules that an export wrote are shown and in force after a restart."""
    rails = Rails(topology)
    discovered(rails)

    def ctl(*words):
        return rails.ctl('a', *words)
    ctl('udsp', 'add', '--src', nid('a', 2), '--priority', '3')
    ctl('udsp', 'add', '--src', nid('a', 2), '--dst', nid('b', 2))
    ctl('udsp', 'add', '--dst', '10.77.0.[1-9]@tcp', '--rte', '10.0.0.9@tcp', '--priority', '5')
    rules = json.loads(ctl('--json', 'udsp', 'show'))
    assert len(rules['udsp']) == 3, rules
    ctl('export', '--backup', str(rails.config('a')))
    rails.daemons['a'].stop()
    rails.start('a')
    assert json.loads(ctl('--json', 'udsp', 'show')) == rules
    discovered(rails)
    shares = Shares(ctl, lambda *words: rails.perf('a', *words), ('--json', 'net', 'show', '-v', '4'), nid('b', 0))
    peer_shares = Shares(ctl, shares.perf, ('--json', 'peer', 'show', '-v', '4'), nid('b', 0))
    # At first, pushes go over other rails, too.
    rails.until('the rule is in force', lambda: (set(said := shares()) == {nid('a', 2)}, said))
    rails.until('the pair rule is in force', lambda: (set(said := peer_shares()) == {nid('b', 2)}, said))
    print('a restart: the rules of the file are shown and in force')


class Routed:
    """A client on tcp, a server on tcp1, and two routers between them."""

    def __init__(self, topology, settings=''):
        self.topology = topology
        self.nodes = {name: topology.node(name) for name in (*ROUTERS, 'server', 'client')}
        switch = topology.node('switch')
        for net in ('near', 'far'):
            switch.ip('link', 'add', net, 'type', 'bridge')
            switch.ip('link', 'set', net, 'up')
        addresses = {'client': [('near', '10.0.0.1/24')], 'server': [('far', '10.1.0.2/24')],
                     'r1': [('near', '10.0.0.91/24'), ('far', '10.1.0.91/24')],
                     'r2': [('near', '10.0.0.92/24'), ('far', '10.1.0.92/24')]}
        for name, links in addresses.items():
            for net, address in links:
                port = topology.link(self.nodes[name], address, switch, None)[1]
                switch.ip('link', 'set', port, 'master', net)
        routes = {'client': [('tcp1', one) for one in ROUTE_NIDS.values()],
                  'server': [('tcp', f'10.1.0.{number}@tcp1') for number in (91, 92)]}
        for name, node in self.nodes.items():
            yaml = topology.folder / f'{name}.yaml'
            nets = ['tcp1'] if name == 'server' else ['tcp'] if name == 'client' else ['tcp', 'tcp1']
            text = 'net:\n' + ''.join(f'    - net type: {net}\n      local NI(s):\n        - interfaces:\n'
                                      f'              0: veth{i}\n' for i, net in enumerate(nets))
            if name in routes:
                text += 'route:\n' + ''.join(f'    - net: {net}\n      gateway: {gateway}\n'
                                             for net, gateway in routes[name])
            text += 'routing:\n    enable: 1\n' if name in ROUTERS else ''
            text += 'ulnet:\n    perf_target: true\n' + settings
            text += '    forwarding: enabled\n' if name in ROUTERS else ''
            yaml.write_text(text)
            node.start([netns.binary('ulnetd'), '--config', str(yaml), '--socket', self.socket(name)]).wait_for(
                'ulnetd: ready', 60)

    def socket(self, name):
        return str(self.topology.folder / f'{name}.sock')

    def ctl(self, *words, node='client', status=0):
        return self.nodes[node].run([netns.binary('ulnetctl'), '--socket', self.socket(node), *words], 60, status)

    def perf(self, *words):
        output = self.nodes['client'].run([netns.binary('ulnet-perf'), '--json', '--socket', self.socket('client'),
                                           *words], 600, None)
        return all_well(json.loads(output[output.index('{'):]))

    def until_routes_are_up(self):
        end = time.monotonic() + 60
        while (states := [one['state'] for one in json.loads(self.ctl('--json', 'route', 'show', '-v'))['route']]) != \
                ['up', 'up']:
            assert time.monotonic() < end, f'routes are {states}'
            time.sleep(0.1)


def routers_by_rule(topology):
    routed = Routed(topology)
    routed.until_routes_are_up()
    shares = Shares(routed.ctl, routed.perf, ('--json', 'peer', 'show', '-v', '4'), '10.1.0.2@tcp1')
    end = time.monotonic() + 60  # at first, a router may not be connected yet
    while not is_spread(said := shares(), ROUTE_NIDS.values()):
        assert time.monotonic() < end, f'without rules: {said}'
    routed.ctl('udsp', 'add', '--dst', '10.1.0.[2-9]@tcp1', '--rte', ROUTE_NIDS['r2'])
    all_over(shares(), ROUTE_NIDS['r2'], 'the rule prefers r2')
    explained = json.loads(routed.ctl('--json', 'explain', '10.1.0.2@tcp1'))
    assert explained['explain'][0]['result'] == 'routed' and path_of(explained)[1] == ROUTE_NIDS['r2'], explained
    route = next(step for step in explained['explain'][0]['steps'] if step['step'] == 'route')
    won = next(one for one in route['candidates'] if one['result'] == 'won')
    assert won['by'] == 'preferred gateway' and won['udsp'] == {'preferred gateway': {'rank': 0, 'idx': 0}}, route
    routed.ctl('udsp', 'del', '--all')
    spread(shares, list(ROUTE_NIDS.values()), 'the rule is deleted')
    print('two routers: a rule moves the traffic, and its end spreads it again')


def main():
    with netns.Topology() as topology:
        rails_by_rule(topology)
    with netns.Topology() as topology:
        routers_by_rule(topology)
    with netns.Topology() as topology:
        rules_in_the_file(topology)
    print('policies: passed')


if __name__ == '__main__':
    main()
