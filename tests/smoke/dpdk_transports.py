"""Packet ports against the kernel's own stack (AF_PACKET and AF_XDP over veth, tap) and against each other (memif).
Each pair does ARP, ping both ways and UDP, with full-size and jumbo frames, and links go down and up. The tests run
with one and four workers, with huge pages and without. Run one by name: dpdk_transports.py Kernel.test_tap
"""
import contextlib
import os
import pathlib
import signal
import socket
import time
import unittest

import netns
from wire import PERF, Port, flood, main, quiet, udp_echo

KERNEL_ADDRESSES = ['10.9.0.1/24', 'fd09::1/64']


def veth(net, mtu, queues=1):
    """A kernel's end with addresses, a port's end without: (node of the one, node of the other, the kernel's end)."""
    kernel, port = net.node('kernel'), net.node('port')
    quiet(port)
    net.link(kernel, KERNEL_ADDRESSES, port, None, mtu=mtu, queues=queues)
    # The kernel leaves checksums to a NIC, and a veth pair has none: the kernel must compute them itself.
    kernel.run(['ethtool', '-K', 'veth0', 'tx', 'off'], timeout=30, status=None)
    return kernel, port, 'veth0'


def tap(net):
    """One node for both ends. The interface is there beforehand, so that its addresses outlive a port."""
    node = net.node('kernel')
    node.ip('tuntap', 'add', 'dev', 'rail0', 'mode', 'tap', 'multi_queue')
    node.run(['sysctl', '-qw', 'net.ipv6.conf.rail0.keep_addr_on_down=1'], timeout=30)
    for address in KERNEL_ADDRESSES:
        node.ip('addr', 'add', address, 'dev', 'rail0', *(['nodad'] if ':' in address else []))
    node.ip('link', 'set', 'rail0', 'up')
    return node, node, 'rail0'


@contextlib.contextmanager
def xdp():
    """Skips where there is no AF_XDP."""
    try:
        yield
    except netns.ProgramError as error:
        if 'the device cannot be opened' not in str(error) and 'the device refuses a queue' not in str(error):
            raise
        netns.skip('this kernel or container gives no AF_XDP')


def used_cpu(program):
    """Seconds of CPU time."""
    fields = pathlib.Path(f'/proc/{program.pid}/stat').read_text().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def let_work(program, seconds):
    """Until it has had so much CPU time."""
    until = used_cpu(program) + seconds
    while used_cpu(program) < until:
        assert program.running(), program.output()
        time.sleep(0.02)


