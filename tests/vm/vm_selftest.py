#!/usr/bin/env python3
"""Tests the harness of the guests without QEMU: the command channel with the guest's own loop, modules, archives, the
cache and the capture. The clean-up is that of a Lab whose QEMU is a script. Without namespaces, its cases are skipped.
"""
import io
import lzma
import os
import pathlib
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

import cache
import capture
import channel
import initramfs
import vm
from vm import netns

HERE = pathlib.Path(__file__).resolve().parent
SMALL = 60  # seconds for what takes a moment


class TemporaryFolder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix=f'{netns.PREFIX}-{os.getpid()}-')
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def until(self, condition):
        deadline = time.monotonic() + SMALL
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def python(self, text):
        """Starts a Python program that has this folder's modules."""
        child = subprocess.Popen([sys.executable, '-c', textwrap.dedent(text)], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, 'PYTHONPATH': str(HERE)})
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def program_in_path(self, name, text):
        folder = self.folder / 'bin'
        folder.mkdir(exist_ok=True)
        (folder / name).write_text('#!/bin/sh\n' + text)
        (folder / name).chmod(0o755)
        return f'{folder}:{os.environ["PATH"]}'


class Framing(unittest.TestCase):
    def test_lines_in_pieces(self):
        whole = b'r1 0 YQ==\nr12 137 \nr3 1 Yg=='
        for cut in range(len(whole)):
            replies, rest = channel.decode_replies(whole[:cut])
            more, rest = channel.decode_replies(rest + whole[cut:])
            self.assertEqual({**replies, **more}, {'r1': channel.Reply(0, b'a'), 'r12': channel.Reply(137, b'')})
            self.assertEqual(rest, b'r3 1 Yg==')

    def test_wrong_lines(self):
        for line in (b'\n', b'r1 0\n', b'r1 x YQ==\n', b'r1 0 Y*==\n', b'r1 0 YQ== r2 0 \n', b'x1 0 YQ==\n'):
            with self.assertRaisesRegex(channel.ChannelError, 'not a reply'):
                channel.decode_replies(line)
        with self.assertRaisesRegex(channel.ChannelError, 'two replies to r1'):
            channel.decode_replies(b'r1 0 \nr1 0 \n')

    def test_request(self):
        self.assertEqual(channel.encode_request('r7', 'exit 3\n'), b'r7 ZXhpdCAzCg==\n')
        self.assertEqual(channel.encode_request('r7', b'x' * 300).count(b'\n'), 1)


