#!/usr/bin/env python3
"""Finds English that readers have to read twice, and lets its amount per file only shrink (english_counts.json).

    english.py                  the check, as tidy_test.py runs it
    english.py --list PATH...   each hit of these files or folders, with its line
    english.py --total          hits by top folder, kind and pattern, beside those of the start
    english.py --update         writes the table: fewer hits, moved files; refuses growth

A file may have at most the hits that the table allows. After a move, --update gives the counts of vanished files to
those that are new, and to those that files were merged into. Git joins the tables of two branches without a conflict
(.gitattributes): --update takes the lower count of each file.
"""
import argparse
import collections
import fnmatch
import json
import pathlib
import re
import sys

import prose
from violation import Violation

TABLE = 'tests/tidy/english_counts.json'
# Notes of protocols are lists of fields and of evidence: their sentences may be long.
LONG_ALLOWED = ('docs/wire/*',)
KINDS = ('comment', 'user')  # comments and names of tests; documents and texts that the product prints
SENTENCE_WORDS_MAX = 25

Hit = collections.namedtuple('Hit', 'line kind pattern text')

_CLAUSE = r'(?:^|[.;:] )["\'(\[*]*'
# Persons may be subjects of these verbs. The words before the verb decide.
_PERSON = re.compile(r'\b(?:operators?|users?|readers?|administrators?|engineers?|people|persons?|authors?|you|we|I)'
                     r'(?: (?:who|that|to|may|can|must|should|will|would|does|do|not|never))*$', re.I)
# In a text, the verb may be a request to the operator.
_REQUEST = re.compile(r'(?:^|[;:,] )$')
_WORD = r'(?<![\w./:-])(?:%s)(?![\w(/-]|::|\.\w)'

PATTERNS = [  # (name, expression, roles in which it does not count)
    ('opener', re.compile(_CLAUSE + r'(?:who|whom|whoever|what)(?= )', re.I), ('heading',)),
    ('opener', re.compile(_CLAUSE + r'(?:those|ones?)(?= (?:who|whom|that|which|whose)\b)', re.I), ()),
    ('opener', re.compile(r'^["\'(\[*]*(?:those|it)(?= )', re.I), ('text',)),
    ('opener', re.compile(r'^["\'(\[*]*(?:Those|It)(?= )'), ()),
    ('archaic', re.compile(_WORD % r'anew|in being|of old|for shows|so long|so many|all the same|taken for|'
                           r'here stands?|in vain|(?:has|have) still to|no more(?= ?[.,;:)]|$)', re.I), ()),
    ('person', re.compile(_WORD % r'knows?|knew|knowing|asks?|asked|asking|tells?|told|telling|wants?|wanted|wanting|'
                          r'hurry|hurries|hurried|dies?|died|dying|bury|buries|buried|doubts?|doubted|patience', re.I),
     ()),
]


def _words(sentence):
    return sum(1 for word in sentence.split() if re.search(r'\w', word))


def _is_no_object(sentence, match):
    """True if the verb of this match belongs to a person, to the operator as a request, or to "told apart"."""
    before, after = sentence.text[:match.start()], sentence.text[match.end():]
    return (_PERSON.search(before.rstrip()) or re.match(r'(?:\W+\w+){0,3}\W+apart\b', after)
            or sentence.role == 'text' and match.group(0) == 'ask' and _REQUEST.search(before))


def _hits_in(sentence):
    places = set()
    for name, pattern, not_in in PATTERNS:
        if sentence.role in not_in or name == 'opener' and sentence.text.endswith('?'):
            continue
        for match in pattern.finditer(sentence.text):
            if match.end() not in places and not (name == 'person' and _is_no_object(sentence, match)):
                places.add(match.end())
                yield Hit(sentence.line, sentence.kind, name, sentence.text[max(0, match.start() - 30):][:90])
    if sentence.role != 'name' and _words(sentence.text) > SENTENCE_WORDS_MAX:
        yield Hit(sentence.line, sentence.kind, 'long', f'{_words(sentence.text)} words: {sentence.text[:75]}')


