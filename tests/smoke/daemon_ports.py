#!/usr/bin/env python3
"""ulnetd with packet ports: `ulnet: devices:` opens them, and the kernel's ping reaches them. `ulnetctl port show`
shows them, `ulnetctl capture` captures them while they work, `ulnetctl port reset` resets them. Link changes are
reported.
"""
import json
import pathlib
import shutil
import sys
import time

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
        - name: rail1
          device: ring
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

    def wait_for_status(self, *wanted, resets=0):
        """Waits until rail0 has one status of `wanted` and at least `resets` resets; returns it. A line of the log is
        no proof: an earlier change may have made it. The kernel reports a carrier up to a second late."""
        until = time.monotonic() + 90
        while True:
            [port] = self.ports('--name', 'rail0')
            if port['status'] in wanted and port['statistics']['resets'] >= resets:
                return port
            assert time.monotonic() < until, f'{port}\n{self.program.tail()}'
            time.sleep(0.05)


def ping(node, address, count=300):
    output = node.run(['ping', '-q', '-f', '-n', '-c', str(count), '-w', '20', '-s', '1000', address], 30)
    assert f' {count} received' in output, output


def shown(daemon, kernel):
    daemon.wait_for_status('up')
    ping(kernel, '10.9.0.2')
    ping(kernel, 'fd09::2')
    [port] = daemon.ports('--name', 'rail0')
    assert port['status'] == 'up' and port['driver'] == 'net_af_packet' and port['mtu'] == 1500, port
    assert port['addresses'] == ['10.9.0.2/24', 'fd09::2/64'], port
    assert port['statistics']['rx packets'] >= 600 and port['statistics']['tx packets'] >= 600, port
    assert 'queue' not in port and 'drops' not in port, port
    [port] = daemon.ports('--name', 'rail0', '-v', '2')
    queue = port['queue'][0]
    assert sum(q['rx packets'] for q in port['queue']) == port['statistics']['rx packets'], port
    assert sum(q['busy cycles'] for q in port['queue']) > 0 and queue['buffers']['held'] == 0, port
    bursts = queue['rx packets per burst']
    assert queue['idle cycles'] > 0 and queue['sleeps on'] == 'timer', port
    assert port['offloads']['tx checksum'] == 'software' and port['offloads']['rss'] == 'no', port
    assert port['device counts']['rx errors'] == 0, port
    kernel.run([sys.executable, '-c', 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); '
                '[s.sendto(b"nobody", ("10.9.0.2", 9999)) for _ in range(5)]'], 10)
    until = time.monotonic() + 20
    while daemon.ports('--name', 'rail0', '-v', '1')[0]['drops'].get('udp_port') != 5:
        assert time.monotonic() < until, daemon.ports('--name', 'rail0', '-v', '1')
        time.sleep(0.05)
    assert list(bursts) == ['1', '2-3', '4-7', '8-15', '16-31', '32-63', '64'] and sum(bursts.values()) > 0, port
    assert "there is no port 'rail9'; known: rail0, rail1" in daemon.ctl('port', 'show', '--name', 'rail9', status=234)


def captured(topology, daemon, kernel):
    path = topology.folder / 'port.pcapng'
    capture = daemon.node.start([netns.binary('ulnetctl'), '--socket', daemon.socket, 'capture', '--if', 'rail0',
                                 '--filter', 'icmp', '--output', str(path), '--seconds', '12'])
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
    assert 'libpcap refuses the filter' in refused, refused
    # If the client of a capture goes away, the port can be captured again.
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
    [port] = daemon.ports('--name', 'rail0')
    assert port['statistics']['resets'] == 1, port
    kernel.ip('link', 'set', 'veth0', 'down')
    daemon.wait_for_status('down')
    kernel.ip('link', 'set', 'veth0', 'up')
    daemon.wait_for_status('up')
    kernel.run(['ping', '-q', '-c', '1', '-w', '10', '10.9.0.2'], 15)


def pair(topology, kernel, node):
    """The veth pair of rail0, veth0 at both ends; made again it is another one of the same name."""
    kernel.ip('link', 'add', 'veth0', 'type', 'veth', 'peer', 'name', 'veth0', 'netns', node.netns)
    kernel.ip('addr', 'add', '10.9.0.1/24', 'dev', 'veth0')
    kernel.ip('addr', 'add', 'fd09::1/64', 'dev', 'veth0', 'nodad')
    kernel.ip('link', 'set', 'veth0', 'up')
    kernel.run(['ethtool', '-K', 'veth0', 'tx', 'off'], 5, status=None)