class Loop(TemporaryFolder):
    """guest_loop.sh on this machine, with a socket as its channel."""

    def setUp(self):
        super().setUp()
        ours, theirs = socket.socketpair()
        with theirs:
            self.loop = subprocess.Popen(
                ['sh', '-c', f'exec 3<&{theirs.fileno()} 3>&{theirs.fileno()} {theirs.fileno()}>&-; exec sh "$@"',
                 'sh', HERE / 'guest_loop.sh', self.folder / 'jobs'], pass_fds=[theirs.fileno()])
        self.addCleanup(self.loop.wait)
        self.addCleanup(self.loop.kill)
        self.channel = channel.Channel(ours)
        self.addCleanup(self.channel.close)

    def run_script(self, script):
        reply = self.channel.reply(self.channel.send(script, SMALL), SMALL)
        self.assertIsNotNone(reply, script)
        return reply

    def test_output_and_status(self):
        self.assertEqual(self.run_script('echo out; echo err >&2; exit 3'), (3, b'out\nerr\n'))
        self.assertEqual(self.run_script('true'), (0, b''))
        self.assertEqual(self.run_script('cat'), (0, b''))  # standard input is empty
        self.assertEqual(self.run_script("printf '%s' 'a\\nb $HOME' \"*\""), (0, b'a\\nb $HOME*'))
        self.assertEqual(self.run_script('kill -9 $$').status, 137)
        self.assertEqual(self.run_script('echo "')[0], 2)  # a script that is no script: the loop goes on
        data = bytes(range(256)) * 2000
        (self.folder / 'data').write_bytes(data)
        self.assertEqual(self.run_script(f'cat {self.folder}/data'), (0, data))
        self.until(lambda: not list((self.folder / 'jobs').iterdir()))

    def test_scripts_run_side_by_side(self):
        gate = self.folder / 'gate'
        slow = self.channel.send(f'until [ -e {gate} ]; do sleep 0.05; done; echo slow', SMALL)
        self.assertEqual(self.run_script('echo fast'), (0, b'fast\n'))
        self.assertIsNone(self.channel.reply(slow, 0))
        gate.touch()
        self.assertEqual(self.channel.reply(slow, SMALL), (0, b'slow\n'))
        many = {self.channel.send(f'printf %50000d {i}', SMALL): i for i in range(30)}
        for token, i in reversed(many.items()):  # their lines are not mixed
            self.assertEqual(self.channel.reply(token, SMALL), (0, b'%50000d' % i))

    def test_a_script_is_killed_with_its_children(self):
        child = self.folder / 'child'
        token = self.channel.send(f'echo on; sleep 600 & echo $! >{child}.new; mv {child}.new {child}; wait', SMALL)
        self.until(child.exists)
        jobs = self.folder / 'jobs'
        self.assertEqual((jobs / f'{token}.out').read_text(), 'on\n')
        self.assertEqual(self.run_script(channel.signal_script(jobs, token, 'KILL')).status, 0)
        self.assertEqual(self.channel.reply(token, SMALL).status, 137)
        self.until(lambda: gone(int(child.read_text())))
        self.assertNotEqual(self.run_script(channel.signal_script(jobs, token, 'KILL')).status, 0)  # has ended

    def test_a_signal_to_a_script_that_has_just_come(self):
        token = self.channel.send('exec sleep 600', SMALL)
        self.assertEqual(self.run_script(channel.signal_script(self.folder / 'jobs', token, 'TERM')).status, 0)
        self.assertEqual(self.channel.reply(token, SMALL).status, 143)
        sleeper = subprocess.Popen(['sleep', '600'], start_new_session=True)
        self.addCleanup(sleeper.kill)
        (self.folder / 'r99.sh').touch()  # has come, and its process begins later
        signalling = self.channel.send(channel.signal_script(self.folder, 'r99', 'TERM'), SMALL)
        self.assertEqual(self.run_script('true').status, 0)
        (self.folder / 'r99.pid').write_text(f'{sleeper.pid}\n')
        self.assertEqual(self.channel.reply(signalling, SMALL).status, 0)
        self.assertEqual(sleeper.wait(SMALL), -signal.SIGTERM)

    def test_a_guest_that_ends_is_an_error(self):
        self.run_script('true')
        self.until(lambda: not list((self.folder / 'jobs').iterdir()))  # no script has the channel open
        self.loop.kill()
        with self.assertRaises(channel.ChannelError):
            self.channel.reply('r99', SMALL)


def gone(pid):
    """True if the process has ended; it may still wait for its parent."""
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().split(') ')[1][0] == 'Z'
    except FileNotFoundError:
        return True


class Modules(unittest.TestCase):
    DEP = 'k/c.ko: k/b-b.ko k/a.ko\nk/b-b.ko: k/a.ko\nk/a.ko:\nk/d.ko.xz: k/a.ko\n'

    def test_each_after_what_it_needs_and_once(self):
        self.assertEqual(initramfs.load_order(self.DEP, ['c', 'd', 'a', 'b_b']),
                         ['k/a.ko', 'k/b-b.ko', 'k/c.ko', 'k/d.ko.xz'])
        self.assertEqual(initramfs.load_order(self.DEP, ['b-b']), ['k/a.ko', 'k/b-b.ko'])
        self.assertEqual(initramfs.load_order('x.ko: y.ko z.ko\ny.ko: z.ko\nz.ko:\n', ['x']), ['z.ko', 'y.ko', 'x.ko'])

    def test_builtin_and_missing(self):
        self.assertEqual(initramfs.load_order(self.DEP, ['e', 'a'], 'kernel/e.ko\n'), ['k/a.ko'])
        with self.assertRaisesRegex(initramfs.ImageError, 'module e: not in modules.dep$'):
            initramfs.load_order(self.DEP, ['e'])
        with self.assertRaisesRegex(initramfs.ImageError, 'module y: not in modules.dep, needed by x'):
            initramfs.load_order('x.ko: y.ko\n', ['x'])
        with self.assertRaisesRegex(initramfs.ImageError, 'x -> y -> x'):
            initramfs.load_order('x.ko: y.ko\ny.ko: x.ko\n', ['x'])


