#!/usr/bin/env python3
"""Checks the rules of the house over the whole project. Prints per violation: file, line, rule, and how to mend it.

    tidy_test.py [--root DIR] [--full]      --full, or ULNET_FULL=1: also formatting
"""
import argparse
import os
import pathlib
import sys

import rules


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--root', default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument('--full', action='store_true', default=os.environ.get('ULNET_FULL') == '1')
    arguments = parser.parse_args()
    tree = rules.Tree(arguments.root)
    active = rules.RULES + (rules.FULL_RULES if arguments.full else [])
    violations = sorted(set(v for rule in active for v in rule(tree)))
    for violation in violations:
        print(f'{violation.path}:{violation.line}: {violation.rule}: {violation.message}')
    arrows = rules.upward_arrows(tree)
    print(f'tidy: {len(tree.sources)} C++ files, {len(tree.texts)} files, '
          f'{len(arrows)} upward arrows between folders of dataplane/, {len(violations)} violations')
    return 1 if violations or not tree.sources else 0


if __name__ == '__main__':
    sys.exit(main())
