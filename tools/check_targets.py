#!/usr/bin/env python3
"""Prints the ninja targets that tests of a configured meson build need, a line each, for tools/check.

    check_targets.py BUILD_DIR [--suite NAME]... [--no-suite NAME]...

The suites are chosen as by `meson test`.
"""
import argparse
import json
import os
import pathlib


def targets(build, suites, without):
    info = build / 'meson-info'
    files = {target['id']: target['filename'] for target in json.loads((info / 'intro-targets.json').read_text())}
    needed = set()
    for test in json.loads((info / 'intro-tests.json').read_text()):
        names = {suite.split(':')[-1] for suite in test['suite']}
        if (not suites or names & suites) and not names & without:
            needed.update(name for target in test['depends'] for name in files[target])
    top = build.resolve()
    return sorted(os.path.relpath(name, top) for name in needed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--suite', action='append', default=[])
    parser.add_argument('--no-suite', action='append', default=[])
    options = parser.parse_args()
    print('\n'.join(targets(options.build, set(options.suite), set(options.no_suite))))


if __name__ == '__main__':
    main()
