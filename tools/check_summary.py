#!/usr/bin/env python3
"""Adds up the results of `meson test` in several build directories and prints the last line of tools/check.

    check_summary.py [--passed-step TEXT | --failed-step TEXT | --skipped-step TEXT]... [NAME=BUILD_DIR]...

A googletest program counts with its single cases, every other test as one. Skipped tests (exit status 77 or
GTEST_SKIP) and failed tests are listed by name. A line for each build names the tests that took longest. Exit status
0 = a test passed and none failed.
"""
import argparse
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

SLOWEST = 8
SKIPPED, PASSED = {'SKIP'}, {'OK', 'EXPECTEDFAIL'}


def cases_by_test(junit_path):
    """Maps a meson test name to its googletest cases as (name, 'passed' | 'failed' | 'skipped')."""
    cases = {}
    if not junit_path.exists():
        return cases
    for suite in ElementTree.parse(junit_path).getroot().iter('testsuite'):
        parts = suite.get('name', '').split('.')
        if len(parts) < 3:
            continue  # not googletest: meson's own record of an exit-code test
        found = cases.setdefault(parts[1].split(' / ')[-1], [])
        for case in suite.iter('testcase'):
            if case.find('failure') is not None or case.find('error') is not None:
                outcome = 'failed'
            elif case.find('skipped') is not None:
                outcome = 'skipped'
            elif case.get('status') == 'notrun':
                continue  # DISABLED_
            else:
                outcome = 'passed'
            found.append((case.get('classname', '').split('.')[-1] + '.' + case.get('name', ''), outcome))
    return cases


class Totals:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []
        self.slowest = []  # a line for each build

    def add_build(self, name, directory):
        logs = pathlib.Path(directory) / 'meson-logs'
        cases = cases_by_test(logs / 'testlog.junit.xml')
        log = logs / 'testlog.json'
        lines = log.read_text(errors='replace').splitlines() if log.exists() else []
        records = [json.loads(line) for line in lines if line.strip()]
        for record in records:
            self.add_test(name, record['name'].split(' / ')[-1], record['result'], cases)
        self.add_slowest(name, [(record['duration'], record['name'].split(' / ')[-1]) for record in records
                                if record.get('duration')])

    def add_slowest(self, build, times):
        if times:
            first = ', '.join(f'{test} {seconds:.0f} s' for seconds, test in sorted(times, reverse=True)[:SLOWEST])
            self.slowest.append(f'{build}: {sum(seconds for seconds, _ in times):.0f} s of tests: {first}')

    def add_test(self, build, test, result, cases):
        where = f'{build}: {test}'
        outcomes = cases.get(test, [])
        failed_before = len(self.failed)
        if result in SKIPPED:
            self.skipped.append(where)
            return
        for case, outcome in outcomes:
            if outcome == 'passed':
                self.passed += 1
            else:
                (self.failed if outcome == 'failed' else self.skipped).append(f'{where} {case}')
        if result in PASSED:
            self.passed += not outcomes
        elif len(self.failed) == failed_before:  # crashed, timed out, or not googletest
            self.failed.append(f'{where} ({result.lower()})')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--failed-step', action='append', default=[])
    parser.add_argument('--passed-step', action='append', default=[])
    parser.add_argument('--skipped-step', action='append', default=[])
    parser.add_argument('builds', nargs='*')
    arguments = parser.parse_args()
    totals = Totals()
    totals.passed += len(arguments.passed_step)
    totals.failed += arguments.failed_step
    totals.skipped += arguments.skipped_step
    for build in arguments.builds:
        totals.add_build(*build.split('=', 1))
    for line in totals.slowest:
        print(line)
    for title, names in (('skipped', totals.skipped), ('FAILED', totals.failed)):
        for name in names:
            print(f'{title}: {name}')
    print(f'{totals.passed} passed, {len(totals.failed)} failed, {len(totals.skipped)} skipped', flush=True)
    return 0 if totals.passed > 0 and not totals.failed else 1


if __name__ == '__main__':
    sys.exit(main())
