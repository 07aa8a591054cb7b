#!/usr/bin/env python3
"""The LNet dissector of tshark decodes the traffic between two ulnetd without a complaint. The traffic is pings, puts
and gets of small and large payloads over real sockets. Known faults of the dissector are left out. PUTs to
unfamiliar portals are malformed for the dissector (tests/wire/captures/README.md). The dissector cannot decode the
payload of a push, also of a kernel's push, nor the bytes before the first message.
"""
import shutil
import subprocess
import sys
import time

import netns

YAML = '''net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: veth0
ulnet:
    perf_target: true
'''


def tshark(path, *words, check=True):
    command = ['tshark', '-r', str(path), *words]
    return subprocess.run(command, check=check, capture_output=True, text=True).stdout


# A connection that is refused or made, from a port that nobody else uses: its SYN is in the capture.
PROBE = '''
import socket, sys
probe = socket.socket()
probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
probe.bind(("", int(sys.argv[1])))
probe.connect_ex(("10.0.0.2", 988))
'''


def until_captured(node, path, first_port):
    """Until the file has a probe of this moment, and so everything before it."""
    end = time.monotonic() + 60
    for port in range(first_port, first_port + 1000):
        node.run([sys.executable, '-c', PROBE, str(port)], 30)
        if path.exists() and tshark(path, '-Y', f'tcp.srcport == {port}', check=False):
            return
        assert time.monotonic() < end, 'tshark captures nothing'


def main():
    if shutil.which('tshark') is None:
        netns.skip('tshark is not installed')
    with netns.Topology() as topology:
        a, b = topology.node('a'), topology.node('b')
        topology.link(a, '10.0.0.1/24', b, '10.0.0.2/24')
        path = topology.folder / 'traffic.pcap'
        capture = a.start(['tshark', '-q', '-i', 'veth0', '-B', '64', '-f', 'tcp port 988', '-F', 'pcap', '-w',
                           str(path)])
        capture.wait_for('Capturing on', 60)
        until_captured(a, path, 20000)
        for node in (a, b):
            yaml = topology.folder / f'{node.name}.yaml'
            yaml.write_text(YAML)
            socket = str(topology.folder / f'{node.name}.sock')
            daemon = node.start([netns.binary('ulnetd'), '--config', str(yaml), '--socket', socket])
            daemon.wait_for('ulnetd: ready', 60)
        socket = str(topology.folder / 'a.sock')
        a.run([netns.binary('ulnetctl'), '--socket', socket, 'ping', '10.0.0.2@tcp', '--timeout', '10'], 60)
        for operation in ('put', 'get'):
            a.run([netns.binary('ulnet-perf'), '--socket', socket, operation, '--size', '0,100,4K,64K,1M',
                   '--count', '3', '10.0.0.2@tcp'], 120)
        until_captured(a, path, 30000)
        capture.stop(status=None)
        types = tshark(path, '-Y', 'lnet', '-T', 'fields', '-e', 'lnet.msg_type').replace(',', '\n').split()
        counts = {name: types.count(str(number)) for number, name in enumerate(('ACK', 'PUT', 'GET', 'REPLY'))}
        # The dissector takes no message that shares a segment with the HELLO: a few may be missing.
        assert all(count >= 12 for count in counts.values()), counts
        push = '(lnet.ptl_index == 0 && lnet.msg_type == 1)'
        complaints = tshark(path, '-Y', f'(_ws.expert || _ws.malformed) && lnet && !(lnet.ptl_index == 63) && !{push}',
                            '-T', 'fields', '-e', 'frame.number', '-e', '_ws.expert.message').strip().splitlines()
        complaints = [line for line in complaints if not all_tcp(line)]
        assert not complaints, f'tshark complains: {complaints[:5]}'
        print(f'tshark decodes {counts} without a complaint')


def all_tcp(line):
    """True when the complaint is about TCP's pace (retransmission, window, reset), not about LNet."""
    text = line.split('\t', 1)[-1].lower()
    return any(words in text for words in ('retransmission', 'window', 'connection reset', 'connection finish',
                                           'connection establish', 'duplicate ack', 'acked', 'previous segment',
                                           'keep-alive'))


if __name__ == '__main__':
    main()
