#!/usr/bin/env python3
"""Discovery between two ulnetd, as an operator sees it. `discover` learns the peer, and each side then has the other as
its peer. `peer show -v 4` shows the state of discovery. An NI that comes or goes is pushed. Modes are switched at run
time. If a node cannot be reached, the error has its NID.
"""
import time

import netns

YAML = '''net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: veth0
'''


class Pair:
    def __init__(self, topology):
        self.topology = topology
        self.nodes = {name: topology.node(name) for name in ('a', 'b')}
        topology.link(self.nodes['a'], '10.0.0.1/24', self.nodes['b'], '10.0.0.2/24')
        for node in self.nodes.values():
            yaml = topology.folder / f'{node.name}.yaml'
            yaml.write_text(YAML)
            daemon = node.start([netns.binary('ulnetd'), '--config', str(yaml), '--socket', self.socket(node.name)])
            daemon.wait_for('ulnetd: ready', 60)

    def socket(self, name):
        return str(self.topology.folder / f'{name}.sock')

    def ctl(self, name, *words, status=0):
        command = [netns.binary('ulnetctl'), '--socket', self.socket(name), *words]
        return self.nodes[name].run(command, timeout=60, status=status)

    def until(self, name, words, *wanted):
        end = time.monotonic() + 60
        while not all(text in (output := self.ctl(name, *words)) for text in wanted):
            assert time.monotonic() < end, f'{words} of {name} never said {wanted!r}:\n{output}'
            time.sleep(0.1)
        return output


def main():
    with netns.Topology() as topology:
        pair = Pair(topology)
        show = ('peer', 'show', '-v', '4')
        output = pair.ctl('a', 'discover', '10.0.0.2@tcp')
        assert 'Multi-Rail: true' in output and 'nid: 10.0.0.2@tcp' in output, output
        pair.until('a', show, 'letters: LPM')
        pair.until('b', show, 'letters: LPM', 'peer state: 273', 'state: active')
        output = pair.ctl('a', 'discover', '10.9.9.9@tcp9', status=255)
        assert 'failed to discover 10.9.9.9@tcp9: No route to host' in output, output

        # An NI that comes and goes: b receives a push, and its table follows.
        pair.nodes['a'].run(['ip', 'address', 'add', '10.0.0.7/24', 'dev', 'veth0'], timeout=5)
        pair.ctl('a', 'net', 'add', '--nid', '10.0.0.7@tcp')
        pair.until('b', show, 'nid: 10.0.0.7@tcp')
        pair.ctl('a', 'net', 'del', '--nid', '10.0.0.7@tcp')
        output = pair.ctl('b', *show)
        assert '10.0.0.7' not in output, f'net del was done before b knew:\n{output}'

        # Off: b receives one push, and then treats a as a node of one NID.
        pair.ctl('a', 'set', 'discovery', '0')
        pair.until('b', show, 'Multi-Rail: false')
        assert 'discovery: 0' in pair.ctl('a', 'global', 'show')
        pair.ctl('a', 'set', 'discovery', 'verify')
        assert 'discovery: verify' in pair.ctl('a', 'global', 'show')
        pair.ctl('a', 'set', 'discovery', '1')
        pair.ctl('a', 'discover', '10.0.0.2@tcp', '--force')
        pair.until('b', show, 'Multi-Rail: true')
    print('discover: passed')


if __name__ == '__main__':
    main()
