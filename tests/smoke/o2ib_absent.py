#!/usr/bin/env python3
"""Networks of type o2ib on a machine without RDMA devices, as an operator configures them. Each NI waits for its
device, and the reason is shown. Settings come with the command line or with YAML; the backup has them. Tests of traffic
need devices: tests/vm.
"""
import json

import netns

TUNABLES = {'peercredits_hiw': 6, 'concurrent_sends': 12, 'ntx': 512, 'conns_per_peer': 2, 'tos': 40}
YAML = '''net:
    - net type: o2ib1
      local NI(s):
        - interfaces:
              0: veth0
          tunables:
              peer_credits: 16
          lnd tunables:
''' + ''.join(f'              {name}: {value}\n' for name, value in TUNABLES.items()) + '''ulnet:
    o2iblnd:
        retry_count: 3
'''


class Daemon:
    def __init__(self, topology):
        self.topology, self.node = topology, topology.node('a')
        topology.link(self.node, '10.0.0.1/24', topology.node('b'), '10.0.0.2/24')
        self.socket = str(topology.folder / 'a.sock')
        self.node.start([netns.binary('ulnetd'), '--socket', self.socket]).wait_for('ulnetd: ready', 60)

    def ctl(self, *words, status=0):
        return self.node.run([netns.binary('ulnetctl'), '--socket', self.socket, *words], 60, status)

    def nis(self, net):
        shown = json.loads(self.ctl('--json', 'net', 'show', '-v', '4'))
        return [ni for one in shown['net'] if one['net type'] == net for ni in one['local NI(s)']]

    def imported(self, text, status=0):
        path = self.topology.folder / 'import.yaml'
        path.write_text(text)
        return self.ctl('import', str(path), status=status)


def waits(ni, tunables):
    assert ni['status'] == 'waiting' and 'no RDMA device' in ni['waits for'], ni
    assert ni['interfaces'] == {'0': 'veth0'}, ni
    assert ni.get('lnd tunables', {}) == tunables, ni


def main():
    with netns.Topology() as topology:
        a = Daemon(topology)
        a.ctl('lnet', 'configure')
        answer = a.ctl('net', 'add', '--net', 'o2ib', '--if', 'veth0', '--conns-per-peer', '3')
        assert 'the NI of o2ib on veth0 waits: 10.0.0.1@o2ib: no RDMA device' in answer, answer
        waits(a.nis('o2ib')[0], {'conns_per_peer': 3})

        answer = a.imported(YAML)
        assert 'the NI of o2ib1 on veth0 waits: 10.0.0.1@o2ib1: no RDMA device' in answer, answer
        assert 'no effect' not in answer, answer
        waits(a.nis('o2ib1')[0], TUNABLES)
        backup = a.ctl('export', '--backup')
        for line in [f'{name}: {value}\n' for name, value in TUNABLES.items()] + ['retry_count: 3\n']:
            assert line in backup, (line, backup)
        answer = a.imported(backup)
        assert len(a.nis('o2ib1')) == 1 and len(a.nis('o2ib')) == 1, answer

        answer = a.imported('ulnet: {o2iblnd: {cksum: true, ib_mtu: 2048, service: 4444, keepalive: 60}}\n')
        for key in 'cksum', 'ib_mtu':
            assert f'ulnet.o2iblnd.{key} has no effect: ' in answer, answer
        assert 'ib_mtu: 2048\n' in a.ctl('export', '--backup')
        assert 'ulnet.o2iblnd.service takes effect at the next start of ulnetd' in answer, answer
        answer = a.imported('ulnet: {o2iblnd: {ib_mtu: 1000}}\n', None)
        assert "'1000' is not one of the choices; allowed: 0, 256, 512, 1024, 2048 or 4096" in answer, answer

        answer = a.ctl('net', 'set', '--net', 'o2ib', '--lnd-timeout', '20', status=None)
        assert 'cannot configure net: there is no such NI' in answer, 'NIs that wait have no driver yet'
        for net in 'o2ib', 'o2ib1':
            a.ctl('net', 'del', '--net', net, '--if', 'veth0')
            assert a.nis(net) == [], a.nis(net)
    print('o2ib_absent: passed')


if __name__ == '__main__':
    main()