class Kernel(unittest.TestCase):
    """A port at one end, the kernel's stack at the other."""

    def both_ways(self, ends, device, mtu, options=(), workers=1):
        """The kernel pings the port with small and full-size packets, exchanges UDP with it, and is pinged."""
        kernel, port, _ = ends
        its = Port(port, 'serve', device, '--address', '10.9.0.2/24', '--address', 'fd09::2/64', *options, mtu=mtu,
                   workers=workers)
        for address in ('10.9.0.2', 'fd09::2'):
            kernel.run(['ping', '-q', '-c', '1', '-w', '20', address], timeout=30)
            flood(self, kernel, address, 100, 1000)
            flood(self, kernel, address, mtu)
            udp_echo(self, kernel, address, 16 if workers > 1 else 4, mtu - 100)
        figures = its.stop()
        stacks = [worker['stack'] for worker in figures['workers']]
        self.assertGreaterEqual(sum(stack['echo_answers'] for stack in stacks), 2 * 4000)
        self.assertGreaterEqual(sum(stack['arp_answers'] for stack in stacks), 1)
        for address, own in (('10.9.0.1', '10.9.0.3/24'), ('fd09::1', 'fd09::3/64')):
            head = 48 if ':' in address else 28
            ours = Port(port, 'ping', device, '--address', own, '--peer', address, '--count', 300, '--bytes',
                        mtu - head, *options, mtu=mtu)
            worker = ours.figures()['workers'][0]
            self.assertEqual((300, 0), (worker['received'], worker['lost']), worker)
        return figures

    def spread(self, figures):
        """The kernel spreads flows over queues by a hash of its own: each is answered where it arrives."""
        used = sum(queue['rx_packets'] > 0 for queue in figures['port']['queues'])
        self.assertGreater(used, 1, figures)

    def link_down_and_up(self, ends, device, mtu=1500, reset='reset done'):
        """Link changes are reported, and traffic goes on afterwards. A reset leaves nothing behind, or is refused."""
        kernel, port, interface = ends
        its = Port(port, 'serve', device, '--address', '10.9.0.2/24', mtu=mtu)
        # The kernel reports carrier changes once a second, and a new pair starts without carrier.
        its.program.wait_for(r'^link up', 30)
        flood(self, kernel, '10.9.0.2', mtu, 500)
        for _ in range(2):
            kernel.ip('link', 'set', interface, 'down')
            its.program.wait_for(r'^link down\s*\Z', 30)
            kernel.ip('link', 'set', interface, 'up')
            its.program.wait_for(r'^link up\s*\Z', 30)
            kernel.run(['ping', '-q', '-c', '1', '-w', '20', '10.9.0.2'], timeout=30)
            flood(self, kernel, '10.9.0.2', mtu, 500)
        its.program.process.send_signal(signal.SIGUSR1)
        its.program.wait_for(reset, 30)
        kernel.run(['ping', '-q', '-c', '1', '-w', '20', '10.9.0.2'], timeout=30)
        flood(self, kernel, '10.9.0.2', mtu, 500)
        self.assertEqual(reset == 'reset done', its.stop()['port']['resets'] == 1)

    def test_af_packet(self):
        with netns.Topology() as net:
            self.both_ways(veth(net, 1500), 'af_packet,iface=veth0', 1500)

    def test_af_packet_jumbo(self):
        with netns.Topology() as net:
            self.both_ways(veth(net, 9000), 'af_packet,iface=veth0', 9000)

    def test_af_packet_four_workers(self):
        with netns.Topology() as net:
            self.spread(self.both_ways(veth(net, 1500), 'af_packet,iface=veth0', 1500, workers=4))

    def test_af_packet_jumbo_four_workers(self):
        with netns.Topology() as net:
            self.spread(self.both_ways(veth(net, 9000), 'af_packet,iface=veth0', 9000, workers=4))

    def test_af_packet_link(self):
        with netns.Topology() as net:
            self.link_down_and_up(veth(net, 9000), 'af_packet,iface=veth0', 9000)

    def test_af_xdp(self):
        with xdp(), netns.Topology() as net:
            self.both_ways(veth(net, 1500), 'af_xdp,iface=veth0', 1500)

    def test_af_xdp_largest(self):
        with xdp(), netns.Topology() as net:
            self.both_ways(veth(net, 3498), 'af_xdp,iface=veth0', 3498)

    def test_af_xdp_four_workers(self):
        """A veth pair has no combined channels: only one queue is possible. More are refused with the reason."""
        with xdp(), netns.Topology() as net:
            ends = veth(net, 3498, queues=4)
            refused = ends[1].run([PERF, 'wire', 'serve', '--device', 'af_xdp,iface=veth0',
                                   '--workers', '4'], timeout=60, status=1)
            self.assertIn('at most one queue per combined channel of its interface: set `queues`', refused)
            self.assertIn('veth0 has 1', refused)
        with xdp(), netns.Topology() as net:
            self.both_ways(veth(net, 3498), 'af_xdp,iface=veth0', 3498, ['--queues', 1], workers=4)

    def test_af_xdp_link(self):
        with xdp(), netns.Topology() as net:
            self.link_down_and_up(veth(net, 1500), 'af_xdp,iface=veth0',
                                  reset='reset failed: .* keeps its packet buffers after a close: restart')

    def test_tap(self):
        with netns.Topology() as net:
            figures = self.both_ways(tap(net), 'tap,iface=rail0', 1500)
            self.assertTrue(figures['port']['queues'][0]['interrupt'], 'tap wakes a sleeping worker')
            self.assertGreater(figures['workers'][0]['sleeps'], 0)

    def test_tap_four_workers(self):
        with netns.Topology() as net:
            self.spread(self.both_ways(tap(net), 'tap,iface=rail0', 1500, workers=4))

    def test_interface_replaced(self):
        """The system's interface goes, and another one takes its name: the port is opened again by itself."""
        with netns.Topology() as net:
            kernel, port, _ = veth(net, 1500)
            its = Port(port, 'serve', 'af_packet,iface=veth0', '--address', '10.9.0.2/24')
            its.program.wait_for(r'^link up', 30)
            flood(self, kernel, '10.9.0.2', 1500, 500)
            kernel.ip('link', 'del', 'veth0')
            its.program.wait_for(r'^link down', 30)
            kernel.ip('link', 'add', 'veth0', 'type', 'veth', 'peer', 'name', 'veth0', 'netns', port.netns)
            kernel.ip('addr', 'add', '10.9.0.1/24', 'dev', 'veth0')
            kernel.ip('link', 'set', 'veth0', 'up')
            port.ip('link', 'set', 'veth0', 'up')
            its.program.wait_for(r'^link down[^~]*^reset done', 60)
            kernel.run(['ping', '-q', '-c', '1', '-w', '20', '10.9.0.2'], timeout=30)
            flood(self, kernel, '10.9.0.2', 1500, 500)
            self.assertGreaterEqual(its.stop()['port']['resets'], 1)

    def test_tap_link(self):
        with netns.Topology() as net:
            self.link_down_and_up(tap(net), 'tap,iface=rail0')

    def test_neighbour_silent(self):
        """No neighbour answers: after three requests, each packet is a counted drop."""
        with netns.Topology() as net:
            _, port, _ = veth(net, 1500)
            ours = Port(port, 'ping', 'af_packet,iface=veth0', '--address', '10.9.0.2/24', '--peer', '10.9.0.77',
                        '--count', 2)
            figures = ours.figures()
            self.assertEqual(0, figures['workers'][0]['received'])
            self.assertGreaterEqual(figures['workers'][0]['stack']['questions'], 3)


