"""The scripts of perf/ run through once, shortly, and end with the line that they promise. Their measurements are
not checked. With ULNET_FULL=1 only: threads with real-time priority would disturb other tests.

    compare_scripts.py SCRIPT       runs this one; an option may follow in the same argument
    compare_scripts.py --default    each script finds, without an option, the build that tools/quickstart makes
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import netns

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/vm'))
import vm  # noqa: E402  pylint: disable=wrong-import-position

PEERS = ('dpdk-testpmd', 'iperf3', 'fi_pingpong', 'ucx_perftest', 'haproxy')  # programs to compare with
RATIO = r'\d+\.\d\d'
LAST = {
    'compare-rails': (['--rounds', '1', '--seconds', '1'], rf'two={RATIO} four={RATIO} lost=0'),
    'compare-rails --unequal': (['--rounds', '1', '--seconds', '1'], rf'unequal={RATIO} small={RATIO} lost=0'),
    'compare-failover': (['--runs', '1', '--fault-seconds', '0.5', '--return-seconds', '3', '--faults',
                          'none,down,blackhole'], r'down_ms=\d+ blackhole_ms=\d+ rejoin_ms=>?\d+ failed=0'),
    'compare-select': (['--rounds', '1'], r'choice16=[\d.]+ ratio=[\d.]+ rules_cost=[\d.]+'),
    'policy-cost': (['--rounds', '1'],
                    r'policy_cost s=[\d.]+ accept_ms=[\d.]+ slices=\d+ longest_ms=[\d.]+ republished=0/1'),
    'compare-verbs': (['--rounds', '1', '--count', '8'], rf'bulk={RATIO} latency={RATIO}'),
    'compare-roce': (['--rounds', '1', '--seconds', '0.3'],
                     rf'copy_limit={RATIO} wire={RATIO} rate=[\d.]+ latency={RATIO} router_cycles=\d+'),
    'hostile-roce': (['--rounds', '1', '--seconds', '0.3', '--kinds', 'nobody,mads'],
                     r'nobody=[\d.]+/[\d.]+ mads=[\d.]+/[\d.]+ rss_mb=-?[\d.]+ lost_buffers=-?\d+'),
    'compare-tcp': (['--rounds', '1', '--seconds', '0.3'],
                    ' '.join(rf'{name}={RATIO}' for name in (
                        'bulk', 'cpu', 'sizes', 'latency', 'rate', 'router', 'router_splice'))),
    'compare-port': (['--rounds', '1', '--seconds', '0.2'], rf'small={RATIO} large={RATIO} cycles=\d+'),
}


def finds_the_default_build():
    """A copy of the scripts beside a build of dummies, which note that they were started and fail."""
    reason = netns.why_not()
    if reason:
        netns.skip(reason)
    scripts = sorted(path for path in (ROOT / 'perf').iterdir() if path.is_file() and not path.suffix)
    assert {script.split()[0] for script in LAST} <= {path.name for path in scripts}, scripts
    for script in scripts:
        with tempfile.TemporaryDirectory(prefix='ulnet-compare-') as name:
            folder = pathlib.Path(name)
            (folder / 'perf').mkdir()
            for one in scripts:  # some use others
                shutil.copy(one, folder / 'perf')
            for tests in ('smoke', 'vm'):
                shutil.copytree(ROOT / 'tests' / tests, folder / 'tests' / tests)
            (folder / 'build/release/tools/examples').mkdir(parents=True)
            for dummy in ('build/release/tools/ulnetd', 'build/release/tools/ulnetctl',
                          'build/release/tools/ulnet-perf', 'build/release/tools/examples/echo', *PEERS, 'ninja'):
                (folder / dummy).write_text(f'#!/bin/sh\necho "$0 $*" >>{folder}/started\nexit 9\n')
                (folder / dummy).chmod(0o755)
            path = f'{folder}:{os.environ["PATH"]}'
            run = subprocess.run([sys.executable, folder / 'perf' / script.name], timeout=100, text=True, check=False,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, 'PATH': path})
            started = (folder / 'started').read_text() if (folder / 'started').exists() else ''
            assert f'{folder}/build/release' in started, f'{script.name}: {run.stdout}'
            assert run.returncode != 0, run.stdout
            print(f'{script.name}: found its build')


def main():
    script = sys.argv[1]
    if script == '--default':
        return finds_the_default_build()
    if os.environ.get('ULNET_FULL', '') in ('', '0') or os.environ.get('ULNET_SANITIZED') == '1':
        netns.skip('with ULNET_FULL=1, and not with sanitizers')
    if script in ('compare-port', 'compare-roce') and shutil.which('dpdk-testpmd') is None:
        netns.skip('there is no dpdk-testpmd here (package dpdk-dev)')
    if script == 'compare-tcp' and not all(shutil.which(peer) for peer in PEERS[1:]):
        netns.skip('the programs to compare with are not installed (perf/compare-tcp --help)')
    reason = netns.why_not()
    if reason is None and script == 'compare-verbs':
        reason = vm.why_not()
    if reason:
        netns.skip(reason)
    options, last = LAST[script]
    build = pathlib.Path(os.environ['ULNET_BIN_DIR']).parent
    name, *option = script.split()
    run = subprocess.run([sys.executable, ROOT / 'perf' / name, *option, '--build', build, *options], timeout=240,
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(run.stdout)
    assert run.returncode == 0 and re.fullmatch(last, run.stdout.splitlines()[-1]), run.returncode


if __name__ == '__main__':
    main()
