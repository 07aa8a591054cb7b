#!/usr/bin/env python3
"""Fault rules of real processes. Two ulnetd are joined by a veth pair. A drop rule loses pings, or lets their sends
fail; a delay rule makes them too late. Each rule counts the messages that it hits. Without rules, all goes well again.
Then ulnet-perf runs while each side delays messages, and no operation fails. At last, the daemons stop in time although
they delay messages.
"""
import json

import netns

YAML = '''net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: veth0
ulnet:
    perf_target: true
    workers: 2
'''
NIDS = {'a': '10.0.0.1@tcp', 'b': '10.0.0.2@tcp'}


class Pair:
    def __init__(self, topology):
        self.topology = topology
        self.nodes = {side: topology.node(side) for side in 'ab'}
        self.daemons = {}
        topology.link(self.nodes['a'], '10.0.0.1/24', self.nodes['b'], '10.0.0.2/24')
        for side, node in self.nodes.items():
            config = topology.folder / f'{side}.yaml'
            config.write_text(YAML)
            self.daemons[side] = node.start(
                [netns.binary('ulnetd'), '--config', str(config), '--socket', self.socket(side)])
            self.daemons[side].wait_for('ulnetd: ready', 60)

    def socket(self, side):
        return str(self.topology.folder / f'{side}.sock')

    def ctl(self, side, *words, status=0):
        return self.nodes[side].run([netns.binary('ulnetctl'), '--socket', self.socket(side), *words], 60, status)

    def ping(self, seconds=30):
        self.ctl('a', 'ping', '--timeout', str(seconds), NIDS['b'])

    def ping_fails(self, seconds=1):
        text = self.ctl('a', 'ping', '--timeout', str(seconds), NIDS['b'], status=None)
        assert 'failed to ping' in text, text

    def rule(self, side, kind):
        return json.loads(self.ctl(side, '--json', 'fault', kind, 'show'))['fault'][0]


def pings(pair):
    pair.ping()
    pair.ctl('b', 'fault', 'drop', 'add', '-s', NIDS['a'], '-d', '*', '-r', '1', '-m', 'get')
    pair.ping_fails()
    rule = pair.rule('b', 'drop')
    assert (rule['fa_src'], rule['fa_dst'], rule['da_rate'], rule['fa_msg_mask']) == (NIDS['a'], '*', 1, 4), rule
    assert rule['ds_dropped'] == rule['fs_count'] == rule['fs_get'] >= 1, rule
    drops = json.loads(pair.ctl('b', '--json', 'stats', 'show', '-v'))['drops']
    assert [one['count'] for one in drops if one['reason'] == 'fault'] == [rule['ds_dropped']], drops
    pair.ctl('b', 'fault', 'drop', 'reset')
    assert pair.rule('b', 'drop')['fs_count'] == 0
    pair.ctl('b', 'fault', 'drop', 'del', '-s', NIDS['a'], '-d', '*')
    pair.ping()

    pair.ctl('a', 'fault', 'drop', 'add', '-s', '*@tcp', '-d', NIDS['b'], '-x', '-e', 'remote_error')
    pair.ping_fails(30)  # the failure of the send ends the ping
    assert pair.rule('a', 'drop')['health_error'] == 'remote_error'
    stats = json.loads(pair.ctl('a', '--json', 'stats', 'show'))['statistics']
    assert stats['remote_error_count'] >= 1, stats
    pair.ctl('a', 'fault', 'drop', 'del', '-a')
    pair.ping()

    pair.ctl('a', 'fault', 'delay', 'add', '-s', '*', '-d', NIDS['b'], '-r', '1', '-l', '3')
    pair.ping_fails(1)
    pair.ping(30)
    assert pair.rule('a', 'delay')['ls_delayed'] >= 2
    pair.ctl('a', 'fault', 'delay', 'del', '-a')
    pair.ping()
    refused = pair.ctl('a', 'fault', 'delay', 'del', '-a', status=234)
    assert "there is no delay rule; 'fault delay show' lists the rules" in refused, refused
    assert pair.ctl('a', 'fault', 'delay', 'show') == ''


def load(pair):
    for side in 'ab':
        pair.ctl(side, 'fault', 'delay', 'add', '-s', '*', '-d', '*', '-r', '300', '-l', '1')
    for kind in ('put', 'get'):
        output = pair.nodes['a'].run([netns.binary('ulnet-perf'), '--json', '--socket', pair.socket('a'), kind,
                                      '--size', '32768', '-c', '32', '-n', '3000', NIDS['b']], 300, None)
        for run in json.loads(output[output.index('{'):])['runs']:
            assert run['failed'] == run['lost'] == run['duplicates'] == 0 and run['ended'] == 3000, run
    assert all(pair.rule(side, 'delay')['ls_delayed'] > 0 for side in 'ab')
    for side in 'ab':
        pair.ctl(side, 'fault', 'delay', 'del', '-a')
        pair.ctl(side, 'fault', 'delay', 'add', '-s', '*', '-d', '*', '-r', '1', '-l', '100000')
    pair.ping_fails()


def main():
    with netns.Topology() as topology:
        pair = Pair(topology)
        pings(pair)
        load(pair)
    print('faults: pings and puts under drop and delay rules')


if __name__ == '__main__':
    main()
