#!/usr/bin/env python3
"""If the link or the address of a tcp NI goes, the NI reports it and is chosen last. Pings go over the other rail
meanwhile. The NI comes back by itself. If a gateway ends, its route goes down. `ulnetctl watch` prints each change.
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
ROUTING = '''routing:
    enable: 1
'''


class Pair:
    def __init__(self, topology):
        self.topology = topology
        self.a, self.b = topology.node('a'), topology.node('b')
        self.daemons = {}
        for rail in (0, 1):
            topology.link(self.a, f'10.0.{rail}.1/24', self.b, f'10.0.{rail}.2/24')
        for node in (self.a, self.b):
            yaml = topology.folder / f'{node.name}.yaml'
            yaml.write_text(YAML + (ROUTING if node is self.b else ''))
            self.daemons[node.name] = node.start(
                [netns.binary('ulnetd'), '--config', str(yaml), '--socket', self.socket(node)])
            self.daemons[node.name].wait_for('ulnetd: ready', 60)

    def socket(self, node):
        return str(self.topology.folder / f'{node.name}.sock')

    def ctl(self, node, *words, status=0):
        return node.run([netns.binary('ulnetctl'), '--socket', self.socket(node), *words], timeout=60, status=status)

    def states(self, node):
        nets = json.loads(self.ctl(node, '--json', 'net', 'show'))['net']
        return {ni['nid']: ni['status'] for net in nets for ni in net['local NI(s)']}

    def until(self, node, nid, status):
        end = time.monotonic() + 30
        while (states := self.states(node))[nid] != status:
            assert time.monotonic() < end, f'{nid} of {node.name} never was {status}: {states}'
            time.sleep(0.1)

    def watch(self, *words):
        """Starts a `watch` on node a; its first line has come, so that it misses nothing from now on."""
        program = self.a.start([netns.binary('ulnetctl'), '--socket', self.socket(self.a), 'watch', *words])
        program.wait_for('"event":"now"', 60)
        return program

    def ping(self):
        self.ctl(self.a, 'ping', '10.0.0.2@tcp', '--timeout', '10')


def changed(program, name, before, after, reason):
    program.wait_for(f'"event":"change".*"object":"{name}","from":"{before}","to":"{after}","reason":"{reason}"', 60)


def main():
    with netns.Topology() as topology:
        pair = Pair(topology)
        for nid in ('10.0.0.1@tcp', '10.0.1.1@tcp'):
            pair.until(pair.a, nid, 'up')
        pair.ping()
        rail = pair.watch('--kind', 'ni', '--nid', '10.0.1.1@tcp')
        pair.b.ip('link', 'set', 'veth1', 'down')  # a's carrier goes with it
        changed(rail, '10.0.1.1@tcp', 'up', 'failed', 'link down')
        pair.until(pair.a, '10.0.1.1@tcp', 'down')
        assert pair.states(pair.a)['10.0.0.1@tcp'] == 'up', pair.states(pair.a)
        pair.ping()
        pair.b.ip('link', 'set', 'veth1', 'up')
        pair.until(pair.a, '10.0.1.1@tcp', 'up')
        changed(rail, '10.0.1.1@tcp', 'failed', 'up', 'link up')
        pair.a.ip('address', 'del', '10.0.1.1/24', 'dev', 'veth1')
        pair.until(pair.a, '10.0.1.1@tcp', 'down')
        pair.ping()
        pair.a.ip('address', 'add', '10.0.1.1/24', 'dev', 'veth1')
        pair.until(pair.a, '10.0.1.1@tcp', 'up')
        pair.ping()
        changed(rail, '10.0.1.1@tcp', 'up', 'failed', 'its address is gone')
        rail.stop()  # exit status 0 after SIGTERM
        events = [json.loads(line) for line in rail.output().splitlines()]
        assert [one['to'] for one in events] == ['up', 'failed', 'up', 'failed', 'up'], events

        pair.ctl(pair.a, 'route', 'add', '--net', 'tcp1', '--gateway', '10.0.0.2@tcp', '--hop', '2')
        routes = pair.watch('--kind', 'route,gateway')
        pair.daemons['b'].kill()
        for _ in range(5):  # the first may go out over the old connection
            pair.ctl(pair.a, 'ping', '10.0.0.2@tcp', status=None)
        changed(routes, '10.0.0.2@tcp', 'up', 'down', '[^"]*')
        changed(routes, 'tcp1 10.0.0.2@tcp', 'up', 'down', 'its gateway [^"]*')
        pair.daemons['a'].kill()
        routes.wait(60, status=None)
        assert 'ulnetd has ended' in routes.output(), routes.output()
        print('link and address, gone and back: told, and pings go on')


if __name__ == '__main__':
    main()