def read_archive(data):
    """A reader of cpio archives that shares nothing with their writer: {name: (mode, bytes)}."""
    entries, offset = {}, 0
    while True:
        assert data[offset:offset + 6] == b'070701', data[offset:offset + 6]
        mode, size, name_size = (int(data[offset + start:offset + start + 8], 16) for start in (14, 54, 94))
        name = data[offset + 110:offset + 110 + name_size - 1].decode()
        offset += (110 + name_size + 3) // 4 * 4
        if name == 'TRAILER!!!':
            return entries, data[offset:]
        assert name not in entries, name
        entries[name] = (mode, data[offset:offset + size])
        offset += (size + 3) // 4 * 4


class Archives(TemporaryFolder):
    def test_contents(self):
        (self.folder / 'tool').write_bytes(b'#!/bin/sh\n')
        (self.folder / 'tool').chmod(0o700)
        archive = initramfs.Archive()
        archive.add_merged_links()
        archive.add_file('/bin/tool', self.folder / 'tool')
        archive.add_bytes('/bin/tool', b'later')
        archive.add_bytes('/etc/deep/in/file', b'12345')
        archive.add_link('/sbin/same', 'tool')
        archive.add_folder('/tmp', 0o1777)
        stream = io.BytesIO()
        archive.write(stream)
        archive.write(stream)
        entries, rest = read_archive(stream.getvalue())
        self.assertEqual(read_archive(rest), (entries, b''))
        self.assertEqual(entries['bin'], (stat.S_IFLNK | 0o777, b'usr/bin'))
        self.assertEqual(entries['usr/bin/tool'], (stat.S_IFREG | 0o755, b'#!/bin/sh\n'))
        self.assertEqual(entries['etc/deep/in/file'], (stat.S_IFREG | 0o644, b'12345'))
        self.assertEqual(entries['usr/sbin/same'], (stat.S_IFLNK | 0o777, b'tool'))
        self.assertEqual(entries['tmp'], (stat.S_IFDIR | 0o1777, b''))
        names = list(entries)
        for name in names:  # the kernel makes no folders by itself
            parent = os.path.dirname(name)
            self.assertTrue(not parent or names.index(parent) < names.index(name), name)
        for path in ('relative', '/a/../b'):
            with self.assertRaises(initramfs.ImageError):
                archive.add_bytes(path, b'')

    def test_identity(self):
        def identity(path='/x', data=b'1', mode=0o644):
            archive = initramfs.Archive()
            archive.add_bytes(path, data, mode)
            return archive.identity()
        self.assertEqual(identity(), identity())
        self.assertEqual(len({identity(), identity('/y'), identity(data=b'2'), identity(mode=0o755)}), 4)
        (self.folder / 'f').write_bytes(b'1')
        archive = initramfs.Archive()
        archive.add_file('/f', self.folder / 'f')
        before = archive.identity()
        (self.folder / 'f').write_bytes(b'22')
        self.assertNotEqual(archive.identity(), before)

    def test_libraries(self):
        text = ('\tlinux-vdso.so.1 (0x00007ffd)\n\tlibx.so.1 => /opt/l/libx.so.1 (0x00007f)\n'
                '\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n')
        paths = initramfs.parse_ldd(text)
        self.assertEqual(paths, ['/opt/l/libx.so.1', '/lib/x86_64-linux-gnu/libc.so.6', '/lib64/ld-linux-x86-64.so.2'])
        self.assertEqual([initramfs.home_of_library(path) for path in paths],
                         ['/usr/lib/x86_64-linux-gnu/libx.so.1', '/usr/lib/x86_64-linux-gnu/libc.so.6',
                          '/usr/lib64/ld-linux-x86-64.so.2'])
        self.assertEqual(initramfs.home_of_library('/r/lib/x86_64-linux-gnu/y.so', '/r'),
                         '/usr/lib/x86_64-linux-gnu/y.so')
        with self.assertRaisesRegex(initramfs.ImageError, 'library liby.so: not found'):
            initramfs.parse_ldd('\tliby.so => not found\n')
        self.assertTrue(any(path.endswith('/libc.so.6') for path in initramfs.libraries(shutil.which('ls'))))
        (self.folder / 'script').write_text('#!/bin/sh\n')
        self.assertEqual(initramfs.libraries(self.folder / 'script'), {})
        with self.assertRaisesRegex(initramfs.ImageError, 'ldd .*missing'):
            initramfs.libraries(self.folder / 'missing')


