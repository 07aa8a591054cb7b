#!/usr/bin/env python3
"""If its interface or address is missing, an NI waits for it. The NI comes from the configuration file or `net add`.
ulnetd starts nevertheless and reports the NI. When the kernel reports the interface or address, ulnetd adds the NI by
itself.
"""
import json
import time

import netns

YAML = '''net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: veth0
        - interfaces:
              0: veth1
'''


class Daemon:
    def __init__(self, topology):
        self.node = topology.node('a')
        self.other = topology.node('b')
        topology.link(self.node, '10.0.0.1/24', self.other, '10.0.0.2/24')
        yaml = topology.folder / 'a.yaml'
        yaml.write_text(YAML)
        self.socket = str(topology.folder / 'a.sock')
        self.daemon = self.node.start([netns.binary('ulnetd'), '--config', str(yaml), '--socket', self.socket])
        self.daemon.wait_for('ulnetd: ready', 60)

    def ctl(self, *words, status=0):
        return self.node.run([netns.binary('ulnetctl'), '--socket', self.socket, *words], 60, status)

    def nis(self):
        """The state of each interface in net show: (nid, status, the missing thing)."""
        shown = json.loads(self.ctl('--json', 'net', 'show', '--net', 'tcp'))['net'][0]['local NI(s)']
        return {ni['interfaces']['0'] if 'interfaces' in ni else ni['nid']:
                (ni.get('nid'), ni['status'], ni.get('waits for')) for ni in shown}

    def until(self, interface, nid, status):
        end = time.monotonic() + 30
        while self.nis().get(interface, (None, None))[:2] != (nid, status):
            assert time.monotonic() < end, f'{interface} never was {nid} {status}: {self.nis()}'
            time.sleep(0.1)


def main():
    with netns.Topology() as topology:
        a = Daemon(topology)
        assert 'the NI of tcp on veth1 waits: there is no interface veth1' in a.daemon.output(), a.daemon.output()
        a.until('veth0', '10.0.0.1@tcp', 'up')
        assert a.nis()['veth1'] == (None, 'waiting', 'there is no interface veth1'), a.nis()
        answer = a.ctl('net', 'add', '--nid', '10.0.2.1@tcp')
        assert 'note: 10.0.2.1@tcp waits: ' in answer, answer
        assert a.nis()['10.0.2.1@tcp'][1] == 'waiting', a.nis()

        # A backup with NIs that wait may be imported again.
        backup = topology.folder / 'backup.yaml'
        backup.write_text(a.ctl('export', '--backup'))
        before = a.nis()
        a.ctl('import', str(backup))
        assert a.nis() == before, (a.nis(), before)

        # The interface comes without an address, then with one; the address that was named comes on it, too.
        topology.link(a.node, None, a.other, '10.0.1.2/24')
        a.until('veth1', None, 'waiting')
        a.node.ip('address', 'add', '10.0.1.1/24', 'dev', 'veth1')
        a.until('veth1', '10.0.1.1@tcp', 'up')
        a.node.ip('address', 'add', '10.0.2.1/24', 'dev', 'veth0')
        a.daemon.wait_for('10.0.2.1@tcp: added on veth0, which is there now', 30)
        assert all(status != 'waiting' for _, status, _ in a.nis().values()), a.nis()

        # A waiting NI is deleted by the interface that it was added with.
        a.ctl('net', 'add', '--net', 'tcp', '--if', 'veth7')
        assert a.nis()['veth7'][1] == 'waiting', a.nis()
        a.ctl('net', 'del', '--net', 'tcp', '--if', 'veth7')
        assert 'veth7' not in a.nis(), a.nis()
    print('waiting: passed')


if __name__ == '__main__':
    main()
