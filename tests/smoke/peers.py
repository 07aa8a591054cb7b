#!/usr/bin/env python3
"""The peer commands, as an operator gives them to a running ulnetd: NIDs as lists and ranges, non-multi-rail and locked
peers. The test also covers refusals with their words, YAML that refreshes a peer, and a backup that comes back the
same.
"""
import json

import netns

YAML = 'net:\n    - net type: tcp\n      local NI(s):\n        - nid: 127.0.0.1@tcp\n'


class Daemon:
    def __init__(self, topology):
        self.topology, self.node = topology, topology.node('a')
        self.socket = str(topology.folder / 'a.sock')
        yaml = topology.folder / 'a.yaml'
        yaml.write_text(YAML)
        self.node.start([netns.binary('ulnetd'), '--config', str(yaml), '--socket', self.socket]).wait_for(
            'ulnetd: ready', 60)

    def ctl(self, *words, status=0):
        return self.node.run([netns.binary('ulnetctl'), '--socket', self.socket, *words], 60, status)

    def refused(self, expected, *words):
        output = self.ctl(*words, status=None)
        assert expected in output and 'errno: -' in output, f'{words}: {output}'

    def peers(self):
        shown = json.loads(self.ctl('--json', 'peer', 'show') or 'null') or {'peer': []}
        return {peer['primary nid']: [ni['nid'] for ni in peer['peer ni']] for peer in shown['peer']}

    def listed(self):
        return [one['nid'] for one in json.loads(self.ctl('--json', 'peer', 'list'))['peer list']]

    def yaml(self, text, *words, status=0):
        path = self.topology.folder / 'import.yaml'
        path.write_text(text)
        return self.ctl('import', *words, str(path), status=status)


def lists_and_ranges(daemon):
    daemon.ctl('peer', 'add', '--prim_nid', '10.0.0.1@tcp', '--nid', '10.0.0.[2-5/2]@tcp,10.1.0.1@tcp1')
    daemon.ctl('peer', 'add', '--nid', '10.0.1.1@tcp,10.0.1.2@tcp')  # as the manual has it: the first is the primary
    assert daemon.peers() == {'10.0.0.1@tcp': ['10.0.0.1@tcp', '10.0.0.2@tcp', '10.0.0.4@tcp', '10.1.0.1@tcp1'],
                              '10.0.1.1@tcp': ['10.0.1.1@tcp', '10.0.1.2@tcp']}, daemon.peers()
    assert daemon.listed() == ['10.0.0.1@tcp', '10.0.1.1@tcp'], daemon.listed()
    daemon.ctl('peer', 'del', '--prim_nid', '10.0.0.1@tcp', '--nid', '10.0.0.2@tcp,10.1.0.1@tcp1')
    assert daemon.peers()['10.0.0.1@tcp'] == ['10.0.0.1@tcp', '10.0.0.4@tcp']
    assert '10.0.0.4@tcp' in daemon.ctl('peer', 'show', '--nid', '10.0.0.4@tcp')
    assert daemon.ctl('peer', 'show', '--nid', '10.0.0.2@tcp') == ''


def refusals(daemon):
    daemon.refused('10.0.0.4@tcp belongs to peer 10.0.0.1@tcp (index 1 of the NIDs)',
                   'peer', 'add', '--prim_nid', '10.0.2.1@tcp', '--nid', '10.0.2.2@tcp,10.0.0.4@tcp')
    daemon.refused('10.0.2.3@tcp is listed twice (index 1 and 2 of the NIDs)',
                   'peer', 'add', '--prim_nid', '10.0.2.1@tcp', '--nid', '10.0.2.[2-3]@tcp,10.0.2.3@tcp')
    daemon.refused('10.0.0.9@tcp is not a NID of 10.0.0.1@tcp (index 1 of the NIDs)',
                   'peer', 'del', '--prim_nid', '10.0.0.1@tcp', '--nid', '10.0.0.4@tcp,10.0.0.9@tcp')
    daemon.refused('failed to del primary peer', 'peer', 'del', '--prim_nid', '10.0.9.9@tcp')
    daemon.refused('missing primary NID', 'peer', 'del', '--nid', '10.0.0.1@tcp')
    daemon.refused('is a second NID on its net', 'peer', 'add', '--prim_nid', '10.0.3.1@tcp', '--nid',
                   '10.0.3.2@tcp', '--non_mr')
    assert daemon.listed() == ['10.0.0.1@tcp', '10.0.1.1@tcp'], 'what was refused left something behind'
    assert daemon.peers()['10.0.0.1@tcp'] == ['10.0.0.1@tcp', '10.0.0.4@tcp'], 'half of a list was done'


