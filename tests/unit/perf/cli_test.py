#!/usr/bin/env python3
"""ulnet-perf as its users meet it: processes on 127.0.0.0/8 with ports above 1023, so no privileges. Checks JSON, exit
status, Ctrl-C, and that a running ulnetd generates.

    cli_test.py ULNET_PERF ULNETD
"""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PERF, ULNETD = sys.argv[1:3]
WAIT = 60 * (4 if os.environ.get('ULNET_SANITIZED') == '1' else 1)
SCHEMA = {'operation', 'size', 'concurrency', 'elapsed_ns', 'completed', 'bytes', 'messages_per_second',
          'gigabits_per_second', 'latency_ns', 'cycles_per_message', 'accepted', 'ended', 'lost', 'abandoned',
          'duplicates', 'failed', 'rate', 'late', 'unsent', 'longest_pause_ns', 'verified', 'mismatched', 'interrupted',
          'errors', 'ok', 'rails', 'workers', 'resends'}


def free_port():
    """As tests/free_port.h: below the ports of who dials, drawn so that programs beside us draw others."""
    while True:
        with socket.socket() as s:
            try:
                s.bind(('', 22000 + int.from_bytes(os.urandom(4), 'little') % 10000))
                return s.getsockname()[1]
            except OSError:
                continue


