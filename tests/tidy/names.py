"""Names in comments exist: each file that a comment mentions; in C and C++ also each name(), Class::name and kName. The
same holds for code spans in README.md and docs/*.md, not for docs/wire, which cites other trees.
"""
import re

import prose
from violation import Violation

# Names of others that no code here calls. A prefix stands for the names of a library.
EXTERNAL_PREFIXES = ('rte_', 'io_uring_', 'ibv_', 'rdma_', 'pthread_', '__', 'std::', 'infiniband/', 'linux/', 'sys/')
EXTERNAL = {
    'select': 'libc: programs that use it cannot have many descriptors',
    'kHz': 'unit', 'kB': 'unit', 'kBit': 'unit',
}
FOLDERS = ('dataplane', 'lnd', 'control', 'config', 'tools', 'tests', 'perf', 'docs')

_CALL = re.compile(r'(?<![\w.])((?:[A-Za-z_]\w*(?:::|\.|->))*)(~?[A-Za-z_]\w*)\(\)')
_MEMBER = re.compile(r'(?<![\w:])([A-Z]\w*)::(~?[A-Za-z_]\w*)')
_CONSTANT = re.compile(r'\bk[A-Z]\w*')
_FILE = re.compile(r'(?<![\w./<>{}*@-])((?:[\w.-]+/)*[\w-]+\.(?:h|hh|cc|c|py|md))\b(?![\w(])')
_PATH = re.compile(r'(?<![\w./<>{}*@-])((?:' + '|'.join(FOLDERS) + r')/[\w./-]*)([{*<]?)')

_CODE_NAME = re.compile(r'[A-Za-z_]\w*')
_CODE_CALL = re.compile(r'(~?[A-Za-z_]\w*)\s*(?:<[^;{}()]*>)?\s*\(')


class Index:
    """The names of the tree: identifiers, names with a parameter list, files, folders."""

    def __init__(self, tree):
        self.by_file = {path: set(_CODE_NAME.findall(source.stripped)) for path, source in tree.sources.items()}
        self.identifiers = set().union(*self.by_file.values())
        self.calls = set()
        for source in tree.sources.values():
            self.calls.update(_CODE_CALL.findall(source.stripped))
        self.root, self.files, self.stems = tree.root, set(), set()
        for path in tree.texts:
            parts = path.split('/')
            self.files.update('/'.join(parts[i:]) for i in range(len(parts)))
            self.stems.add(path.rsplit('.', 1)[0])
            self.stems.update('/'.join(parts[:i]) for i in range(1, len(parts) + 1))
        self.members = {}

    def is_member(self, owner, name):
        key = owner, name.lstrip('~')
        if key not in self.members:
            self.members[key] = any(key[0] in names and key[1] in names for names in self.by_file.values())
        return self.members[key]

    def missing_names(self, line):
        """The functions, members and constants in this line of prose that the tree does not have."""
        for qualifier, name in _CALL.findall(line):
            if name not in self.calls and not _is_external(qualifier + name):
                yield f'{qualifier}{name}()'
        for owner, name in _MEMBER.findall(line):
            if not self.is_member(owner, name) and not _is_external(owner):
                yield f'{owner}::{name}'
        for name in _CONSTANT.findall(line):
            if name not in self.identifiers and not _is_external(name):
                yield name

    def missing_files(self, line):
        for name in _FILE.findall(line):
            if name not in self.files and not _is_external(name) and not (self.root / name).exists():
                yield name
        for name, pattern in _PATH.findall(line):
            name = name if pattern else name.rstrip('./')
            if not (any(stem.startswith(name) for stem in self.stems) if pattern
                    else name in self.stems or (self.root / name).exists()):
                yield name


def _is_external(name):
    return name in EXTERNAL or name.startswith(EXTERNAL_PREFIXES)


def _lines(tree):
    """(path, line, prose) of the comments, and of the code spans of the documents."""
    for path, text in tree.texts.items():
        for block in prose.comments(path, text):
            for number, line in block:
                yield path, number, line
        if path == 'README.md' or re.fullmatch(r'docs/[^/]*\.md', path):
            for number, line in enumerate(text.split('\n'), 1):
                for span in re.findall(r'`([^`]+)`', line):
                    yield path, number, span


def names_exist(tree):
    index = Index(tree)
    for path, number, line in _lines(tree):
        found = list(index.missing_files(line))
        if path in tree.sources or path.endswith('.md'):
            found += index.missing_names(line)
        for name in found:
            yield Violation(path, number, 'name',
                            f'`{name}` is nowhere in the code: correct the name (of others: EXTERNAL in '
                            'tests/tidy/names.py)')