class Memif(unittest.TestCase):
    """Two processes of ours."""

    def pair(self, net):
        node = net.node(f'memif{len(net.nodes)}')
        return node, f'memif,socket={net.folder}/{len(net.nodes)}.sock,role='

    def exchange(self, net, mtu, workers, payload, count, mode='serve', options=(), server_options=()):
        node, device = self.pair(net)
        server = Port(node, mode, device + 'server', '--address', '10.8.0.1/24', *server_options, mtu=mtu,
                      workers=workers)
        client = Port(node, 'generate', device + 'client', '--address', '10.8.0.2/24', '--peer', '10.8.0.1', '--bytes',
                      payload, '--count', count, *options, mtu=mtu, workers=workers)
        sent = client.figures(timeout=60)
        server.program.wait_for('^link down', 30)
        return sent, server.stop()

    def all_back(self, figures, count):
        """A frame that comes back after more than a second counts as lost, which a busy machine may cause."""
        for worker in figures['workers']:
            came = worker['stack']['udp_delivered'] + worker['stack']['echo_replies']
            self.assertEqual((count, count, 0), (came, worker['received'] + worker['lost'], worker['corrupted']),
                             figures)

    def test_one_and_four_workers(self):
        with netns.Topology() as net:
            for workers, count in ((1, 20000), (4, 3000)):
                sent, echoed = self.exchange(net, 1500, workers, 1400, count)
                self.all_back(sent, count)
                self.assertEqual(workers * count, sum(w['received'] for w in echoed['workers']))

    def test_no_answers(self):
        """Nobody uses the port that the datagrams go to. Also the last ones of a run count as lost."""
        with netns.Topology() as net:
            sent, _ = self.exchange(net, 1500, 2, 1400, 100, mode='hold')
            self.assertEqual([(100, 0, 100)] * 2, [(w['sent'], w['received'], w['lost']) for w in sent['workers']])

    def test_jumbo(self):
        with netns.Topology() as net:
            for workers, count in ((1, 10000), (4, 2000)):
                sent, _ = self.exchange(net, 9000, workers, 8900, count)
                self.all_back(sent, count)

    def test_ping(self):
        """As fast as answers come, full-size: each is answered by the other one's stack, and compared."""
        with netns.Topology() as net:
            for mtu in (1500, 9000):
                node, device = self.pair(net)
                server = Port(node, 'serve', device + 'server', '--address', '10.8.0.1/24', '--address', 'fd08::1/64',
                              mtu=mtu)
                for own, peer, head in (('10.8.0.2/24', '10.8.0.1', 28), ('fd08::2/64', 'fd08::1', 48)):
                    client = Port(node, 'ping', device + 'client', '--address', own, '--peer', peer, '--count', 1000,
                                  '--bytes', mtu - head, mtu=mtu)
                    self.all_back(client.figures(timeout=60), 1000)
                    server.program.wait_for(r'^link down\s*\Z', 30)
                figures = server.stop()
                self.assertEqual(2000, figures['workers'][0]['stack']['echo_answers'])

    def test_reset_of_a_client(self):
        """One reset, not two: that its new link is not there yet is no loss of a link."""
        with netns.Topology() as net:
            node, device = self.pair(net)
            server = Port(node, 'serve', device + 'server', '--address', '10.8.0.1/24')
            client = Port(node, 'serve', device + 'client', '--address', '10.8.0.2/24')
            client.program.wait_for(r'^link up\s*\Z', 30)
            for count in (1, 2):
                server.program.wait_for(r'^link up\s*\Z', 30)
                client.program.process.send_signal(signal.SIGUSR1)
                client.program.wait_for(rf'(reset done\s+link up\s[^~]*){{{count}}}\Z', 30)
            self.assertEqual(2, client.stop()['port']['resets'])
            server.stop()

    def test_no_server(self):
        with netns.Topology() as net:
            node, device = self.pair(net)
            said = node.run([PERF, 'wire', 'serve', '--device', device + 'client'], timeout=60, status=1)
            self.assertIn("memif's client finds no server at its socket: start the server first", said)

    def test_server_that_ends_behind_the_connection(self):
        """DPDK's client connects once. Here its server ends before it has greeted, at the start of the client."""
        with netns.Topology() as net:
            node, device = self.pair(net)
            path = f'{net.folder}/ends.sock'
            device = f'memif,socket={path},socket-abstract=no,role='
            ends = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ends.bind(path)
            ends.listen(1)
            ends.settimeout(60)
            client = Port(node, 'serve', device + 'client', '--address', '10.8.0.2/24')
            ends.accept()[0].close()
            ends.close()
            os.unlink(path)
            client.program.wait_for('finds no server at its socket', 60)
            server = Port(node, 'serve', device + 'server', '--address', '10.8.0.1/24')
            client.program.wait_for(r'^reset done\s*^link up$', 60)
            server.program.wait_for(r'^link up\s*\Z', 30)
            self.assertEqual(1, client.stop()['port']['resets'])
            server.stop()

    def test_server_that_is_stopped(self):
        """Resets of a client whose server accepts nothing do not wait for it."""
        with netns.Topology() as net:
            node, device = self.pair(net)
            server = Port(node, 'serve', device + 'server', '--address', '10.8.0.1/24')
            client = Port(node, 'serve', device + 'client', '--address', '10.8.0.2/24')
            client.program.wait_for(r'^link up\s*\Z', 30)
            server.program.freeze()
            for count in range(1, 3):
                client.program.process.send_signal(signal.SIGUSR1)
                client.program.wait_for(rf'(reset failed: .* does not answer at its socket[^~]*){{{count}}}\Z', 30)
            client.program.process.send_signal(signal.SIGUSR1)
            server.program.thaw()
            client.program.wait_for(r'reset done\s+link up\s*\Z', 30)
            self.assertEqual(1, client.stop()['port']['resets'])
            server.stop()

    def test_a_second_client(self):
        """A server has one client. The second one is refused, and does not reset again and again."""
        with netns.Topology() as net:
            node, device = self.pair(net)
            server = Port(node, 'serve', device + 'server', '--address', '10.8.0.1/24')
            first = Port(node, 'serve', device + 'client', '--address', '10.8.0.2/24')
            first.program.wait_for(r'^link up\s*\Z', 30)
            second = Port(node, 'serve', device + 'client', '--address', '10.8.0.3/24')
            time.sleep(3)
            self.assertLess(second.program.output().count('reset done'), 5)
            first.stop()
            second.program.wait_for(r'^link up\s*\Z', 60)
            second.stop()
            server.stop()

    def test_clients_that_go_at_once(self):
        """DPDK's server would abort: the first ones go before it accepts them."""
        with netns.Topology() as net:
            node, device = self.pair(net)
            path = f'{net.folder}/crowd.sock'
            device = f'memif,socket={path},socket-abstract=no,role='
            server = Port(node, 'serve', device + 'server', '--address', '10.8.0.1/24')
            server.program.freeze()
            for _ in range(300):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                    client.setblocking(False)
                    try:
                        client.connect(path)
                    except BlockingIOError:  # the server's queue is full
                        server.program.thaw()
                        time.sleep(0.005)
                        server.program.freeze()
            server.program.thaw()
            client = Port(node, 'ping', device + 'client', '--address', '10.8.0.2/24', '--peer', '10.8.0.1', '--count',
                          100)
            self.all_back(client.figures(), 100)
            server.program.wait_for(r'^link down\s*\Z', 30)
            server.stop()

    def test_other_process_goes_and_comes_back(self):
        """Whether it ends or is killed in the middle of its traffic; at either end. A client opens its device again."""
        with netns.Topology() as net:
            node, device = self.pair(net)

            def server():
                return Port(node, 'serve', device + 'server', '--address', '10.8.0.1/24')

            def client(count):
                return Port(node, 'generate', device + 'client', '--address', '10.8.0.2/24', '--peer', '10.8.0.1',
                            '--bytes', 1400, '--count', count)
            stays = server()
            ups = 0
            for kills in (True, False, True):
                other = client(0 if kills else 3000)
                ups += 1
                if kills:
                    stays.program.wait_for(r'^link up\s*\Z', 30)
                    let_work(other.program, 0.2)
                    other.program.kill()
                else:
                    self.all_back(other.figures(), 3000)
                stays.program.wait_for(r'(^link up\s+link down\s*){%d}\Z' % ups, 30)
            figures = stays.stop()
            self.assertGreater(figures['workers'][0]['received'], 3000)
            goes = server()
            stays = Port(node, 'ping', device + 'client', '--address', '10.8.0.2/24', '--peer', '10.8.0.1', '--count',
                         400, '--interval-us', 10000)
            stays.program.wait_for(r'^link up\s*\Z', 30)
            goes.program.kill()
            stays.program.wait_for(r'^link down[^~]*^reset failed: .* finds no server at its socket[^~]*\Z', 30)
            goes = server()
            stays.program.wait_for(r'^reset done\s*^link up$', 30)
            figures = stays.figures(60)
            self.assertEqual(1, figures['port']['resets'])
            self.assertGreater(figures['workers'][0]['received'], 200)
            goes.program.wait_for(r'^link down\s*\Z', 30)
            self.assertGreater(goes.stop()['workers'][0]['stack']['echo_answers'], 0)

    def test_receiver_that_holds_cannot_starve_the_port(self):
        """The receiver holds more packets than the pool has. Packets beyond three quarters are copied, and all arrive.
        On a busy machine, the ring may stay full until the sender drops packets: these drops are counted."""
        with netns.Topology() as net:
            sent, held = self.exchange(net, 1500, 1, 1400, 20000, mode='hold', options=['--flood-only'],
                                       server_options=['--hold', 100000, '--in-flight', 300])
            worker, queue = held['workers'][0], held['port']['queues'][0]
            refused = sent['port']['queues'][0]['drops'].get('tx_refused', 0)
            self.assertEqual(20000 - refused, worker['received'])
            self.assertGreater(worker['copied'], 10000)
            self.assertLessEqual(worker['held_max'], 300)
            self.assertEqual(300, queue['pool_held_max'])
            self.assertGreaterEqual(worker['free_min'], queue['pool_size'] // 4)
            self.assertEqual(20000, sent['workers'][0]['sent'])


@contextlib.contextmanager
def huge_pages(pages=384):
    """Skips where the machine lets us have none; they go back afterwards. Port demands that they are used."""
    file = pathlib.Path('/proc/sys/vm/nr_hugepages')
    before = file.read_text()
    try:
        with contextlib.suppress(OSError):
            file.write_text(str(int(before) + pages))
        if int(file.read_text()) < int(before) + pages:
            netns.skip('no huge pages to be had here')
        yield
    finally:
        with contextlib.suppress(OSError):
            file.write_text(before)


class HugePages(Kernel, Memif):
    """The same with huge pages."""

    def run(self, result=None):
        with huge_pages():
            return super().run(result)


if __name__ == '__main__':
    main()
