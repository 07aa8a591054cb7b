#!/usr/bin/env python3
"""The main job with real processes: client, router and server, each an ulnetd in a network namespace of its own, two
tcp nets. The first part runs at full speed both ways at once, without one failed operation. The second compares every
byte, with payloads that stay in the router's kernel and without. In the third part, connections are reset, and the
router is killed and restarted all the while. Each operation ends once, with success or a named error, and traffic
resumes by itself.

ULNET_FULL=1: 60 s of each instead of a few.
"""
import json
import os
import pathlib
import re
import sys
import threading
import time

import netns

FULL = os.environ.get('ULNET_FULL', '') not in ('', '0')
SANITIZED = os.environ.get('ULNET_SANITIZED') == '1'
RESET = pathlib.Path(__file__).with_name('reset_tcp.py')
SECONDS = 60 if FULL else 5
SHORT_TIMEOUTS = 'global:\n    transaction_timeout: 10\n    retry_count: 2\n'

CONFIG = {
    'client': ('tcp', 'veth0', 'tcp1', '10.1.0.2@tcp'),
    'server': ('tcp1', 'veth0', 'tcp', '10.2.0.2@tcp1'),
}


def end_node_yaml(name):
    net, interface, remote, gateway = CONFIG[name]
    return f'''net:
    - net type: {net}
      local NI(s):
        - interfaces:
              0: {interface}
          lnd tunables:
              conns_per_peer: 1
              timeout: 5
route:
    - net: {remote}
      gateway: {gateway}
{SHORT_TIMEOUTS}ulnet:
    perf_target: true
'''


ROUTER_YAML = '''net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: veth0
          lnd tunables:
              timeout: 5
    - net type: tcp1
      local NI(s):
        - interfaces:
              0: veth1
          lnd tunables:
              timeout: 5
routing:
    enable: 1
buffers:
    tiny: 512
    small: 4096
    large: 256
''' + SHORT_TIMEOUTS + '''ulnet:
    forwarding: enabled
'''


class Cluster:
    def __init__(self, topology):
        self.topology = topology
        self.nodes = {name: topology.node(name) for name in ('client', 'router', 'server')}
        topology.link(self.nodes['client'], '10.1.0.1/24', self.nodes['router'], '10.1.0.2/24')
        topology.link(self.nodes['router'], '10.2.0.2/24', self.nodes['server'], '10.2.0.1/24')
        self.daemons = {}
        for name in self.nodes:
            text = ROUTER_YAML if name == 'router' else end_node_yaml(name)
            (topology.folder / f'{name}.yaml').write_text(text)
            self.start(name)

    def socket(self, name):
        return str(self.topology.folder / f'{name}.sock')

    def start(self, name):
        yaml = str(self.topology.folder / f'{name}.yaml')
        daemon = self.nodes[name].start([netns.binary('ulnetd'), '--config', yaml, '--socket', self.socket(name)])
        daemon.wait_for(r'ulnetd: ready', 60)
        self.daemons[name] = daemon

    def ctl(self, name, *words, status=0):
        return self.nodes[name].run([netns.binary('ulnetctl'), '--socket', self.socket(name), *words], 60, status)

    def perf(self, name, words, seconds, status=0):
        """Lets the ulnetd of `name` generate; returns the results of its runs."""
        output = self.nodes[name].run([netns.binary('ulnet-perf'), '--json', '--socket', self.socket(name), *words],
                                      seconds * 3 + 120, status)
        return json.loads(output[output.index('{'):])

    def stat(self, name, key):
        return int(re.search(rf'^\s*{key}: (\d+)', self.ctl(name, 'stats', 'show'), re.M).group(1))


def both_ways(cluster, seconds, size, status=0):
    """Puts and gets from both ends at once; returns {name: report}."""
    reports, failures = {}, []

    def run(key, name, words):
        try:
            reports[key] = cluster.perf(name, words, seconds, status)
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = []
    for name, target in (('client', '10.2.0.1@tcp1'), ('server', '10.1.0.1@tcp')):
        for op in ('put', 'get'):
            words = [op, '--size', size, '--concurrency', '8', '--duration', f'{seconds}s', '--warmup', '0s', target]
            threads.append(threading.Thread(target=run, args=(f'{name} {op}', name, words)))
    for thread in threads:
        thread.start()
    return threads, reports, failures


def check(report, key, may_fail):
    for run in report['runs']:
        assert run['lost'] == 0, f'{key}: {run["lost"]} operations never ended: {run}'
        failed = sum(error['count'] for error in run['errors'].values())
        assert may_fail or failed == 0, f'{key}: {failed} operations failed: {run["errors"]}'
        assert run['duplicates'] == 0 and run['accepted'] == run['ended'], f'{key}: not one end each: {run}'
        assert all(re.fullmatch('E[A-Z]+', name) for name in run['errors']), f'{key}: no name: {run["errors"]}'
        assert run['ended'] > failed or may_fail, f'{key}: nothing went through'


