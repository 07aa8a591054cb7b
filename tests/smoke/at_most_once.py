#!/usr/bin/env python3
"""No PUT arrives twice. Two processes have two rails. One process sends PUTs of 64 B to 1 MiB without acknowledgement,
and the other counts them by match bits. Forged FINs and RSTs end the connections of either rail in the midst of sends.

ULNET_FULL=1: ten minutes; else half a minute.
"""
import json
import os
import pathlib
import sys

import netns

FULL = os.environ.get('ULNET_FULL', '') not in ('', '0')
SECONDS = 600 if FULL else 30
RAILS = 2
RESET = pathlib.Path(__file__).with_name('reset_tcp.py')

# Small socket buffers: sends stay half done. Short keepalive: a side may not receive a FIN or RST that the other got.
# Short transaction timeout: a forged segment may cost the answer to a ping, and PUTs wait for the ping's timeout.
YAML = '''global:
    transaction_timeout: 10
net:
    - net type: tcp
      local NI(s):
''' + ''.join(f'        - interfaces:\n              0: veth{rail}\n' for rail in range(RAILS)) + '''ulnet:
    workers: 1
    socklnd:
        tx_buffer_size: 65536
        keepalive_idle: 1
        keepalive_intvl: 1
        keepalive_count: 2
        min_reconnectms: 50
        max_reconnectms: 200
'''


def report(program):
    return json.loads(program.output().strip().splitlines()[-1])


def main():
    with netns.Topology() as topology:
        sender, counter = topology.node('a'), topology.node('b')
        for rail in range(RAILS):
            topology.link(sender, f'10.0.{rail}.1/24', counter, f'10.0.{rail}.2/24')
        config = topology.folder / 'node.yaml'
        config.write_text(YAML)
        counting = counter.start([netns.binary('put_once'), 'count', str(config)])
        counting.wait_for('^counting$', 60)
        sending = sender.start([netns.binary('put_once'), 'send', str(config), '10.0.0.2@tcp', str(SECONDS)])
        forging = [counter.start([sys.executable, str(RESET), f'veth{rail}', str(SECONDS), kind, '0.3'])
                   for rail in range(RAILS) for kind in ('fin', 'rst')]
        sending.wait(SECONDS + 180)
        forged = []
        for program in forging:
            program.wait(60)
            forged.append(int(program.wait_for(r'^(\d+) segments sent$', 1).group(1)))
        counting.stop(60, None)
        sent, arrived = report(sending), report(counting)
        print(f'sent {sent}, arrived {arrived}, forged {forged}', flush=True)
        assert arrived['twice'] == 0, f'PUTs arrived twice:\n{counting.tail()}'
        assert counting.process.returncode == 0, counting.tail()
        assert min(forged) >= SECONDS // 5, f'too few forged segments: {forged}'
        assert arrived['arrived'] > 1000, 'too little traffic'
        assert arrived['arrived'] <= sent['sent']
    print('at_most_once: passed')


if __name__ == '__main__':
    main()
