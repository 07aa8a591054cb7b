"""o2ib over our RoCE on packet ports: a client, a router and a server, joined by memif. Payloads of each size pass the
router and are verified. Captures show well-formed RoCE packets both ways. A port is reset, and the server loses its
power, under load.
"""
import json
import shutil
import sys
import time

import netns

PORT = '''
        - name: {name}
          device: memif,role={role},socket={folder}/{socket},socket-abstract=no
          addresses: [{address}/24]
          mtu: 4200
          in_flight: 512'''
NET = '''
    - net type: {net}
      local NI(s):
        - interfaces:
              0: {name}
          lnd tunables:
              tos: 104'''
SIZES = '0,1,4K,4001,64K,1M'


class Daemon:
    """ulnetd with ports `(name, role, socket, address, net)`, and lines of YAML behind them."""

    def __init__(self, topology, name, ports, more='', workers=2, start=True):
        self.node, self.folder = topology.node(name), topology.folder
        self.socket = str(self.folder / f'{name}.sock')
        self.path = self.folder / f'{name}.yaml'
        devices = ''.join(PORT.format(name=p[0], role=p[1], socket=p[2], address=p[3], folder=self.folder)
                          for p in ports)
        nets = ''.join(NET.format(net=p[4], name=p[0]) for p in ports)
        self.path.write_text(f'ulnet:\n    workers: {workers}\n    perf_target: 1\n    devices:{devices}\n'
                             f'net:{nets}\n{more}')
        self.ports = [p[0] for p in ports]
        if start:
            self.start()

    def start(self):
        self.program = self.node.start([netns.binary('ulnetd'), '--config', str(self.path), '--socket', self.socket])
        self.program.wait_for('ulnetd: ready', 60)

    def ctl(self, *words, status=0):
        return self.node.run([netns.binary('ulnetctl'), '--socket', self.socket, *words], 60, status=status)

    def port(self, name):
        return json.loads(self.ctl('--json', 'port', 'show', '--name', name, '-v', '2'))['port'][0]

    def wait_for_links(self):
        until = time.monotonic() + 60
        while True:
            ports = [self.port(name) for name in self.ports]
            if all(port['status'] == 'up' for port in ports):
                return
            states = [(port['name'], port['status'], port.get('problem'), port['statistics']) for port in ports]
            assert time.monotonic() < until, f'{states}\n{self.program.tail()}'
            time.sleep(0.05)

    def perf(self, *words, timeout=120):
        """Runs the load generator of this node; returns its rows."""
        out = self.node.run([netns.binary('ulnet-perf'), '--json', '--socket', self.socket, *words], timeout,
                            status=None)
        try:
            return json.loads(out)
        except json.JSONDecodeError:
            raise AssertionError(f'{words}: {out}\n{self.program.tail()}') from None


def failed(result):
    return sum(row['failed'] for row in result['runs'])


def exchange(client, target):
    for operation in ('put', 'get'):
        result = client.perf(operation, target, '--size', SIZES, '--count', '20', '--verify')
        assert failed(result) == 0, result


def captured(topology, client):
    path = topology.folder / 'roce.pcapng'
    watcher = client.node.start([netns.binary('ulnetctl'), '--socket', client.socket, 'capture', '--if', 'p0',
                                 '--filter', 'udp port 4791', '--output', str(path), '--seconds', '3'])
    while watcher.running():
        exchange(client, '10.9.1.3@o2ib1')
    watcher.wait(10)
    fields = ['-T', 'fields', '-e', 'ip.src', '-e', 'infiniband.bth.opcode', '-e', 'ip.dsfield']
    lines = client.node.run(['tshark', '-n', '-r', str(path), *fields], 60).splitlines()
    for source in ('10.9.0.1', '10.9.0.2'):
        mine = [line.split('\t') for line in lines if line.startswith(source)]
        seen = {opcode for _, opcode, _ in mine}
        marks = {mark for _, opcode, mark in mine if opcode != '100'}  # not of the connection manager
        assert marks == {'0x68'}, f'{source}: tos is {marks}'
        assert {'4', '17'} <= seen, f'{source}: {seen}'  # SEND Only, Acknowledge
        assert seen & {'6', '7', '8', '10'}, f'{source} has written nothing: {seen}'
    # tshark takes some messages of LNet for RPC over RDMA if the capture begins behind their requests.
    complaints = client.node.run(['tshark', '-n', '-r', str(path), '--disable-protocol', 'rpcordma',
                                  '-o', 'ip.check_checksum:TRUE',
                                  '-Y', '_ws.malformed or ip.checksum.status == 0'], 60)
    complaints = [line for line in complaints.splitlines() if 'RRoCE' in line or 'IB' in line]
    assert not complaints, complaints[:5]


