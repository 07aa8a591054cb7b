"""One violation of a rule: where, which rule, and how to mend it."""
import collections

Violation = collections.namedtuple('Violation', 'path line rule message')