def non_mr_and_locked(daemon):
    daemon.ctl('peer', 'add', '--prim_nid', '10.0.3.1@tcp', '--nid', '10.0.3.1@tcp1', '--non_mr')
    assert 'Multi-Rail: false' in daemon.ctl('peer', 'show', '--nid', '10.0.3.1@tcp')
    daemon.refused('Multi-Rail of a configured peer cannot be changed', 'peer', 'add', '--prim_nid', '10.0.3.1@tcp')
    daemon.ctl('peer', 'add', '--prim_nid', '10.0.4.1@tcp', '--lock_prim')
    shown = json.loads(daemon.ctl('--json', 'peer', 'show', '--nid', '10.0.4.1@tcp', '-v', '3'))['peer'][0]
    assert shown['peer state'] & 1 << 20 and shown['peer state'] & 1 << 3, shown['peer state']  # locked, configured
    daemon.refused('10.0.4.1@tcp is locked; use --force', 'peer', 'del', '--prim_nid', '10.0.4.1@tcp')
    daemon.ctl('peer', 'del', '--prim_nid', '10.0.4.1@tcp', '--force')
    assert '10.0.4.1@tcp' not in daemon.listed()


def yaml_refresh(daemon):
    daemon.yaml('peer:\n    - primary nid: 10.0.0.1@tcp\n      peer ni:\n        - nid: 10.0.0.1@tcp\n'
                '        - nid: 10.0.0.[6-7]@tcp\n')
    assert daemon.peers()['10.0.0.1@tcp'] == ['10.0.0.1@tcp', '10.0.0.6@tcp', '10.0.0.7@tcp'], daemon.peers()
    output = daemon.yaml('peer:\n    - primary nid: 10.0.0.1@tcp\n      peer ni:\n        - nid: 10.0.1.2@tcp\n',
                         status=234)
    assert '10.0.1.2@tcp belongs to peer 10.0.1.1@tcp (index 0 of the NIDs)' in output, output
    before, backup = daemon.peers(), str(daemon.topology.folder / 'backup.yaml')
    daemon.ctl('export', '--backup', backup)
    daemon.ctl('peer', 'del', '--prim_nid', '10.0.1.1@tcp')
    text = (daemon.topology.folder / 'backup.yaml').read_text()
    daemon.yaml(text[text.index('peer:'):])
    assert daemon.peers() == before, (daemon.peers(), before)
    daemon.yaml('peer:\n    - primary nid: 10.0.0.1@tcp\n      peer ni:\n        - nid: 10.0.0.7@tcp\n', '--del')
    assert daemon.peers()['10.0.0.1@tcp'] == ['10.0.0.1@tcp', '10.0.0.6@tcp']


def many(daemon):
    daemon.ctl('peer', 'add', '--prim_nid', '10.8.0.0@tcp', '--nid', '10.8.[0-15].[1-255]@tcp')
    assert len(daemon.peers()['10.8.0.0@tcp']) == 1 + 16 * 255
    daemon.ctl('peer', 'add', '--prim_nid', '10.8.0.0@tcp', '--nid', '10.8.[1-15].0@tcp')
    assert len(daemon.peers()['10.8.0.0@tcp']) == 4096
    daemon.refused('4097 NIDs; a peer has at most 4096',
                   'peer', 'add', '--prim_nid', '10.8.0.0@tcp', '--nid', '10.8.16.0@tcp')
    daemon.ctl('peer', 'del', '--prim_nid', '10.8.0.0@tcp')


def main():
    with netns.Topology() as topology:
        daemon = Daemon(topology)
        lists_and_ranges(daemon)
        refusals(daemon)
        non_mr_and_locked(daemon)
        yaml_refresh(daemon)
        many(daemon)
    print('peers: passed')


if __name__ == '__main__':
    main()