class Cache(TemporaryFolder):
    def test_a_killed_run_leaves_nothing_that_counts(self):
        child = self.python(f'''
            import pathlib, time, cache
            folder = pathlib.Path({str(self.folder)!r})
            with cache.locked(folder), cache.made_whole(folder / 'final') as temporary:
                (temporary / 'half').write_bytes(b'')
                print('half', flush=True)
                time.sleep(600)''')
        child.stdout.readline()
        self.assertEqual(len(list(self.folder.glob('tmp-*/half'))), 1)
        child.kill()
        child.wait()
        with cache.locked(self.folder):  # the lock went with the process
            self.assertEqual([path.name for path in self.folder.iterdir()], ['lock'])

    def test_an_exception_leaves_nothing(self):
        with self.assertRaises(ZeroDivisionError), cache.made_whole(self.folder / 'final') as temporary:
            (temporary / 'half').write_bytes(b'')
            raise ZeroDivisionError
        self.assertEqual(list(self.folder.iterdir()), [])
        with cache.made_whole(self.folder / 'final') as temporary:
            (temporary / 'all').write_bytes(b'1')
        self.assertEqual((self.folder / 'final/all').read_bytes(), b'1')

    def test_two_runs_build_once(self):
        text = f'''
            import pathlib, sys, cache
            def download(target, scratch):
                print('downloads', flush=True)
                sys.stdin.readline()
            cache.trim = lambda root: None
            def demand(arguments, cwd=None):
                root = pathlib.Path(arguments[2])
                (root / 'lib/modules/6').mkdir(parents=True, exist_ok=True)
                (root / 'boot').mkdir(exist_ok=True)
                (root / 'boot/vmlinuz-6').write_bytes(b'kernel')
            cache.download, cache.demand = download, demand
            cache.kernel_version = lambda root: demand(['', '', root]) or '6'
            folder = pathlib.Path({str(self.folder)!r})
            print('starts', flush=True)
            with cache.locked(folder):
                unpacked = cache.packages(folder)
            print((unpacked / 'kernel').read_text(), flush=True)'''
        with mock.patch.object(subprocess, 'Popen', self._popen_with_input(subprocess.Popen)):
            first = self.python(text)
            self.assertEqual([first.stdout.readline() for _ in range(2)], ['starts\n', 'downloads\n'])
            second = self.python(text)
        self.assertEqual(second.stdout.readline(), 'starts\n')
        first.stdin.close()
        self.assertEqual(first.stdout.read(), 'kernel\n')
        self.assertEqual(second.stdout.read(), 'kernel\n')  # no second download
        second.stdin.close()

    @staticmethod
    def _popen_with_input(popen):
        return lambda *arguments, **options: popen(*arguments, stdin=subprocess.PIPE, **options)

    def test_names_of_the_kernel(self):
        self.assertEqual(cache.kernel_package('linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n'),
                         'linux-image-6.1.0-56-amd64')
        self.assertIsNone(cache.kernel_package('E: No packages found\n'))
        with self.assertRaisesRegex(initramfs.ImageError, 'not one kernel'):
            (self.folder / 'lib/modules').mkdir(parents=True)
            cache.kernel_version(self.folder)

    def test_only_needed_modules_stay(self):
        home = self.folder / 'lib/modules/6'
        home.mkdir(parents=True)
        (self.folder / 'boot').mkdir()
        (self.folder / 'usr/share').mkdir(parents=True)
        for name in ('a.ko', 'b.ko', 'c.ko'):
            (home / name).touch()
        (home / 'modules.dep').write_text('a.ko: b.ko\nb.ko:\nc.ko:\n')
        (home / 'modules.builtin').write_text('kernel/d.ko\n')
        with mock.patch.object(cache, 'MODULES', ('a', 'd')):
            cache.trim(self.folder)
            self.assertEqual(cache.modules(self.folder), [home / 'b.ko', home / 'a.ko'])
        self.assertEqual(sorted(path.name for path in home.glob('*.ko')), ['a.ko', 'b.ko'])

    def test_unused_packages_are_removed(self):
        with mock.patch.multiple(cache, download=mock.DEFAULT, demand=mock.DEFAULT, trim=mock.DEFAULT,
                                 kernel_version=lambda root: '6', unpacked_kernel=lambda packed: b'') as fakes:
            fakes['download'].side_effect = cache.Unavailable
            (self.folder / 'packages-old').mkdir()
            (self.folder / 'packages-other').mkdir()
            os.utime(self.folder / 'packages-old', (0, 0))
            with self.assertRaises(cache.Unavailable), cache.locked(self.folder):
                cache.packages(self.folder)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ['lock', 'packages-other'])

    def test_the_kernel_is_unpacked(self):
        elf = b'\x7fELF' + bytes(range(256)) * 9
        packed = b'MZ bootcode ' + lzma.compress(elf, lzma.FORMAT_XZ) + b'size'
        self.assertEqual(cache.unpacked_kernel(packed), elf)
        for other in (b'MZ gzip', b'MZ' + lzma.compress(b'no kernel', lzma.FORMAT_XZ), packed.replace(b'ELF', b'')[:40],
                      b'MZ' + cache.XZ_MAGIC + b'garbage garbage garbage'):
            self.assertIsNone(cache.unpacked_kernel(other))

    def test_old_package_lists_and_no_network(self):
        log = self.folder / 'log'
        self.program_in_path('apt-cache', 'echo "  Depends: linux-image-9-amd64"')
        path = self.program_in_path('apt-get', f'''
            case "$*" in
              *Dir::State::lists*update) echo update >>{log}; [ -z "$OFFLINE" ] ;;
              *Dir::State::lists*download*linux-image-9-amd64*tcpdump) echo fresh >>{log}; touch x.deb ;;
              *) echo old >>{log}; echo 404 not found; false ;;
            esac''')
        for offline in ('', '1'):
            log.write_text('')
            target, scratch = self.folder / f'target{offline}', self.folder / f'scratch{offline}'
            target.mkdir()
            with mock.patch.dict(os.environ, PATH=path, OFFLINE=offline):
                if offline:
                    with self.assertRaisesRegex(cache.Unavailable, 'cannot be downloaded: apt-get update'):
                        cache.download(target, scratch)
                else:
                    cache.download(target, scratch)
                    self.assertTrue((target / 'x.deb').exists())
            self.assertEqual(log.read_text().split(), ['old', 'update'] + ([] if offline else ['fresh']))


