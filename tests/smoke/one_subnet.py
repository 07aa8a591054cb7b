#!/usr/bin/env python3
"""Two NIs of each node in one subnet, on one switch. As long as the kernel's ARP settings stand in the way, ulnetd
prints a warning with the commands that mend them, and traffic goes nevertheless. After these commands, each NI uses its
own interface. The test counts bytes, of dialled and of accepted connections, over IPv4 and IPv6.
"""
import json
import re
import shlex
import time

import netns

MESSAGES = 4000
SIZE = 16384
SPREAD = 0.10  # of the even share

V4 = {'a': ('10.0.0.1', '10.0.0.2'), 'b': ('10.0.0.11', '10.0.0.12')}
V6 = {'a': ('fd00:1::1', 'fd00:1::2'), 'b': ('fd00:1::11', 'fd00:1::12')}


class Lan:
    def __init__(self, topology):
        self.topology = topology
        self.switch = topology.node('switch')
        self.switch.ip('link', 'add', 'br0', 'type', 'bridge')
        self.switch.ip('link', 'set', 'br0', 'up')
        self.nodes, self.daemons = {}, {}
        for side in 'ab':
            self.nodes[side] = topology.node(side)
            for rail in (0, 1):
                addresses = [f'{V4[side][rail]}/24', f'{V6[side][rail]}/64']
                port = topology.link(self.nodes[side], addresses, self.switch, None)[1]
                self.switch.ip('link', 'set', port, 'master', 'br0')

    def socket(self, side):
        return str(self.topology.folder / f'{side}.sock')

    def start(self, side, nids):
        """Starts, or starts again, with these NIs; returns what it wrote until it was ready."""
        if side in self.daemons:
            self.daemons[side].stop()
        yaml = self.topology.folder / f'{side}.yaml'
        yaml.write_text('net:\n    - net type: tcp\n      local NI(s):\n'
                        + ''.join(f'        - nid: {nid}\n' for nid in nids) + 'ulnet:\n    perf_target: true\n')
        command = [netns.binary('ulnetd'), '--config', str(yaml), '--socket', self.socket(side)]
        self.daemons[side] = self.nodes[side].start(command)
        self.daemons[side].wait_for('ulnetd: ready', 60)
        return self.daemons[side].output()

    def ctl(self, side, *words, status=0):
        return self.nodes[side].run([netns.binary('ulnetctl'), '--socket', self.socket(side), *words], 60, status)

    def warnings(self, side):
        shown = json.loads(self.ctl(side, '--json', 'net', 'show', '-v', '--net', 'tcp'))
        return [line for ni in shown['net'][0]['local NI(s)'] for line in ni.get('warnings', [])]

    def shares(self, op, target, messages):
        """Bytes that left each interface of the side that sends the payload."""
        sender = {'put': 'a', 'get': 'b'}[op]  # b's connections are mostly accepted ones
        before = self.sent(sender)
        self.perf(op, target, messages)
        return [after - start for after, start in zip(self.sent(sender), before)]

    def until_connected(self, op, target):
        """Connections that both sides dial at once come up a second later."""
        end = time.monotonic() + 60
        while min(shares := self.shares(op, target, 200)) < 0.2 * sum(shares):
            assert time.monotonic() < end, f'{op}: one interface has no share: {shares}'
            time.sleep(0.1)

    def sent(self, side):
        return [int(self.nodes[side].run(['cat', f'/sys/class/net/veth{rail}/statistics/tx_bytes'], 10))
                for rail in (0, 1)]

    def perf(self, op, target, messages=MESSAGES):
        output = self.nodes['a'].run([netns.binary('ulnet-perf'), '--json', '--socket', self.socket('a'), op, '--size',
                                      str(SIZE), '-c', '16', '-n', str(messages), target], 300, None)
        for run in json.loads(output[output.index('{'):])['runs']:
            assert run['ok'] and run['failed'] == 0 and run['ended'] > 0, f'{op}: {run}'


def told_how_to_mend(lan):
    """The first NI has its subnet for itself among NIs, but not among interfaces: its warning appears as well."""
    said = lan.start('a', [f'{V4["a"][0]}@tcp'])
    assert 'arp_ignore is 0' in said, said
    answer = lan.ctl('a', 'net', 'add', '--nid', f'{V4["a"][1]}@tcp')
    for interface in ('veth0', 'veth1'):
        for setting in ('arp_ignore=1', 'arp_announce=2'):
            assert f'mend it with: sysctl -w net.ipv4.conf.{interface}.{setting}' in answer, answer
    assert lan.warnings('a'), 'net show -v says nothing'
    lan.start('b', [f'{nid}@tcp' for nid in V4['b']])
    lan.perf('put', f'{V4["b"][0]}@tcp')  # traffic goes nevertheless


def mended(lan):
    """Gives only the commands that the warnings contain."""
    for side in 'ab':
        lan.nodes[side].run(['sysctl', '-w', 'net.ipv4.conf.veth1.rp_filter=1'], 10)
        warnings = lan.warnings(side)
        assert any('rp_filter is 1' in line for line in warnings), warnings
        for command in sorted({re.search('mend it with: (.*)', line).group(1) for line in warnings}):
            assert command.startswith('sysctl -w net.ipv4.conf.veth'), command
            lan.nodes[side].run(shlex.split(command), 10)
        assert lan.warnings(side) == [], lan.warnings(side)
    for side in 'ab':  # wrong neighbour entries would expire by themselves, after a while
        lan.nodes[side].ip('neigh', 'flush', 'all')


def each_its_own(lan, addresses):
    for side in 'ab':
        said = lan.start(side, [f'{address}@tcp' for address in addresses[side]])
        assert 'mend it with' not in said, said
    target = f'{addresses["b"][0]}@tcp'
    lan.ctl('a', 'discover', target)
    for op in ('put', 'get'):
        lan.until_connected(op, target)
        sent = lan.shares(op, target, MESSAGES)
        even = sum(sent) / 2
        assert sum(sent) > MESSAGES * SIZE and all(abs(one - even) <= SPREAD * even for one in sent), f'{op}: {sent}'
        print(f'{target} {op}: bytes of each interface: {sent}', flush=True)


def main():
    with netns.Topology() as topology:
        lan = Lan(topology)
        told_how_to_mend(lan)
        mended(lan)
        each_its_own(lan, V4)
        each_its_own(lan, V6)
    print('one_subnet: passed')


if __name__ == '__main__':
    main()