def hits_of(path, text):
    """Hits of one file, by line."""
    found = []
    for segment in prose.extract(path, text):
        for sentence in prose.sentences(segment):
            found += _hits_in(sentence)
    if any(fnmatch.fnmatch(path, pattern) for pattern in LONG_ALLOWED):
        found = [hit for hit in found if hit.pattern != 'long']
    return sorted(found)


def _counted(hits):
    return tuple(sum(1 for hit in hits if hit.kind == kind) for kind in KINDS)


# ---- the table -----------------------------------------------------------------------------------------------------
class Table:
    """start: hits when the rule came, with the commit. zero: per kind, globs of paths that must have none.
    files: path -> allowed hits per kind."""

    def __init__(self, start=None, zero=None, files=None):
        self.start, self.zero, self.files = start or {}, zero or {}, files or {}

    @classmethod
    def parse(cls, text):
        """Reads the table, also with the marks of a conflict in it: of two counts the lower one holds."""
        lines = [line for line in text.split('\n') if not re.match(r'(?:<{7}|={7}|>{7}|\|{7})', line)]
        rows = [re.match(r' *"([^"]+)": \[(\d+), (\d+)\],?$', line) for line in lines]
        files = {}
        for path, *counts in (row.groups() for row in rows if row):
            counts = tuple(int(count) for count in counts)
            files[path] = tuple(map(min, counts, files.get(path, counts)))
        head = json.loads('\n'.join(line for line, row in zip(lines, rows) if not row) or '{}')
        return cls(head.get('start'), head.get('zero'), files)

    def text(self):
        rows = ',\n'.join(f'{json.dumps(path)}: {json.dumps(list(counts))}'
                          for path, counts in sorted(self.files.items()) if any(counts))
        zero = ',\n'.join(f' {json.dumps(kind)}: {json.dumps(self.zero.get(kind, []))}' for kind in KINDS)
        return f'{{"start": {json.dumps(self.start)},\n"zero": {{\n{zero}}},\n"files": {{\n{rows}\n}}}}\n'


def follow_moves(files, counts, existing):
    """The table's rows under today's paths: a file that is new takes the row of one that is gone, if their names are
    alike. Returns (rows, rows of files that are gone)."""
    gone = {path: row for path, row in files.items() if path not in existing}
    rows = {path: row for path, row in files.items() if path in existing}
    for path in sorted(counts):
        alike = [old for old in gone if old.split('/')[-1] == path.split('/')[-1]]
        if path not in rows and alike:
            old = max(alike, key=lambda old: (gone[old] == counts[path],
                                              len(set(old.split('/')) & set(path.split('/'))), old))
            rows[path] = gone.pop(old)
    return rows, gone


def _totals(rows):
    rows = list(rows)
    return [sum(row[i] for row in rows) for i in range(len(KINDS))]


def updated(table, counts, existing):
    """(new table, complaints). Rows of files that are gone pay for files that they were merged into; these and rows
    that have shrunk pay for new files."""
    rows, gone = follow_moves(table.files, counts, existing)
    complaints = []
    for kind, name in enumerate(KINDS):
        paid_by_gone = _totals(gone.values())[kind]
        shrunk = sum(max(0, row[kind] - counts.get(path, (0, 0))[kind]) for path, row in rows.items())
        grown = {path: counts[path][kind] - row[kind] for path, row in rows.items()
                 if path in counts and counts[path][kind] > row[kind]}
        new = {path: row[kind] for path, row in counts.items() if path not in rows and row[kind]}
        if sum(grown.values()) > paid_by_gone:
            complaints += [f'{path}: {more} more in {name}' for path, more in grown.items()]
        if sum(new.values()) > max(0, paid_by_gone - sum(grown.values())) + shrunk:
            complaints += [f'{path}: new, with {count} in {name}' for path, count in new.items()]
    return Table(table.start, table.zero, dict(counts)), complaints