class Captures(TemporaryFolder):
    @staticmethod
    def frame(version, port, payload):
        udp = struct.pack('>HHHH', 50000, port, 8 + len(payload), 0) + payload
        if version == 4:
            ip = bytes([0x45]) + bytes(8) + bytes([17]) + bytes(2) + bytes([10, 0, 0, 1]) + bytes([10, 0, 0, 2])
        else:
            ip = bytes([0x60]) + bytes(5) + bytes([17, 64]) + bytes(15) + b'\x01' + bytes(15) + b'\x02'
        return bytes(12) + struct.pack('>H', {4: 0x0800, 6: 0x86dd}[version]) + ip + udp

    def test_roce_packets(self):
        bth = struct.pack('>BBHII', 4, 0, 0xffff, 0x00000011, 0x80000123)
        stream = io.BytesIO()
        capture.write_header(stream)
        for frame in (self.frame(4, 4791, bth), self.frame(4, 4790, bth), self.frame(6, 4791, bth + b'x'),
                      bytes(60), self.frame(4, 4791, bth[:11])):
            capture.write_frame(stream, 1.5, frame)
        data = stream.getvalue()
        self.assertEqual([len(frame) for frame in capture.frames(data)], [54, 54, 75, 60, 53])
        self.assertEqual(list(capture.roce_packets(data)),
                         [('10.0.0.1', '10.0.0.2', 4, 0x11, 0x123, 54), ('::1', '::2', 4, 0x11, 0x123, 75)])
        with self.assertRaises(ValueError):
            list(capture.frames(bytes(24)))

    @unittest.skipIf(netns.why_not(), f'no namespaces: {netns.why_not()}')
    def test_every_frame_is_captured(self):
        with netns.Topology() as net:
            node, other = net.node('a'), net.node('b')
            [name, _] = net.link(node, None, other, None)
            path = self.folder / 'x.pcap'
            program = node.start([sys.executable, capture.__file__, name, path])
            program.wait_for('^capturing$', SMALL)
            text = '''
                import socket, struct, sys
                out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
                out.bind((sys.argv[1], 0))
                for number in range(20000):
                    out.send(bytes(12) + b"\\x88\\xb5" + struct.pack(">I", number) + bytes(50))'''
            program.freeze()
            other.run([sys.executable, '-c', textwrap.dedent(text), 'veth0'], SMALL)
            program.process.send_signal(signal.SIGTERM)  # all frames are still in the buffer of the socket
            program.thaw()
            program.wait(SMALL)
            mine = [frame for frame in capture.frames(path.read_bytes()) if frame[12:14] == b'\x88\xb5']
            self.assertEqual([struct.unpack_from('>I', frame, 14)[0] for frame in mine], list(range(20000)))


