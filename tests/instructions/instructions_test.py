#!/usr/bin/env python3
"""Instructions of the core per message of 64 bytes, counted by callgrind, are within 5 % of instructions.json.

    instructions_test.py CORE_MESSAGE_COUNT [--update]

The count is that of one worker over a driver without a wire: the difference between a long run and a short one. So the
begin and the end of the program do not count. --update writes the table, for a change whose reason the commit states.
A lower count must be written down, too, or else the next rise stays unseen.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TABLE = pathlib.Path(__file__).with_name('instructions.json')
MODES = ('put_sent', 'put_acknowledged', 'put_received', 'get_sent', 'get_received', 'forwarded')
SHORT, LONG = 200, 1200  # bursts
BURST = 16
TOLERATED = 0.05


def instructions(program, bursts, mode, folder):
    """Of one run."""
    command = ['valgrind', '--tool=callgrind', f'--callgrind-out-file={folder}/out', program, mode, str(bursts)]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, f'{program} {mode} {bursts}: {done.returncode}\n{done.stderr}'
    return int(re.search(r'Collected : (\d+)', done.stderr).group(1))


def counted(program):
    with tempfile.TemporaryDirectory(prefix='ulnet-') as folder:
        return {mode: round((instructions(program, LONG, mode, folder) - instructions(program, SHORT, mode, folder))
                            / (LONG - SHORT) / BURST) for mode in MODES}


def main(program, *words):
    if shutil.which('valgrind') is None:
        print('skipped: valgrind is not installed')
        sys.exit(77)
    table, now = json.loads(TABLE.read_text(encoding='utf-8')), counted(program)
    if words == ('--update',):
        TABLE.write_text(json.dumps(now, indent=2) + '\n', encoding='utf-8')
        return
    assert set(table) == set(MODES), table
    far = []
    for name, was in table.items():
        print(f'{name}: {now[name]} instructions, {was} in the table, {now[name] / was - 1:+.1%}')
        if abs(now[name] / was - 1) > TOLERATED:
            far.append(name)
    if far:
        sys.exit(f'{", ".join(far)}: more than {TOLERATED:.0%} away from {os.path.relpath(TABLE)}; if that is meant, '
                 f'run {os.path.relpath(__file__)} {program} --update')


if __name__ == '__main__':
    main(*sys.argv[1:])