def wait_for_routes(cluster):
    """If a node came up before the router, its route is down. The node pings the router again soon."""
    for name in ('client', 'server'):
        deadline = time.monotonic() + 60
        while not re.search(r'state: up', cluster.ctl(name, 'route', 'show', '-v')):
            assert time.monotonic() < deadline, f'{name}: its route stays down'
            time.sleep(0.1)


def full_speed(cluster):
    wait_for_routes(cluster)
    for name, target in (('client', '10.2.0.1@tcp1'), ('server', '10.1.0.1@tcp'), ('client', '10.1.0.2@tcp')):
        assert target in cluster.ctl(name, 'ping', target, '--timeout', '10')
    threads, reports, failures = both_ways(cluster, SECONDS, '1M')
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    for key, report in reports.items():
        check(report, key, may_fail=False)
    assert len(reports) == 4
    routed, length = cluster.stat('router', 'route_count'), cluster.stat('router', 'route_length')
    carried = sum(run['completed'] for report in reports.values() for run in report['runs'])
    assert carried > 0 and routed >= 2 * carried and length >= carried << 20, (routed, length, carried)
    assert cluster.stat('router', 'drop_count') == 0, cluster.ctl('router', 'stats', 'show', '-v')
    print(f'full speed: {routed} messages, {length >> 20} MiB through the router in {SECONDS} s, none failed',
          flush=True)


def verified(cluster):
    """Every byte of payloads of many sizes, with payloads that stay in the kernel and without."""
    for splice in ('true', 'false'):
        yaml = cluster.topology.folder / 'splice.yaml'
        yaml.write_text(f'ulnet:\n    socklnd:\n        splice: {splice}\n')
        cluster.ctl('router', 'import', str(yaml))
        before = uncopied(cluster)
        for operation, size, in_flight in (('put', '1M', 1), ('get', '1M', 8), ('put', '100000', 8), ('put', '4K', 8)):
            report = cluster.perf('client', [operation, '--size', size, '--concurrency', str(in_flight), '--count',
                                             '200', '--verify', '10.2.0.1@tcp1'], 30)
            check(report, f'{operation} {size}, splice: {splice}', may_fail=False)
        stayed = uncopied(cluster) - before
        assert (stayed > 100) == (splice == 'true'), f'splice: {splice}: {stayed} payloads stayed in the kernel'
        print(f'splice {splice}: {stayed} payloads stayed in the kernel', flush=True)


def uncopied(cluster):
    return sum(int(count) for count in re.findall(r'forwarded_uncopied: (\d+)',
                                                  cluster.ctl('router', 'stats', 'show', '-v')))


def chaos(cluster):
    seconds = 60 if FULL else 12
    threads, reports, failures = both_ways(cluster, seconds, '256K', status=None)
    end = time.monotonic() + seconds - 2
    resets = kills = 0
    while time.monotonic() < end:
        time.sleep(1.5)
        for name in ('client', 'server'):
            output = cluster.nodes[name].run([sys.executable, str(RESET), 'veth0', '0.2'], 20)
            resets += int(output.split()[0])
        time.sleep(1)
        assert cluster.daemons['router'].running(), f'the router ended by itself:\n{cluster.daemons["router"].tail()}'
        cluster.daemons['router'].kill()
        kills += 1
        time.sleep(0.5)
        pathlib.Path(cluster.socket('router')).unlink(missing_ok=True)
        cluster.start('router')
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    well = 0
    for key, report in reports.items():
        check(report, key, may_fail=True)
        well += sum(run['ended'] - run['failed'] for run in report['runs'])
    print(f'chaos: {resets} resets, {kills} routers killed; {well} operations went through all the same', flush=True)
    assert kills > (4 if FULL else 0) and resets > 1 and well > 0, (kills, resets, well)
    deadline = time.monotonic() + 60
    while True:  # traffic resumes by itself
        try:
            for name, target in (('client', '10.2.0.1@tcp1'), ('server', '10.1.0.1@tcp')):
                report = cluster.perf(name, ['put', '--size', '1M', '--count', '20', target], 20)
                check(report, f'{name} afterwards', may_fail=False)
            return
        except (AssertionError, netns.ProgramError):
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def main():
    with netns.Topology() as topology:
        cluster = Cluster(topology)
        full_speed(cluster)
        verified(cluster)
        chaos(cluster)
    print('routed: passed')


if __name__ == '__main__':
    main()