def counts_are_clean(*daemons):
    for daemon in daemons:
        for name in daemon.ports:
            roce = daemon.port(name)['roce']
            assert roce['acks_sent'] > 0 and roce['acks_received'] > 0, roce
            bad = {key: value for key, value in roce.items() if key.startswith('naks') and 'sequence' not in key}
            assert not bad, f'{name}: {roce}'


def kept_by(router, before=0):
    """The router sends payloads on from their packets, and gives all of these back. Packets that were handed over to
    another worker are copied."""
    kept = sum(router.port(name)['roce'].get('packets_kept', 0) for name in router.ports)
    assert kept > before + 256, f'{kept}, before {before}: less than one payload of 1 MiB'
    until = time.monotonic() + 30
    while any(queue['buffers']['held'] for name in router.ports for queue in router.port(name)['queue']):
        assert time.monotonic() < until, [router.port(name) for name in router.ports]
        time.sleep(0.1)
    return kept


def reset_under_load(client, daemon, size):
    load = client.node.start([netns.binary('ulnet-perf'), '--json', '--socket', client.socket, 'put', '10.9.1.3@o2ib1',
                              '--size', size, '--concurrency', '4', '--duration', '4s'])
    time.sleep(1)
    daemon.ctl('port', 'reset', '--name', 'p0')
    load.wait(120, status=None)
    daemon.wait_for_links()
    exchange_again(client)
    assert daemon.port('p0')['statistics']['resets'] >= 1


def exchange_again(client):
    """After a failure, the path may need some time to count as good again."""
    until = time.monotonic() + 60
    while failed(client.perf('put', '10.9.1.3@o2ib1', '--count', '10')) != 0:
        assert time.monotonic() < until, client.program.tail()
        time.sleep(0.5)
    exchange(client, '10.9.1.3@o2ib1')


def power_lost(client, server):
    load = client.node.start([netns.binary('ulnet-perf'), '--json', '--socket', client.socket, 'put', '10.9.1.3@o2ib1',
                              '--size', '64K', '--concurrency', '4', '--duration', '3s', '--drain', '1s'])
    time.sleep(1)
    server.program.kill()
    load.wait(120, status=None)
    server.start()
    server.wait_for_links()
    exchange_again(client)


def refused(topology):
    """Configurations that cannot work end with a sentence that says why."""
    def said(name, ports, wrong, more=''):
        daemon = Daemon(topology, name, ports, more, start=False)
        if wrong:
            daemon.path.write_text(daemon.path.read_text().replace(*wrong))
        command = [netns.binary('ulnetd'), '--config', str(daemon.path), '--socket', daemon.socket]
        return daemon.node.run(command, 60, status=1)

    one = [('p0', 'server', 'x', '10.9.0.2', 'o2ib')]
    output = said('few-queues', one, ('in_flight: 512', 'queues: 1'))
    assert 'the port has fewer queues than ulnet has workers' in output, output
    output = said('twice', one + [('p1', 'server', 'y', '10.9.0.2', 'o2ib1')], None)
    assert 'port p1: another port has the same IP address' in output, output
    output = said('no-tcp', one, ('net type: o2ib', 'net type: tcp'))
    assert 'this interface is a packet port: only o2ib networks use ports' in output, output


def main():
    with netns.Topology() as topology:
        refused(topology)
        route = 'route:\n    - net: {}\n      gateway: {}\n'
        router = Daemon(topology, 'router', [('p0', 'server', 'a', '10.9.0.2', 'o2ib'),
                                             ('p1', 'server', 'b', '10.9.1.2', 'o2ib1')],
                        'routing:\n    enable: 1\nbuffers:\n    tiny: 256\n    small: 128\n    large: 16\n')
        client = Daemon(topology, 'client', [('p0', 'client', 'a', '10.9.0.1', 'o2ib')],
                        route.format('o2ib1', '10.9.0.2@o2ib'))
        server = Daemon(topology, 'server', [('p0', 'client', 'b', '10.9.1.3', 'o2ib1')],
                        route.format('o2ib', '10.9.1.2@o2ib1'))
        for daemon in (router, client, server):
            daemon.wait_for_links()
        exchange(client, '10.9.0.2@o2ib')
        exchange(client, '10.9.1.3@o2ib1')
        exchange(server, '10.9.0.1@o2ib')
        counts_are_clean(router, client, server)
        if shutil.which('tshark') is not None:
            captured(topology, client)
        kept = kept_by(router)
        reset_under_load(client, client, '64K')
        reset_under_load(client, server, '1M')
        kept_by(router, kept)
        power_lost(client, server)
        print('o2ib over RoCE on ports: verified, captured, reset, power lost')


if __name__ == '__main__':
    sys.exit(main())