# ---- the rule ------------------------------------------------------------------------------------------------------
def ratchet(tree):
    """Each file has exactly the hits that the table allows; where `zero` says so, none."""
    table = Table.parse(tree.texts.get(TABLE, ''))
    hits = {path: hits_of(path, text) for path, text in tree.texts.items()}
    counts = {path: _counted(found) for path, found in hits.items() if found}
    rows, gone = follow_moves(table.files, counts, tree.texts)
    for path in gone:
        yield Violation(TABLE, 1, 'english', f'{path} is gone: run tests/tidy/english.py --update')
    for path in sorted(set(counts) | set(rows)):
        for kind, name in enumerate(KINDS):
            have, may = counts.get(path, (0, 0))[kind], rows.get(path, (0, 0))[kind]
            found = [hit for hit in hits.get(path, []) if hit.kind == name]
            if any(fnmatch.fnmatch(path, pattern) for pattern in table.zero.get(name, [])):
                for hit in found:
                    yield Violation(path, hit.line, 'english', f'{hit.pattern}: "{hit.text}"')
            elif have > may:
                lines = ', '.join(str(hit.line) for hit in found)
                yield Violation(path, found[-1].line, 'english',
                                f'{have} hits in {name}, {may} allowed (lines {lines}): run '
                                f'tests/tidy/english.py --list {path}')
            elif have < may:
                yield Violation(path, 1, 'english', f'{may - have} fewer in {name}, well done: run '
                                                    'tests/tidy/english.py --update')


# ---- the program ---------------------------------------------------------------------------------------------------
def _top(path):
    return path.rsplit('/', 1)[0] if path.startswith('docs/') else path.split('/')[0]


def print_totals(tree, table):
    by_place, by_pattern = collections.Counter(), collections.Counter()
    for path, text in tree.texts.items():
        for hit in hits_of(path, text):
            by_place[_top(path), hit.kind] += 1
            by_pattern[hit.pattern, hit.kind] += 1
    for counter in (by_place, by_pattern):
        print(f'{"":16}' + ''.join(f'{kind:>9}' for kind in KINDS))
        for name in sorted({name for name, _ in counter}):
            print(f'{name:16}' + ''.join(f'{counter[name, kind]:9}' for kind in KINDS))
        print()
    print(f'{"total":16}' + ''.join(f'{sum(n for (_, k), n in by_place.items() if k == kind):9}' for kind in KINDS))
    print(f'{"at the start":16}' + ''.join(f'{table.start.get(kind, 0):9}' for kind in KINDS))


def main():
    import rules  # not above: rules.py needs this module
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--root', default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument('--list', nargs='+', metavar='PATH')
    parser.add_argument('--total', action='store_true')
    parser.add_argument('--update', action='store_true')
    arguments = parser.parse_args()
    tree = rules.Tree(arguments.root)
    table = Table.parse(tree.texts.get(TABLE, ''))
    if arguments.list:
        wanted = [path.rstrip('/') for path in arguments.list]
        for path, text in tree.texts.items():
            if any(path == want or path.startswith(want + '/') for want in wanted):
                for hit in hits_of(path, text):
                    print(f'{path}:{hit.line}: {hit.kind} {hit.pattern}: {hit.text}')
    elif arguments.total:
        print_totals(tree, table)
    elif arguments.update:
        hits = {path: hits_of(path, text) for path, text in tree.texts.items()}
        counts = {path: _counted(found) for path, found in hits.items() if found}
        table_now, complaints = updated(table, counts, tree.texts)
        if complaints:
            print('not updated; these would grow (english.py --list PATH):', *complaints, sep='\n  ')
            return 1
        (tree.root / TABLE).write_text(table_now.text(), encoding='utf-8')
        print(', '.join(f'{kind}: {before} -> {after}' for kind, before, after
                        in zip(KINDS, _totals(table.files.values()), _totals(counts.values()))))
    else:
        violations = list(ratchet(tree))
        for violation in violations:
            print(f'{violation.path}:{violation.line}: {violation.rule}: {violation.message}')
        return 1 if violations else 0
    return 0


if __name__ == '__main__':
    sys.exit(main())
