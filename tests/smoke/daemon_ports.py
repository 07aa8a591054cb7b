#!/usr/bin/env python3
"""ulnetd with packet ports: `ulnet: devices:` opens them, the kernel's ping reaches them, `ulnetctl port show` shows
them, `ulnetctl capture` captures them while they work, `ulnetctl port reset` resets them, link changes are told.
"""
import json
import pathlib

import netns

YAML = '''net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: veth1
ulnet:
    devices:
        - name: rail0
          device: af_packet,iface=veth0
          addresses: [10.9.0.2/24, fd09::2/64]
          in_flight: 256
'''


class Daemon:
    def __init__(self, topology, node, yaml, status=None):
        self.node, self.socket = node, str(topology.folder / f'{node.name}.sock')
        path = topology.folder / f'{node.name}.yaml'
        path.write_text(yaml)
        command = [netns.binary('ulnetd'), '--config', str(path), '--socket', self.socket]
        if status is not None:
            self.said = node.run(command, 30, status=status)
            return
        self.program = node.start(command)
        self.program.wait_for('ulnetd: ready', 60)

    def ctl(self, *words, status=0, timeout=30):
        return self.node.run([netns.binary('ulnetctl'), '--socket', self.socket, *words], timeout, status=status)

    def ports(self, *words):
        return json.loads(self.ctl('--json', 'port', 'show', *words))['port']


def ping(node, address, count=300):
    output = node.run(['ping', '-q', '-f', '-n', '-c', str(count), '-w', '20', '-s', '1000', address], 30)
    assert f' {count} received' in output, output


def shown(daemon, kernel):
    daemon.program.wait_for('port rail0: .*link up', 30)  # the kernel tells of a new pair's carrier a second late
    ping(kernel, '10.9.0.2')
    ping(kernel, 'fd09::2')
    [port] = daemon.ports()
    assert port['status'] == 'up' and port['driver'] == 'net_af_packet' and port['mtu'] == 1500, port
    assert port['addresses'] == ['10.9.0.2/24', 'fd09::2/64'], port
    assert port['statistics']['rx packets'] >= 600 and port['statistics']['tx packets'] >= 600, port
    assert 'queue' not in port and 'drops' not in port, port
    [port] = daemon.ports('--name', 'rail0', '-v', '2')
    queue = port['queue'][0]
    assert sum(q['rx packets'] for q in port['queue']) == port['statistics']['rx packets'], port
    assert sum(q['busy cycles'] for q in port['queue']) > 0 and queue['buffers']['held'] == 0, port
    bursts = queue['rx packets per burst']
    assert list(bursts) == ['1', '2-3', '4-7', '8-15', '16-31', '32-63', '64'] and sum(bursts.values()) > 0, port
    assert "there is no port 'rail1'; known: rail0" in daemon.ctl('port', 'show', '--name', 'rail1', status=234)


def captured(topology, daemon, kernel):
    path = topology.folder / 'port.pcapng'
    capture = daemon.node.start([netns.binary('ulnetctl'), '--socket', daemon.socket, 'capture', '--if', 'rail0',
                                 '--filter', 'icmp', '--output', str(path), '--seconds', '4'])
    for _ in range(100):
        if path.exists() and path.stat().st_size > 0:
            break
        kernel.run(['ping', '-q', '-c', '1', '10.9.0.2'], 10)
    busy = daemon.ctl('capture', '--if', 'rail0', '--output', '/dev/null', status=255)
    assert 'captured already' in busy, busy
    kernel.run(['ping', '-q', '-f', '-c', '50', '10.9.0.2'], 20)
    ping(kernel, 'fd09::2', 20)  # not ICMP of IPv4: the filter leaves it out
    capture.wait(30)
    said = capture.output()
    assert 'written:' in said and 'skipped: 0' in said, said
    packets = kernel.run(['tshark', '-n', '-r', str(path), '-T', 'fields', '-e', 'icmp.type', '-e', 'frame.protocols'],
                         30).splitlines()
    packets = [line for line in packets if 'ethertype' in line]
    kinds = [line.split('\t')[0] for line in packets]
    assert kinds.count('8') >= 50 and kinds.count('8') == kinds.count('0') and set(kinds) <= {'0', '8'}, kinds
    refused = daemon.ctl('capture', '--if', 'rail0', '--output', '/dev/null', '--filter', 'no such thing', status=255)
    assert 'the filter is not understood' in refused, refused
    # Whoever watches may go away at any time: the port can be captured again.
    watcher = daemon.node.start([netns.binary('ulnetctl'), '--socket', daemon.socket, 'capture', '--if', 'rail0',
                                 '--output', str(topology.folder / 'cut.pcapng')])
    while not (topology.folder / 'cut.pcapng').exists() or (topology.folder / 'cut.pcapng').stat().st_size == 0:
        kernel.run(['ping', '-q', '-c', '1', '10.9.0.2'], 10)
    watcher.kill()
    for _ in range(50):
        said = daemon.ctl('capture', '--if', 'rail0', '--output', '/dev/null', '--seconds', '1', status=None)
        if 'captured already' not in said:
            break
    assert 'written:' in said, said


def reset_and_link(daemon, kernel):
    daemon.ctl('port', 'reset', '--name', 'rail0')
    kernel.run(['ping', '-q', '-c', '1', '-w', '10', '10.9.0.2'], 15)
    ping(kernel, '10.9.0.2')
    [port] = daemon.ports()
    assert port['statistics']['resets'] == 1, port
    kernel.ip('link', 'set', 'veth0', 'down')
    daemon.program.wait_for('port rail0: link down', 30)
    [port] = daemon.ports()
    assert port['status'] == 'down', port
    kernel.ip('link', 'set', 'veth0', 'up')
    daemon.program.wait_for('link down[^~]*port rail0: link up', 30)
    kernel.run(['ping', '-q', '-c', '1', '-w', '10', '10.9.0.2'], 15)


def refused(topology):
    node = topology.node('refused')
    said = Daemon(topology, node, YAML.replace('10.9.0.2/24', '10.9.0.2/99'), status=1).said
    assert "rail0: addresses: '10.9.0.2/99' is not an IP address with prefix length" in said, said
    said = Daemon(topology, node, YAML.replace('iface=veth0', 'iface=none0'), status=1).said
    assert 'port rail0' in said, said


def main():
    with netns.Topology() as topology:
        kernel, node = topology.node('kernel'), topology.node('node')
        for name in ('default', 'all'):
            node.run(['sysctl', '-qw', f'net.ipv6.conf.{name}.disable_ipv6=1'], 5)
        topology.link(kernel, ['10.9.0.1/24', 'fd09::1/64'], node, None)
        topology.link(kernel, '10.0.0.1/24', node, '10.0.0.2/24')
        kernel.run(['ethtool', '-K', 'veth0', 'tx', 'off'], 5, status=None)
        refused(topology)
        daemon = Daemon(topology, node, YAML)
        kernel.run(['ping', '-q', '-c', '1', '-w', '10', '10.9.0.2'], 15)
        kernel.run(['ping', '-q', '-c', '1', '-w', '10', 'fd09::2'], 15)
        shown(daemon, kernel)
        captured(topology, daemon, kernel)
        reset_and_link(daemon, kernel)
        daemon.program.stop(30)
        print('ports of ulnetd: shown, captured, reset, link told')
        assert pathlib.Path(daemon.socket).exists() is False


if __name__ == '__main__':
    main()
