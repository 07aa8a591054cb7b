"""The comparisons of perf/ run through once, shortly, and end with the line that they promise. What they measure is not
looked at. With ULNET_FULL=1 only: threads with real-time priority are no company for other tests.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import netns

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATIO = r'\d+\.\d\d'
LAST = {
    'compare-rails': (['--rounds', '1', '--seconds', '1'], rf'two={RATIO} four={RATIO} lost=0'),
    'compare-port': (['--rounds', '1', '--seconds', '0.2'], rf'small={RATIO} large={RATIO} cycles=\d+'),
}


def main():
    script = sys.argv[1]
    if os.environ.get('ULNET_FULL', '') in ('', '0') or os.environ.get('ULNET_SANITIZED') == '1':
        netns.skip('with ULNET_FULL=1, and not with sanitizers')
    if script == 'compare-port' and shutil.which('dpdk-testpmd') is None:
        netns.skip('there is no dpdk-testpmd here (package dpdk-dev)')
    reason = netns.why_not()
    if reason:
        netns.skip(reason)
    options, last = LAST[script]
    build = pathlib.Path(os.environ['ULNET_BIN_DIR']).parent
    run = subprocess.run([sys.executable, ROOT / 'perf' / script, '--build', build, *options], timeout=240, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(run.stdout)
    assert run.returncode == 0 and re.fullmatch(last, run.stdout.splitlines()[-1]), run.returncode


if __name__ == '__main__':
    main()
