"""A capture of a port shows the RoCE packets that were dropped, each with its reason, and the counters agree. The
packets come from a hostile sender over memif. Afterwards an honest client connects and is served.
"""
import os
import shutil
import sys
import time

import netns
import roce

# By the kind of packets: the reasons why they are dropped.
REASONS = {'nobody': {'roce_qp'}, 'damaged': {'roce_icrc'}, 'mads': {'roce_mad'}, 'requests': {'roce_busy'}}


def flooded(topology, server, kind):
    """The reasons that a capture shows, and those that the port has counted."""
    before = server.port('p0').get('drops', {})
    path = topology.folder / f'{kind}.pcapng'
    watcher = server.node.start([netns.binary('ulnetctl'), '--socket', server.socket, 'capture', '--if', 'p0',
                                 '--filter', 'udp port 4791', '--output', str(path), '--seconds', '2'])
    memif = f'memif,role=client,socket={topology.folder}/a,socket-abstract=no'
    sender = server.node.start([os.environ['ULNET_HOSTILE'], '--device', memif, '--address', '10.9.0.1/24', '--peer',
                                '10.9.0.2', '--mtu', '4200', '--kind', kind, '--seconds', '4'])
    watcher.wait(30)
    sender.wait(60)
    lines = server.node.run(['tshark', '-n', '-r', str(path), '-T', 'fields', '-e', 'frame.comment'], 60).splitlines()
    after = server.port('p0').get('drops', {})
    shown = {line for line in lines if line.startswith('dropped')}
    return shown, {name for name in after if after[name] > before.get(name, 0)}


def main():
    if shutil.which('tshark') is None:
        netns.skip('there is no tshark here')
    with netns.Topology() as topology:
        server = roce.Daemon(topology, 'server', [('p0', 'server', 'a', '10.9.0.2', 'o2ib')], workers=1)
        for kind, reasons in REASONS.items():
            shown, counted = flooded(topology, server, kind)
            seen = {reason for reason in reasons if any(reason in comment for comment in shown)}
            assert seen == reasons, f'{kind}: the capture has {shown}'
            assert reasons <= counted, f'{kind}: counted {counted}'
            print(f'{kind}: captured {sorted(shown)}')
        client = roce.Daemon(topology, 'client', [('p0', 'client', 'a', '10.9.0.1', 'o2ib')], workers=1)
        client.wait_for_links()
        until = time.monotonic() + 60
        while roce.failed(client.perf('put', '10.9.0.2@o2ib', '--count', '10')) != 0:
            assert time.monotonic() < until, server.program.tail()
            time.sleep(0.5)


if __name__ == '__main__':
    sys.exit(main())