NO_LAB = netns.why_not() or vm.why_not()


class CleanUp(TemporaryFolder):
    """A Lab whose QEMU is a script, and whose initramfs is empty."""

    LAB = '''
        import pathlib, sys, vm
        vm.cache.install = lambda *_: pathlib.Path('/dev/null')
        with vm.Lab() as lab:
            lab.bridge('br0')
            a, b = lab.guest('a', {'br0': None}), lab.guest('b', {'br0': None, })
            print(lab.folder, a.program.pid, b.program.pid, flush=True)
            %s'''

    def setUp(self):
        super().setUp()
        if NO_LAB:
            self.skipTest(NO_LAB)

    def lab(self, last_line, qemu):
        path = self.program_in_path(vm.QEMU, qemu)
        with mock.patch.dict(os.environ, PATH=path):
            child = self.python(self.LAB % last_line)
        folder, *pids = child.stdout.readline().split()
        return child, pathlib.Path(folder), [int(pid) for pid in pids]

    def nothing_left(self, child, folder, pids):
        child.wait(SMALL)
        for pid in pids:
            self.until(lambda pid=pid: gone(pid))
        self.assertFalse(folder.exists())
        namespaces = subprocess.run(['ip', 'netns', 'list'], capture_output=True, text=True, check=True).stdout
        self.assertNotIn(f'-{child.pid}-', namespaces)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            child, folder, pids = self.lab('lab.wait_ready()', 'exec sleep 600')
            self.assertTrue(folder.exists() and not gone(pids[0]))
            child.send_signal(number)
            if number == signal.SIGKILL:  # the next test removes what is left of a killed one
                child.wait(SMALL)
                with netns.Topology():
                    pass
            self.nothing_left(child, folder, pids)

    def test_a_guest_that_does_not_boot(self):
        qemu = 'for word; do case $word in file:*) echo panic: no init >"${word#file:}" ;; esac; done; exec sleep 600'
        line = 'a.wait_ready(timeout=1)'
        child, folder, pids = self.lab(line, qemu)
        output = child.stdout.read()
        self.nothing_left(child, folder, pids)
        self.assertEqual(child.returncode, 1)
        self.assertIn('a: panic: no init', output)

    def test_a_qemu_that_ends(self):
        child, folder, pids = self.lab('lab.wait_ready()', 'echo no such option; exit 5')
        output = child.stdout.read()
        self.nothing_left(child, folder, pids)
        self.assertEqual(child.returncode, 1)
        self.assertIn('no such option', output)

    def test_reasons_to_skip(self):
        with mock.patch.dict(os.environ, PATH=str(self.folder)), mock.patch.object(vm, 'QEMU', 'qemu-missing'):
            self.assertEqual(vm.why_not(), 'guests need qemu-missing (package qemu-system-x86)')
        with mock.patch.object(vm.cache, 'install', side_effect=vm.cache.Unavailable('no network')):
            with self.assertRaises(SystemExit) as end, vm.Lab():
                pass
        self.assertEqual(end.exception.code, netns.SKIP)


if __name__ == '__main__':
    unittest.main()