def device_gone_and_back(topology, daemon, kernel):
    """An interface that is replaced is opened by itself. If a device cannot be opened again, ulnetd reports and shows
    that, and tries until the device is there."""
    before = daemon.ports('--name', 'rail0')[0]['statistics']['resets']
    kernel.ip('link', 'del', 'veth0')
    pair(topology, kernel, daemon.node)
    before = daemon.wait_for_status('up', resets=before + 1)['statistics']['resets']
    kernel.run(['ping', '-q', '-c', '1', '-w', '20', '10.9.0.2'], 30)
    kernel.ip('link', 'del', 'veth0')
    daemon.wait_for_status('down', 'closed')  # closed: ulnetd has also tried to open it again
    why = 'port rail0: the system has no interface of this name: veth0'
    said = daemon.ctl('port', 'reset', '--name', 'rail0', status=255)
    assert f'{why}; the port is closed, and ulnet tries again until it opens' in said, said
    [port] = daemon.ports('--name', 'rail0')
    assert port['status'] == 'closed' and f'port rail0: {port["problem"]}' == why, port
    assert port['statistics']['resets failed'] >= 1 and port['statistics']['resets'] == before, port
    busy = daemon.ctl('port', 'reset', '--name', 'rail0', status=255)  # tried at once, with the same error
    assert why in busy, busy
    pair(topology, kernel, daemon.node)
    daemon.wait_for_status('up', resets=before + 1)
    kernel.run(['ping', '-q', '-c', '1', '-w', '20', '10.9.0.2'], 30)
    ping(kernel, '10.9.0.2')
    port = daemon.wait_for_status('up')
    assert 'problem' not in port and port['statistics']['resets'] == before + 1, port


def captured_to_the_end(topology, daemon, kernel):
    """When a daemon stops, its captures write out all packets so far, and end."""
    path = topology.folder / 'whole.pcapng'
    watcher = daemon.node.start([netns.binary('ulnetctl'), '--socket', daemon.socket, 'capture', '--if', 'rail0',
                                 '--output', str(path)])
    while not path.exists() or path.stat().st_size == 0:
        kernel.run(['ping', '-q', '-c', '1', '10.9.0.2'], 10)
        assert watcher.running(), watcher.output()
    kernel.run(['ping', '-q', '-f', '-c', '200', '10.9.0.2'], 20)
    daemon.program.stop(30)
    watcher.wait(10)
    said = watcher.output()
    assert 'skipped: 0' in said, said
    seen = kernel.run(['tshark', '-n', '-r', str(path), '-Y', 'icmp', '-T', 'fields', '-e', 'icmp.type'], 30)
    kinds = [line for line in seen.splitlines() if line in ('0', '8')]
    assert kinds.count('8') >= 200 and kinds.count('8') == kinds.count('0'), seen


def refused(topology):
    node = topology.node('refused')
    said = Daemon(topology, node, YAML.replace('10.9.0.2/24', '10.9.0.2/99'), status=2).said
    assert "rail0: addresses: '10.9.0.2/99' is not an IP address with prefix length" in said, said
    said = Daemon(topology, node, YAML.replace('iface=veth0', 'iface=none0'), status=1).said
    assert 'port rail0' in said, said


def main():
    if shutil.which('tshark') is None:
        netns.skip('captures are read with tshark, which is not here (package tshark)')
    with netns.Topology() as topology:
        kernel, node = topology.node('kernel'), topology.node('node')
        for name in ('default', 'all'):
            node.run(['sysctl', '-qw', f'net.ipv6.conf.{name}.disable_ipv6=1'], 5)
        pair(topology, kernel, node)
        for one in (kernel, node):
            one.interface_count += 1
        topology.link(kernel, '10.0.0.1/24', node, '10.0.0.2/24')
        refused(topology)
        daemon = Daemon(topology, node, YAML)
        kernel.run(['ping', '-q', '-c', '1', '-w', '10', '10.9.0.2'], 15)
        kernel.run(['ping', '-q', '-c', '1', '-w', '10', 'fd09::2'], 15)
        shown(daemon, kernel)
        captured(topology, daemon, kernel)
        reset_and_link(daemon, kernel)
        device_gone_and_back(topology, daemon, kernel)
        captured_to_the_end(topology, daemon, kernel)
        print('ports of ulnetd: shown, captured, reset, link told, closed and opened again')
        assert pathlib.Path(daemon.socket).exists() is False


if __name__ == '__main__':
    main()
