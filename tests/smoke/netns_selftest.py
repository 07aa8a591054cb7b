#!/usr/bin/env python3
"""Tests netns.py: three namespaces in a row reach each other, programs are bounded, nothing is left behind."""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import netns


def namespaces():
    return subprocess.run(['ip', 'netns', 'list'], capture_output=True, text=True, check=True).stdout


def chain(net):
    """a -- r -- b, r forwards."""
    a, r, b = (net.node(name) for name in 'arb')
    net.link(a, '10.1.0.1/24', r, '10.1.0.2/24')
    net.link(r, '10.2.0.2/24', b, ['10.2.0.1/24', 'fd00::1/64'])
    a.ip('route', 'add', '10.2.0.0/24', 'via', '10.1.0.2')
    b.ip('route', 'add', '10.1.0.0/24', 'via', '10.2.0.2')
    r.run(['sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward'], timeout=30)
    return a, r, b


class Netns(unittest.TestCase):
    def test_three_nodes_reach_each_other(self):
        with netns.Topology() as net:
            a, r, b = chain(net)
            reach(self, a, '10.1.0.2')
            reach(self, b, '10.1.0.1')
            a.ip('link', 'set', 'veth0', 'down')
            with self.assertRaises(netns.ProgramError):
                a.run(CONNECT + ['10.1.0.2'], timeout=30)
            self.assertEqual(r.interface_count, 2)

    def test_programs_are_bounded_and_logged(self):
        with netns.Topology() as net:
            a = net.node('a')
            self.assertEqual(a.run(['sh', '-c', 'echo out; echo err >&2; exit 3'], timeout=30, status=3), 'out\nerr\n')
            with self.assertRaisesRegex(netns.ProgramError, 'exit status 3'):
                a.run(['sh', '-c', 'exit 3'], timeout=30)
            with self.assertRaisesRegex(netns.ProgramError, 'still running after 0.2 s'):
                a.run(['sleep', '60'], timeout=0.2)
            daemon = a.start(['sh', '-c', 'trap "exit 0" TERM; echo ready; while :; do sleep 0.1; done'])
            daemon.wait_for('^ready$', timeout=30)
            with self.assertRaisesRegex(netns.ProgramError, 'no /never/'):
                daemon.wait_for('never', timeout=0.2)
            daemon.stop(timeout=30)

    def test_a_program_that_does_not_stop_fails_the_test_and_is_gone(self):
        grace, netns.STOP_GRACE = netns.STOP_GRACE, 0.5
        try:
            with self.assertRaisesRegex(netns.ProgramError, 'still running'):
                with netns.Topology() as net:
                    stubborn = net.node('a').start(['sh', '-c', 'trap "" TERM; echo on; while :; do sleep 0.1; done'])
                    stubborn.wait_for('on', timeout=30)
        finally:
            netns.STOP_GRACE = grace
        self.assertFalse(stubborn.running())
        self.assertNotIn(f'-{os.getpid()}-', namespaces())

    def test_a_killed_test_leaves_nothing(self):
        for number, ends_itself in ((signal.SIGTERM, True), (signal.SIGINT, True), (signal.SIGKILL, False)):
            child = subprocess.Popen([sys.executable, __file__, '--hang'], stdout=subprocess.PIPE, text=True)
            folder, pid = child.stdout.readline().split()
            self.assertIn(f'-{child.pid}-a', namespaces())
            child.send_signal(number)
            child.wait(60)
            child.stdout.close()
            if ends_itself:
                self.assertFalse(pathlib.Path(folder).exists())
            else:  # the next topology removes what a killed one left
                subprocess.run(['rm', '-rf', folder], check=True)
                with netns.Topology():
                    pass
            self.assertNotIn(f'-{child.pid}-', namespaces())
            self.assertTrue(gone(int(pid)))


# A TCP connect that must be refused at once: it proves that the other side answers, and needs no ping(8).
CONNECT = [sys.executable, '-c', '''
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), 3)
except ConnectionRefusedError:
    sys.exit(0)
''']


def gone(pid):
    """True when the process has ended, at the latest after 30 seconds."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if pathlib.Path(f'/proc/{pid}/stat').read_text().split(') ')[1][0] == 'Z':
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def reach(test, node, address):
    node.run(CONNECT + [address], timeout=30)


def hang():
    with netns.Topology() as net:
        sleeper = net.node('a').start(['sleep', '600'])
        print(net.folder, sleeper.pid, flush=True)
        time.sleep(600)


if __name__ == '__main__':
    if '--hang' in sys.argv:
        hang()
    reason = netns.why_not()
    if reason:
        netns.skip(reason)
    unittest.main()
