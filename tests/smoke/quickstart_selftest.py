#!/usr/bin/env python3
"""Tests the parts of tools/quickstart around ulnet, with dummies for the three binaries. The script gives its commands
in both modes. The script leaves nothing behind after success, a failed command, a dead daemon and each signal. Tests
tools/simulate likewise.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import netns

TOP = pathlib.Path(__file__).resolve().parents[2]
DUMMIES = {
    'ulnetd': f'''#!{sys.executable}
import os, signal, socket, sys
if os.environ.get('DUMMY') == 'dead' and 'router' in sys.argv[-1]:
    sys.exit('cannot start')
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[sys.argv.index('--socket') + 1])
server.listen()
while True:
    signal.pause()
''',
    'ulnetctl': '''#!/bin/sh
[ "$DUMMY" = refuse ] && [ "$3 $4" = "routing show" ] && { echo no >&2; exit 1; }
echo "ctl: $*"
''',
    'ulnet-perf': '''#!/bin/sh
[ "$DUMMY" = slow ] && { echo perf waits; exec sleep 600; }
echo "perf: $*"
''',
}


def remains(pid):
    """The remains of a quickstart with this process number."""
    left = [str(p) for p in pathlib.Path('/run/netns').glob(f'ulnet-qs-{pid}-*')]
    for entry in pathlib.Path('/proc').glob('[0-9]*/environ'):
        try:
            if f'QUICKSTART_OF={os.getpid()}\0'.encode() in entry.read_bytes():
                left.append((entry.parent / 'cmdline').read_bytes().replace(b'\0', b' ').decode())
        except OSError:
            pass
    return left


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, text in DUMMIES.items():
            path = pathlib.Path(self.folder.name) / name
            path.write_text(text)
            path.chmod(0o755)

    def start(self, *arguments, dummy=''):
        environment = {**os.environ, 'DUMMY': dummy, 'QUICKSTART_OF': str(os.getpid()), 'TMPDIR': self.folder.name}
        command = [TOP / 'tools/quickstart', '--binaries', self.folder.name, '--seconds', '1', *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, process, status):
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, output)
        self.assertEqual(remains(process.pid), [], output)
        self.assertEqual(list(pathlib.Path(self.folder.name).glob('ulnet-quickstart.*')), [])
        return output

    def test_success_in_both_modes(self):
        modes = ((['--unprivileged'], '127.0.0.4@tcp1'), (['--roce'], '10.2.0.1@o2ib1'), ([], '10.2.0.1@tcp1'))
        for arguments, server in modes:
            if not arguments and netns.why_not():
                continue
            output = self.finish(self.start(*arguments), 0)
            self.assertRegex(output, rf'perf: --socket \S+client.sock put --size 1M .* {server}\n')
            self.assertRegex(output, r'ctl: --socket \S+router.sock routing show\n')
            self.assertIn('hugepages', output)

    def test_failures_are_told_and_cleaned_up(self):
        self.assertIn('this command failed: ulnetctl routing show', self.finish(self.start(dummy='refuse'), 1))
        output = self.finish(self.start(dummy='dead'), 1)
        self.assertIn('ulnetd of router ended at once', output)
        self.assertIn('cannot start', output)  # the daemon's log is shown

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # a shell's background job, or nohup, has some ignored
            process = self.start(dummy='slow')
            for line in process.stdout:
                if line.startswith('perf waits'):
                    break
            process.send_signal(number)
            self.finish(process, 128 + number)  # long before the dummy's sleep ends

    def test_reader_that_goes(self):
        process = self.start()
        process.stdout.readline()
        process.stdout.close()
        process.wait(60)
        self.assertEqual(process.returncode, 141)
        self.assertEqual(remains(process.pid), [])


MESON = '''#!/bin/sh
echo "meson $*" >>calls
[ "$1" = compile ] || exit 0
[ "$DUMMY" = broken ] && { echo "no such thing"; exit 1; }
mkdir -p build/release/tests/simulate
cat >build/release/tests/simulate/simulate <<'END'
#!/bin/sh
echo "simulate: $*"
exit 3
END
chmod +x build/release/tests/simulate/simulate
'''


class Simulate(unittest.TestCase):
    """tools/simulate, with dummies for meson and the packages: it builds where tools/quickstart does, and runs."""

    def run_script(self, dummy=''):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / 'tools').mkdir()
            for script in ('simulate', 'presets'):
                shutil.copy(TOP / 'tools' / script, folder / 'tools')
            for path, text in (('tools/packages', '#!/bin/sh\n'), ('meson', MESON)):
                (folder / path).write_text(text)
                (folder / path).chmod(0o755)
            environment = {**os.environ, 'DUMMY': dummy, 'PATH': f'{folder}:{os.environ["PATH"]}'}
            done = subprocess.run([folder / 'tools/simulate', '--seeds', '7', '--count', '2'], env=environment, cwd='/',
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
            return done.returncode, done.stdout, (folder / 'calls').read_text()

    def test_builds_and_runs(self):
        status, output, calls = self.run_script()
        self.assertEqual((status, output), (3, 'simulate: --seeds 7 --count 2\n'))
        self.assertRegex(calls, r'meson setup build/release --buildtype=debugoptimized .*\n'
                                r'meson compile -C build/release simulate:executable\n')

    def test_a_failed_build_is_told(self):
        status, output, _ = self.run_script('broken')
        self.assertEqual((status, output), (1, 'no such thing\nsimulate: the build failed\n'))


if __name__ == '__main__':
    unittest.main()
