#!/usr/bin/env python3
"""`ulnetd --check FILE` and a start with that file give the same verdict. If this build or machine lacks something,
that is an error with its place, and exit status 2. A start that is refused opens no control socket.
"""
import pathlib
import subprocess
import tempfile

import netns

BAD = {
    'net:\n  - net type: kfi\n    interfaces: {0: ib0}\n': ':2:5: this node has no driver for kfi',
    'net:\n  - net type: tcp\n    interfaces: {0: "eth0[900]"}\n':
        ': invalid CPT value 900: this node has worker groups 0..',
    'udsp:\n  - src: nonsense\n': ":2:10: udsp[0].src: 'nonsense'",
    'net: nonsense\n': 'error: ',
}
GOOD = 'net:\n  - {net type: tcp, interfaces: {0: not-there}}\n'


def run(*words):
    done = subprocess.run([netns.binary('ulnetd'), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.returncode, done.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / 'f.yaml'
        socket = pathlib.Path(folder) / 'f.sock'
        file.write_text(GOOD)
        status, text = run('--check', '--config', str(file))
        assert status == 0 and 'the configuration is good' in text, (status, text)
        for yaml, what in BAD.items():
            file.write_text(yaml)
            for words in (['--check'], ['--socket', str(socket)]):
                status, text = run(*words, '--config', str(file))
                assert status == 2 and what in text, (yaml, words, status, text)
                assert 'the configuration is good' not in text, text
            assert not socket.exists()


if __name__ == '__main__':
    main()
