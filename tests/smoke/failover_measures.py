#!/usr/bin/env python3
"""The measures of perf/compare-failover, on time lines whose gap, pause and return are known. No daemon runs."""
import importlib.machinery
import importlib.util
import math
import pathlib
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / 'perf/compare-failover'
LOADER = importlib.machinery.SourceFileLoader('compare_failover', str(SCRIPT))
measures = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(measures)

MS = measures.MS
FAULT, END = 2000 * MS, 5000 * MS  # the job begins at 0
QUICK = MS  # latency of an operation in steady traffic
LEFT = 0.75


def traffic(rate_of, longest_of=lambda ms: QUICK):
    """A time line: rate_of(ms) operations end in each ms."""
    rows = [[ms, rate_of(ms), 0, longest_of(ms)] for ms in range(0, 6000) if rate_of(ms) > 0]
    return {'put': {'timeline': {'since_ns': 0, 'slice_ns': MS, 'dropped': 0, 'slices': rows}}}


def gap(stalls):
    return (measures.gap_end(FAULT, stalls) - FAULT) / MS


def slow_of(results):
    return measures.slow_operations(measures.slices_of(results), FAULT, END, LEFT)


def poor_of(results):
    return measures.poor_times(measures.slices_of(results), FAULT, FAULT, END, LEFT)


def slow(results):
    return gap(slow_of(results))


def poor(results):
    return gap(poor_of(results))


class Gap(unittest.TestCase):
    def test_steady_traffic_has_no_gap(self):
        self.assertLess(slow(traffic(lambda ms: 8)), 3)
        self.assertEqual(poor(traffic(lambda ms: 8)), 0)

    def test_three_quarters_of_the_rate_are_no_gap(self):
        self.assertEqual(poor(traffic(lambda ms: 8 if ms < 2000 else 6)), 0)

    def test_two_quarters_are_a_gap_until_the_rail_is_back(self):
        self.assertEqual(poor(traffic(lambda ms: 8 if ms < 2000 or ms > 5000 else 4)), 3000)

    def test_a_pause_counts_by_its_operations(self):
        # All stops for 400 ms; the operations under way at the fault end then.
        results = traffic(lambda ms: 0 if 2000 <= ms < 2400 else 8, lambda ms: 401 * MS if ms == 2400 else QUICK)
        self.assertAlmostEqual(slow(results), 401, delta=1)
        self.assertAlmostEqual(poor(results), 370, delta=10)  # later windows have 90 % of the new rate
        self.assertEqual(measures.longest_pause(measures.slices_of(results), FAULT, END), 401 * MS)

    def test_one_operation_that_waits_for_the_rail(self):
        # Traffic goes on, but one operation that was under way at the fault ends 700 ms after the return.
        results = traffic(lambda ms: 8, lambda ms: 3702 * MS if ms == 5700 else QUICK)
        self.assertAlmostEqual(slow(results), 3701, delta=1)
        self.assertEqual(poor(results), 0)

    def test_an_operation_that_began_during_the_fault(self):
        self.assertAlmostEqual(slow(traffic(lambda ms: 8, lambda ms: 200 * MS if ms == 3000 else QUICK)), 1001, delta=1)
        # Not slow: shorter than 5 ms. And not of the fault: begun after the return.
        self.assertLess(slow(traffic(lambda ms: 8, lambda ms: 4 * MS if ms == 3000 else QUICK)), 5)
        self.assertLess(slow(traffic(lambda ms: 8, lambda ms: 200 * MS if ms == 5500 else QUICK)), 5)

    def test_a_hiccup_long_after_the_gap_is_noise(self):
        def results(length):
            return traffic(lambda ms: 0 if 4000 <= ms < 4000 + length else 8,
                           lambda ms: (length + 1) * MS if ms == 4000 + length else QUICK)
        self.assertLess(gap(slow_of(results(50)) + poor_of(results(50))), 5)
        self.assertAlmostEqual(gap(slow_of(results(150)) + poor_of(results(150))), 2151, delta=1)
        # Within 500 ms of the gap, it counts.
        near = traffic(lambda ms: 8, lambda ms: {2100: 101, 2550: 20}.get(ms, 1) * MS)
        self.assertAlmostEqual(slow(near), 551, delta=1)

    def test_operations_were_slow_before_the_fault(self):
        results = traffic(lambda ms: 8, lambda ms: 100 * MS if ms % 500 == 0 else QUICK)
        self.assertLessEqual(slow(results), 102)

    def test_operations_take_longer_on_fewer_rails(self):
        # 10 ms before the fault. With three quarters of the rails, 20 ms are 1.5 times as long as to be expected.
        def results(length):
            return traffic(lambda ms: 8, lambda ms: (10 if ms < 2000 else length) * MS if ms % 100 == 50 else QUICK)
        self.assertLess(slow(results(19)), 5)
        self.assertGreater(slow(results(21)), 2900)

    def test_a_failed_operation_is_no_traffic(self):
        results = traffic(lambda ms: 8)
        for row in results['put']['timeline']['slices']:
            row[2] = row[1] if row[0] >= 2000 else 0
        self.assertEqual(poor(results), 3000)
        self.assertAlmostEqual(measures.longest_pause(measures.slices_of(results), FAULT, END) / MS, 3000, delta=1)

    def test_a_time_line_that_lost_its_begin_is_refused(self):
        results = traffic(lambda ms: 8)
        results['put']['timeline']['dropped'] = 1
        self.assertRaises(AssertionError, measures.slices_of, results)


class Rejoin(unittest.TestCase):
    @staticmethod
    def rejoin(bytes_at):
        sampler = measures.Sampler(None)
        sampler.over.set()
        sampler.start()  # ends at once
        sampler.samples = [(ms * MS, bytes_at(ms)) for ms in range(0, 8000, 5)]
        return (sampler.rejoin(FAULT, END) - END) / MS

    def test_traffic_returns_after_a_second(self):
        found = self.rejoin(lambda ms: 1000 * (min(ms, 2000) + max(0, ms - 6000)))
        self.assertAlmostEqual(found, 1010, delta=6)  # half of the rate in a window of 20 ms

    def test_some_bytes_are_no_traffic(self):
        self.assertTrue(math.isinf(self.rejoin(lambda ms: 1000 * min(ms, 2000) + 200 * max(0, ms - 5000))))


if __name__ == '__main__':
    unittest.main()
