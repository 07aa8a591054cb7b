"""tools/check_summary.py: its counts, its lists of names, and its exit status."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).resolve().parents[2] / 'tools' / 'check_summary.py'

JUNIT = '''<testsuites>
<testsuite name="ulnet.ulnet:unit / core.Core"><testcase classname="core.Core" name="one"/>
<testcase classname="core.Core" name="two">{two}</testcase></testsuite>
<testsuite name="ulnet.plain.Plain"><testcase classname="plain.Plain" name="three"/></testsuite>
</testsuites>'''


class CheckSummary(unittest.TestCase):
    def run_it(self, results, two='', durations=None):
        with tempfile.TemporaryDirectory() as folder:
            logs = pathlib.Path(folder, 'meson-logs')
            logs.mkdir()
            logs.joinpath('testlog.json').write_text(
                '\n'.join(json.dumps({'name': name, 'result': result, 'duration': (durations or {}).get(name)})
                          for name, result in results.items()))
            logs.joinpath('testlog.junit.xml').write_text(JUNIT.format(two=two))
            done = subprocess.run([sys.executable, SUMMARY, f'release={folder}'], capture_output=True, text=True,
                                  check=False)
            return done.returncode, done.stdout.splitlines()

    def test_cases_of_a_program_in_a_suite_or_in_none_are_counted_one_by_one(self):
        status, lines = self.run_it({'ulnet:unit / core': 'OK', 'plain': 'OK', 'ulnet:smoke / routed': 'OK'})
        self.assertEqual((0, ['4 passed, 0 failed, 0 skipped']), (status, lines))

    def test_a_case_that_was_skipped_is_named(self):
        status, lines = self.run_it({'ulnet:unit / core': 'OK'}, '<skipped/>')
        self.assertEqual((0, ['skipped: release: core Core.two', '1 passed, 0 failed, 1 skipped']), (status, lines))

    def test_a_case_that_failed_is_named(self):
        status, lines = self.run_it({'ulnet:unit / core': 'FAIL'}, '<failure/>')
        self.assertEqual((1, ['FAILED: release: core Core.two', '1 passed, 1 failed, 0 skipped']), (status, lines))

    def test_a_program_that_crashed_fails_whatever_its_cases_say(self):
        status, lines = self.run_it({'ulnet:unit / core': 'FAIL'})
        self.assertEqual((1, ['FAILED: release: core (fail)', '2 passed, 1 failed, 0 skipped']), (status, lines))

    def test_other_programs_count_as_one(self):
        results = {'ulnet:smoke / a': 'OK', 'ulnet:smoke / b': 'SKIP', 'ulnet:smoke / c': 'TIMEOUT'}
        status, lines = self.run_it(results)
        self.assertEqual(1, status)
        self.assertEqual(['skipped: release: b', 'FAILED: release: c (timeout)', '1 passed, 1 failed, 1 skipped'],
                         lines)

    def test_the_slowest_come_first(self):
        _, lines = self.run_it({'ulnet:smoke / a': 'OK', 'ulnet:smoke / b': 'OK'},
                               durations={'ulnet:smoke / a': 0.6, 'ulnet:smoke / b': 2.1})
        self.assertEqual(['release: 3 s of tests: b 2 s, a 1 s', '2 passed, 0 failed, 0 skipped'], lines)

    def test_nothing_is_a_failure(self):
        self.assertEqual((1, ['0 passed, 0 failed, 0 skipped']), self.run_it({}))


if __name__ == '__main__':
    unittest.main()