class Perf(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def node(self, address):
        return ['--nid', f'{address}@tcp', '--unprivileged-ports', '--accept-port', str(self.port)]

    def start(self, *command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def serve(self, address='127.0.0.1'):
        process = self.start(PERF, 'serve', *self.node(address))
        line = process.stdout.readline()
        self.assertIn(f'serving puts and gets on {address}@tcp', line)
        return process

    def wait_for_work(self, server, client):
        """Until the one that serves has worked for the other: its operations are under way."""
        def used():
            with open(f'/proc/{server.pid}/stat', encoding='utf-8') as file:
                fields = file.read().rpartition(')')[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
        until, deadline = used() + 0.3, time.monotonic() + WAIT
        while used() < until:
            self.assertIsNone(client.poll(), 'it has ended')
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def run_perf(self, *arguments, address='127.0.0.2', status=0):
        done = subprocess.run([PERF, *arguments, *self.node(address)], capture_output=True, text=True, timeout=WAIT)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_every_operation_verified_as_json(self):
        server = self.serve()
        for operation, sizes in (('ping', [0]), ('put', [0, 100, 65536]), ('get', [0, 100, 65536])):
            size = [] if operation == 'ping' else ['--size', ','.join(map(str, sizes))]
            done = self.run_perf(operation, '127.0.0.1@tcp', '-n', '50', '-c', '4', '--verify', '--json', *size)
            report = json.loads(done.stdout)
            self.assertEqual((report['schema'], report['ok'], report['target']), (1, True, '127.0.0.1@tcp'))
            self.assertEqual([run['size'] for run in report['runs']], sizes)
            for run in report['runs']:
                self.assertEqual(set(run), SCHEMA)
                self.assertEqual((run['operation'], run['completed'], run['verified']), (operation, 50, 50))
                self.assertEqual(run['accepted'], run['ended'])
                self.assertGreater(run['cycles_per_message'] if os.uname().machine == 'x86_64' else 1, 0)
                latency = run['latency_ns']
                self.assertLessEqual(latency['min'], latency['p50'])
                self.assertLessEqual(latency['p50'], latency['p99'])
                self.assertLessEqual(latency['p99_9'], latency['max'])
        server.send_signal(signal.SIGINT)
        out, _ = server.communicate(timeout=WAIT)
        self.assertEqual(server.returncode, 0)
        # 3 sizes x 50 puts; gets: 3 x 50, and each put read back.
        self.assertIn('served 150 puts (3281800 bytes) and 300 gets (6563600 bytes); 0 failed', out)

    def test_table_on_a_pipe_has_no_progress(self):
        self.serve()
        done = self.run_perf('put', '127.0.0.1@tcp', '-n', '10')
        self.assertEqual(done.stderr, '')
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(), ['op', 'size', 'conc', 'messages/s', 'Gb/s', 'p50', 'p99', 'p99.9', 'p99.99',
                                            'max', 'cycles/msg', 'resends', 'errors'])
        self.assertEqual(lines[2].split()[:3], ['put', '4K', '1'])
        self.assertEqual(lines[3], '10 operations accepted, each ended exactly once')

    def test_csv_and_a_stream_of_events(self):
        self.serve()
        job = ['put', '127.0.0.1@tcp', '-n', '20', '-c', '1,4', '--size', '64,4K']
        names, *rows = (line.split(',') for line in self.run_perf(*job, '--csv').stdout.splitlines())
        runs = [dict(zip(names, row, strict=True)) for row in rows]
        self.assertEqual([(run['size'], run['concurrency']) for run in runs],
                         [('64', '1'), ('64', '4'), ('4096', '1'), ('4096', '4')])
        self.assertEqual({(run['completed'], run['failed']) for run in runs}, {('20', '0')})
        events = [json.loads(line) for line in self.run_perf(*job, '--json-stream').stdout.splitlines()]
        self.assertEqual(events[0]['job']['sizes'], [64, 4096])
        self.assertEqual([event['event'] for event in events if event['event'] != 'progress'],
                         ['start', 'run', 'run', 'run', 'run', 'end'])
        self.assertTrue(events[-1]['ok'])
        report = json.loads(self.run_perf(*job, '--json').stdout)
        self.assertEqual(report['job']['concurrency'], [1, 4])
        self.assertEqual(report['machine']['kernel'], os.uname().release)
        self.assertEqual(report['machine']['cpus_allowed'], len(os.sched_getaffinity(0)))

    def test_the_share_of_each_worker(self):
        self.serve()
        job = ['put', '127.0.0.1@tcp', '-n', '200', '-c', '8', '--size', '1K', '--workers', '2']
        (run,) = json.loads(self.run_perf(*job, '--json').stdout)['runs']
        (rail,) = run['rails']
        self.assertEqual((rail['nid'], rail['share'], rail['dropped']), ('127.0.0.2@tcp', 1, 0))
        self.assertEqual(rail['bytes'], rail['messages'] * 1024)
        self.assertTrue(192 <= rail['messages'] <= 208, rail)
        self.assertEqual([worker['worker'] for worker in run['workers']], [0, 1])
        self.assertAlmostEqual(sum(worker['share'] for worker in run['workers']), 1)
        self.assertTrue(192 * 1024 <= sum(worker['bytes'] for worker in run['workers']) <= 210 * 1024, run['workers'])
        self.assertEqual(run['resends'], {'count': 0, 'successful': 0, 'failed': 0})
        table = self.run_perf(*job).stdout
        self.assertIn('share of', table)
        self.assertIn('worker 1', table)

    def compare(self, *words):
        return self.run_perf('put', '127.0.0.1@tcp', '-n', '30', '--rounds', '3', '--ab', '--size 64K',
                             '--size 1K -c 4', *words)

    def test_two_variants(self):
        self.serve()
        report = json.loads(self.compare('--json').stdout)
        self.assertEqual((report['schema'], report['ok'], report['interrupted']), (1, True, False))
        self.assertEqual([report['variants'][one]['options'] for one in 'ab'], ['--size 64K', '--size 1K -c 4'])
        self.assertEqual([one['first'] for one in report['rounds']], ['a', 'b', 'a'])
        for one in report['rounds']:
            self.assertEqual([(one[side]['size'], one[side]['concurrency']) for side in 'ab'], [(65536, 1), (1024, 4)])
            self.assertEqual(set(one['a']), SCHEMA)
            for name in ('messages_per_second', 'bytes_per_second', 'p50_ns', 'p99_ns'):
                self.assertGreater(one['ratios'][name], 0)
            self.assertAlmostEqual(one['ratios']['messages_per_second'],
                                   one['a']['messages_per_second'] / one['b']['messages_per_second'])
            self.assertAlmostEqual(one['ratios']['bytes_per_second'], 64 * one['ratios']['messages_per_second'])
            self.assertAlmostEqual(one['ratios']['p99_ns'],
                                   one['a']['latency_ns']['p99'] / one['b']['latency_ns']['p99'])
        for name, ratio in report['ratios'].items():
            self.assertEqual(ratio['median'], sorted(one['ratios'][name] for one in report['rounds'])[1])
            self.assertEqual(ratio['rounds'], 3)
        lines = self.compare().stdout.splitlines()
        self.assertEqual(lines[:2], ['A: --size 64K', 'B: --size 1K -c 4'])
        self.assertEqual([line.split()[0] for line in lines[6:]], ['1', '2', '3', 'first', 'median', 'third'])
        names, *rows = (line.split(',') for line in self.compare('--csv').stdout.splitlines())
        self.assertEqual([row[0] for row in rows], ['1', '2', '3', 'first_quartile', 'median', 'third_quartile'])
        self.assertEqual({len(row) for row in rows}, {len(names)})
        events = [json.loads(line) for line in self.compare('--json-stream').stdout.splitlines()]
        self.assertEqual([event['event'] for event in events if event['event'] != 'progress'],
                         ['start', 'round', 'round', 'round', 'end'])
        self.assertEqual(events[-1]['ratios']['p50_ns']['rounds'], 3)

    def test_two_variants_without_a_target(self):
        done = self.run_perf('put', '127.0.0.9@tcp', '-n', '2', '--rounds', '2', '--ab', '', '--size 1K', '--json',
                             status=1)
        report = json.loads(done.stdout)
        self.assertFalse(report['ok'])
        self.assertEqual([one['a']['failed'] for one in report['rounds']], [2, 2])
        self.assertIsNone(report['ratios']['messages_per_second'])

    def test_an_interrupt_ends_a_comparison_with_the_whole_rounds(self):
        self.serve()
        process = self.start(PERF, 'put', '127.0.0.1@tcp', '--json-stream', '--ab', '-n 5', '-d 600s', '--rounds', '2',
                             *self.node('127.0.0.2'))
        while json.loads(line := process.stdout.readline()).get('variant') != 'b':
            self.assertNotEqual(line, '')
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT)
        self.assertEqual(process.returncode, 1, out + err)  # there is no whole round
        self.assertNotIn('"round",', out)
        end = json.loads(out.splitlines()[-1])
        self.assertEqual((end['event'], end['interrupted'], end['ratios']['p50_ns']), ('end', True, None))

    def test_an_interrupt_of_short_measurements_ends_a_comparison(self):
        self.serve()
        process = self.start(PERF, 'put', '127.0.0.1@tcp', '-n', '5', '--json-stream', '--rounds', '1000', '--ab', '',
                             '--size 1K', *self.node('127.0.0.2'))
        while json.loads(line := process.stdout.readline())['event'] != 'round':
            self.assertNotEqual(line, '')
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertLess(out.count('"event":"round"'), 3)
        self.assertRegex(err, 'ended after [1-4] of 1000 rounds')
        self.assertTrue(json.loads(out.splitlines()[-1])['interrupted'])

    def test_a_rate(self):
        self.serve()
        report = json.loads(self.run_perf('put', '127.0.0.1@tcp', '--rate', '500', '-d', '1s', '--json').stdout)
        (run,) = report['runs']
        self.assertEqual((run['rate'], run['concurrency']), (500, 64))
        self.assertEqual(run['completed'] + run['late'] + run['unsent'], 500)
        self.assertGreater(run['completed'], 0)
        self.assertEqual(run['accepted'], run['ended'])
        # Far more than a target can take.
        done = self.run_perf('put', '127.0.0.1@tcp', '--rate', '100M', '-c', '2', '-d', '200ms')
        self.assertIn('NOT SENT: ', done.stdout)

    def test_interrupt_ends_with_the_table_so_far(self):
        server = self.serve()
        process = self.start(PERF, 'get', '127.0.0.1@tcp', '--json', '--size', '64K,128K', '-d', '600s',
                             *self.node('127.0.0.2'))
        self.wait_for_work(server, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT)
        self.assertEqual(process.returncode, 0, out + err)
        report = json.loads(out)
        self.assertEqual(len(report['runs']), 1)
        self.assertTrue(report['runs'][0]['interrupted'])
        self.assertEqual(report['runs'][0]['accepted'], report['runs'][0]['ended'])

    def test_nobody_there_is_named_and_fails(self):
        done = self.run_perf('put', '127.0.0.9@tcp', '-n', '2', '--json', status=1)
        run = json.loads(done.stdout)['runs'][0]
        self.assertEqual((run['failed'], run['ended'], run['lost'], run['ok']), (2, 2, 0, False))
        self.assertEqual(sum(e['count'] for e in run['errors'].values()), 2)
        self.assertNotIn('ETIMEDOUT', run['errors'])  # a refused connection fails at once

    def test_what_must_fail(self):
        def fails(status, *arguments):
            done = subprocess.run([PERF, *arguments], capture_output=True, text=True, timeout=WAIT)
            self.assertEqual((done.returncode, done.stdout), (status, ''))
            return done.stderr
        self.assertEqual(fails(2, 'put', '127.0.0.1@tcp', '--nid', '127.0.0.2', '--size', '3M'),
                         "ulnet-perf: --size: '3M': a message carries at most 1M\n")
        self.assertEqual(fails(2, 'put', '127.0.0.1@tcp', '--nid', '127.0.0.2', '--ab', '-c 2', '-c 2,4'),
                         "ulnet-perf: --ab: variant B ('-c 2,4'): 2 measurements: give one size and one concurrency\n")
        self.assertEqual(fails(2, 'put', '127.0.0.1@tcp', '--nid', '127.0.0.2', '-n', '100', '--ab', '', '-d 1s'),
                         "ulnet-perf: --ab: variant B ('-d 1s'): the measurement ends by --count; with --duration, "
                         'give --count 0\n')
        self.assertEqual(fails(2, 'put', '127.0.0.1@tcp', '--socket', '/run/x', '--ab', '', '--workers 2'),
                         "ulnet-perf: --ab: variant B ('--workers 2'): --socket gives a node that is configured; omit "
                         '--workers, --accept-port and --unprivileged-ports\n')
        self.assertIn('/nonexistent/ulnet.yaml', fails(1, 'serve', '--config', '/nonexistent/ulnet.yaml'))
        self.assertIn('/nonexistent/socket', fails(1, 'ping', '127.0.0.1', '--socket', '/nonexistent/socket'))
        self.assertIn('203.0.113.1', fails(1, 'serve', *self.node('203.0.113.1')))

    def test_a_running_ulnetd_generates(self):
        with tempfile.TemporaryDirectory() as folder:
            path, config = folder + '/s', folder + '/node.yaml'
            with open(config, 'w', encoding='utf-8') as file:
                file.write('net:\n    - net type: tcp\n      local NI(s):\n        - nid: 127.0.0.3@tcp\n'
                           f'ulnet:\n    workers: 1\n    unprivileged_ports: true\n    accept_port: {self.port}\n'
                           f'    socket:\n        path: {path}\n')
            server = self.serve()
            daemon = self.start(ULNETD, '--config', config)
            deadline = time.monotonic() + WAIT
            while not os.path.exists(path):
                self.assertIsNone(daemon.poll(), 'ulnetd ended')
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            command = [PERF, '--socket', path, '--json', 'put', '127.0.0.1@tcp', '--size', '1K']
            done = subprocess.run(command + ['-n', '100', '--verify'], capture_output=True, text=True, timeout=WAIT)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual((report['runs'][0]['completed'], report['runs'][0]['verified']), (100, 100))
            # Ctrl-C: the table so far, and the daemon is free again.
            process = self.start(*command, '-d', '600s')
            self.wait_for_work(server, process)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=WAIT)
            self.assertEqual(process.returncode, 0, out + err)
            self.assertTrue(json.loads(out)['runs'][0]['interrupted'])
            # A client that is killed takes its job with it; ulnetd stops cleanly under load.
            self.start(*command, '-d', '600s').kill()
            self.wait_for_work(server, self.start(*command, '-d', '600s'))
            daemon.send_signal(signal.SIGTERM)
            out, err = daemon.communicate(timeout=WAIT)
            self.assertEqual(daemon.returncode, 0, out + err)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
