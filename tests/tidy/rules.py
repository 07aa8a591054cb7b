"""The rules of the house that a program can check. Each rule is a function from the Tree to violations; the tables at
the top of each section say what is allowed where. A file that needs an exception gets a line in such a table, with its
reason, never a comment in the file. Every rule has a planted violation in selftest.py.
"""
import pathlib
import re
import shutil
import subprocess

import cpp_text
import english
import names
from banned import BANNED, PRODUCT
from violation import Violation

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 120

CODE_FOLDERS = ('dataplane', 'lnd', 'control', 'tools', 'config', 'tests', 'perf')
SKIPPED_FOLDERS = ('.cache', '__pycache__', 'captures')
TEXT_SUFFIXES = ('.h', '.hh', '.cc', '.c', '.py', '.build', '.txt', '.md', '.yaml', '.yml', '.json', '.sh', '.supp', '')

# Files and functions above the limits, with their length: may shrink, may not grow. Empty, and meant to stay so.
RATCHET_FILE_LINES = {}
RATCHET_FUNCTION_LINES = {}


class Source:
    """One C++ file: raw text, text without comments and literals, and what cpp_text found in it."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.lines = text.split('\n')
        self.stripped = cpp_text.strip(text)
        self.code_lines = cpp_text.strip(text, keep_includes=False).split('\n')
        self._scan = None

    @property
    def scan(self):
        if self._scan is None:
            self._scan = cpp_text.scan(self.stripped)
        return self._scan


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.texts = {}    # path -> text of every text file of the project
        self.sources = {}  # path -> Source of every C++ file
        for path in sorted(self._walk(self.root)):
            name = path.relative_to(self.root).as_posix()
            try:
                text = path.read_text(encoding='utf-8')
            except (UnicodeDecodeError, FileNotFoundError):
                continue
            self.texts[name] = text
            if path.suffix in ('.h', '.hh', '.cc', '.c') and name.split('/')[0] in CODE_FOLDERS:
                self.sources[name] = Source(name, text)

    def _walk(self, folder):
        for path in folder.iterdir():
            if path.is_symlink() or path.name == '.git':  # a folder, or a file in a work tree beside it
                continue
            if path.is_dir():
                if path.name not in SKIPPED_FOLDERS and not (folder == self.root and path.name.startswith('build')):
                    yield from self._walk(path)
            elif path.suffix in TEXT_SUFFIXES and path.stat().st_size < 2_000_000:
                yield path


def matches(path, patterns):
    return any(pathlib.PurePosixPath(path).match(p) if '*' in p else path == p or path.startswith(p + '/')
               for p in patterns)


# ---- include direction ---------------------------------------------------------------------------------------------
# First row that matches the including file decides. {own} is its LND's folder.
BASE, WIRE, STATE = ('dataplane/base',), ('dataplane/base', 'dataplane/wire'), (
    'dataplane/base', 'dataplane/wire', 'dataplane/state', 'lnd/lnd.h')
DRIVER = STATE + ('lnd/driver.h', 'lnd/net', '{own}')
INCLUDE_TABLE = [
    (('tests',), ('*',), ''),
    (('perf/*.cc', 'perf/*.h'), ('*',), ''),
    # The layers of dataplane/: each stands on those above it in this list, host/ on base/ alone.
    (('dataplane/base',), BASE, 'base/ stands on nothing'),
    (('dataplane/wire',), WIRE, 'wire/ is bytes and structs: it stands on base/'),
    (('dataplane/state',), STATE, 'state/ is data with its local rules: what takes a Worker& belongs into stages/'),
    (('dataplane/select',), STATE + ('dataplane/select',), 'select/ is a pure function of state/'),
    (('dataplane/stages',), STATE + ('dataplane/select', 'dataplane/stages'), 'stages/ stand on state/ and select/'),
    (('dataplane/host',), BASE + ('dataplane/host',), 'the process under the workers stands on base/ alone'),
    (('lnd/lnd.h',), STATE, 'the driver interface is made of what state/ has'),
    (('lnd/registry.cc',), STATE + ('lnd',), ''),
    (('lnd/registry.h', 'lnd/driver.h', 'lnd/drivers.cc', 'lnd/registrar_ctl.h', 'lnd/registrar_ctl.cc'),
     STATE + ('lnd/*.h',),
     'only lnd/registry.cc names a concrete driver'),
    (('lnd/net/packet',), WIRE + ('lnd/net/packet',), 'packets are bytes and structs, without I/O'),
    (('lnd/net/kernel',), BASE + ('lnd/net/kernel',), 'facts of the kernel, for drivers and control'),
    (('lnd/net/dpdk',), WIRE + ('dataplane/state/payload.h', 'dataplane/host', 'lnd/net'),
     'ports and the EAL stand on no driver'),
    (('lnd/rc/roce',), DRIVER + ('lnd/rc/*.h',), 'a provider stands on lnd/rc/rc.h and its device'),
    (('lnd/rc',), DRIVER + ('lnd/rc',), 'a provider stands on lnd/rc/rc.h'),
    (('lnd/o2iblnd/driver.cc',), DRIVER + ('lnd/rc/rc.h', 'lnd/rc/providers_ctl.h'), 'the record names its provider'),
    (('lnd/o2iblnd',), DRIVER + ('lnd/rc/rc.h',), 'o2iblnd is written against lnd/rc/rc.h only'),
    (('lnd',), DRIVER,
     'a driver stands on dataplane/{base,wire,state}, lnd/lnd.h and lnd/net: ask the core via LndCore'),
    (('config',), ('config', 'dataplane/base'), 'config is text and fields; control turns it into objects'),
    (('control/lib',), ('control', 'config', 'dataplane', 'lnd/*.h', 'lnd/net/kernel', 'lnd/net/dpdk/eal.h'),
     'libulnet may start the EAL'),
    (('control',), ('control', 'config', 'dataplane', 'lnd/*.h', 'lnd/net/kernel/devices.h'),
     'control meets drivers through lnd/lnd.h and the registry'),
    (('perf/generator',), ('perf/generator', 'dataplane/base', 'dataplane/state', 'dataplane/host', 'control/api',
                           'config'),
     'the load generator uses a Submitter, as applications do'),
    (('perf/wire',), WIRE + ('perf/wire', 'perf/generator/histogram.h', 'dataplane/host', 'lnd/net'),
     'the wire path stands on ports'),
    (('tools/ulnetd',), ('tools/ulnetd', 'control', 'config', 'dataplane', 'lnd/*.h', 'lnd/net', 'perf/generator'),
     'the daemon stands on control; a driver it meets through the registry'),
    (('tools',), ('tools', 'control', 'config', 'dataplane/base', 'dataplane/host', 'dataplane/state', 'lnd/*.h',
                  'perf/generator', 'perf/wire/wire_command.h'), 'tools stand on control'),
]
# The layers of dataplane/, lowest first. An arrow is a pair of folders, one of which includes the other.
LAYERS = ('dataplane/base', 'dataplane/wire', 'dataplane/state', 'dataplane/select', 'dataplane/stages',
          'dataplane/host')
# System headers that only these files may include.
INCLUDE_ONLY_IN = [
    (r'rte_eal\.h|rte_ethdev\.h|rte_launch\.h', ('lnd/net/dpdk', 'tests/unit/dpdk'),
     'DPDK start-up and ports are lnd/net/dpdk/eal.cc and port.cc'),
    (r'infiniband/.*|rdma/.*', ('lnd/rc/verbs', 'tests/unit/rc'), 'verbs are below lnd/rc/rc.h'),
    (r'liburing\.h', ('lnd', 'dataplane/base/idle_gate.cc', 'dataplane/host', 'tests'),
     'io_uring is below lnd/ and the worker\'s sleep'),
    (r'yaml-cpp/.*', ('config', 'tests'), 'YAML is read and written in config/ only'),
]
PUBLIC_HEADERS = ('ulnet.h', 'ulnet.hh')  # as an application includes them: tools/examples, and tests of the headers
_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def _allowed_targets(path):
    own = '/'.join(path.split('/')[:2])
    for who, allowed, reason in INCLUDE_TABLE:
        if any(pathlib.PurePosixPath(path).match(w) and path.count('/') == w.count('/') if '*' in w
               else path == w or path.startswith(w + '/') for w in who):
            return [a.replace('{own}', own) for a in allowed], reason
    return ['*'], ''


def include_direction(tree):
    for path, source in tree.sources.items():
        allowed, reason = _allowed_targets(path)
        for number, line in enumerate(source.stripped.split('\n'), 1):
            match = _INCLUDE.match(line)
            if not match:
                continue
            kind, target = match.groups()
            if kind == '<':
                for pattern, only_in, why in INCLUDE_ONLY_IN:
                    if re.fullmatch(pattern, target) and not matches(path, only_in):
                        yield Violation(path, number, 'include',
                                        f'<{target}> may be included in {", ".join(only_in)} only: {why}')
                continue
            if target in PUBLIC_HEADERS:
                continue
            if target.split('/')[0] not in CODE_FOLDERS:
                yield Violation(path, number, 'include',
                                f'"{target}": write the path from the root of the project, "folder/…/file.h"')
            elif allowed != ['*'] and not any(
                    pathlib.PurePosixPath(target).match(a) and target.count('/') == a.count('/') if '*' in a
                    else target == a or target.startswith(a + '/') for a in allowed):
                yield Violation(path, number, 'include', f'"{target}" may not be included here: {reason}')


def upward_arrows(tree):
    """Pairs (lower, higher) of folders of dataplane/: a file of the lower one includes a file of the higher one."""
    arrows = set()
    for path, source in tree.sources.items():
        for match in re.finditer(r'^\s*#\s*include\s*"([^"]+)"', source.stripped, re.M):
            here, there = (next((i for i, layer in enumerate(LAYERS) if name.startswith(layer + '/')), None)
                           for name in (path, match.group(1)))
            if here is not None and there is not None and there > here:
                arrows.add((LAYERS[here], LAYERS[there]))
    return sorted(arrows)


# ---- lengths -------------------------------------------------------------------------------------------------------
def lengths(tree):
    for path, text in tree.texts.items():
        if not is_code(path):
            continue
        lines = text.split('\n')
        count = len(lines) - (lines[-1] == '')
        limit = RATCHET_FILE_LINES.get(path, FILE_LINES_MAX)
        if count > limit and path.split('/')[0] in CODE_FOLDERS:
            yield Violation(path, count, 'file-length',
                            f'{count} lines, limit {limit}: split by what is handled, not by letters')
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                yield Violation(path, number, 'columns', f'{len(line)} columns, limit {COLUMNS_MAX}: break the line')
    for path, source in tree.sources.items():
        for function in source.scan[0]:
            limit = RATCHET_FUNCTION_LINES.get(f'{path}:{function.name}', FUNCTION_LINES_MAX)
            if function.lines > limit:
                yield Violation(path, function.first_line, 'function-length',
                                f'{function.name} has {function.lines} lines, limit {limit}: give its steps names')


# Lines of C++ in a folder, without the named subfolders. The table in docs/architecture.md names other homes.
FOLDER_LINES_MAX = {'control': (7950, ('api', 'events', 'faults', 'health', 'lib', 'policy')),
                    'control/events': (600, ()), 'control/faults': (450, ()), 'control/health': (1240, ()),
                    'control/policy': (1300, ())}


def folder_lengths(tree):
    for folder, (limit, without) in FOLDER_LINES_MAX.items():
        apart = tuple(f'{folder}/{name}/' for name in without)
        count = sum(source.text.count('\n') for path, source in tree.sources.items()
                    if path.startswith(folder + '/') and not path.startswith(apart))
        if count > limit:
            yield Violation(folder, 0, 'folder-length',
                            f'{count} lines without {", ".join(without)}, limit {limit}: find the part that is not '
                            'about this thread')


def is_code(path):
    if path.split('/')[-1] in ('meson.build', 'meson_options.txt'):
        return True
    return path.endswith(('.h', '.hh', '.cc', '.c', '.py')) or path in (
        'tools/check', 'tools/packages', 'tools/presets', 'tools/quickstart', 'tools/simulate', '.ci/run')


# ---- words ---------------------------------------------------------------------------------------------------------
# Put together from halves, so that this file does not accuse itself.
_UNFINISHED = re.compile(r'\b(?:FIX' r'ME|TO' r'DO|XX' r'X|HA' r'CK)\b')
_WORKPLACE = re.compile(r'/wo' r'rk/|shared/de' r'sign|/tmp/bash_' r'jobs')


def words(tree):
    for path, text in tree.texts.items():
        for number, line in enumerate(text.split('\n'), 1):
            if _UNFINISHED.search(line):
                yield Violation(path, number, 'unfinished',
                                'finish it, or write down in the project\'s issues what is missing')
            if _WORKPLACE.search(line):
                yield Violation(path, number, 'workplace',
                                'names a place outside the project, where a reader cannot follow: cite docs/ instead')


# ---- banned calls --------------------------------------------------------------------------------------------------
def banned(tree):
    compiled = [(ban, re.compile(ban.pattern)) for ban in BANNED]
    for path, source in tree.sources.items():
        active = [(ban, pattern) for ban, pattern in compiled
                  if matches(path, ban.where) and not matches(path, ban.but)]
        for number, line in enumerate(source.code_lines, 1):
            for ban, pattern in active:
                match = pattern.search(line)
                if match:
                    yield Violation(path, number, ban.rule, f'`{match.group(0).strip()}`: {ban.instead}')


# ---- globals -------------------------------------------------------------------------------------------------------
GLOBALS_ALLOWED = {
    # 'path:name': reason
    'dataplane/host/memory_reserve.cc:installed': 'a new-handler is a function without arguments',
}


def global_state(tree):
    for path, source in tree.sources.items():
        if not matches(path, PRODUCT) or path.startswith('tools/examples/'):  # examples are an application's code
            continue
        _, outer, statics = source.scan
        for statement in outer:
            if cpp_text.is_mutable_variable(statement):
                name = re.split(r'[={\[]', statement.text)[0].split()[-1].strip('*&')
                if f'{path}:{name}' not in GLOBALS_ALLOWED:
                    yield Violation(path, statement.line, 'global',
                                    f'`{name}` is mutable and global: make it a member of what owns it')
        for statement in statics:
            constant = re.match(r'static\s+(?:constexpr|const\b)', statement.text)
            if not constant and '(' not in re.split(r'[={]', statement.text)[0]:
                yield Violation(path, statement.line, 'global',
                                f'`{" ".join(statement.text.split())[:60]}`: a static local is a global')


# ---- files ---------------------------------------------------------------------------------------------------------
def headers(tree):
    for path, source in tree.sources.items():
        if path.endswith('.h') and matches(path, PRODUCT + ('tests', 'perf')):
            if not re.match(r'//|/\*', source.text):
                yield Violation(path, 1, 'file-comment',
                                'begin with a comment: what it is, which thread, what it does not do')
            if '#pragma once' not in source.text and not re.search(r'#\s*ifndef\s+\w+', source.text):
                yield Violation(path, 1, 'pragma-once', 'add #pragma once after the file comment')


_PREFIXES = ('', 'test_', 'bench_', 'fuzz_')
_SUFFIXES = ('', '.cc', '_test.cc', '_fuzz.cc', '_bench.cc', '.c')


def dead_files(tree):
    """Every .cc is named in a meson.build of its folder or of one above: as a path, or as a word of a foreach list."""
    listed = set()
    for path, text in tree.texts.items():
        if path.split('/')[-1] != 'meson.build':
            continue
        folder = pathlib.PurePosixPath(path).parent
        text = re.sub(r'#.*', '', text)
        for word in re.findall(r"'([\w./+-]+)'", text):
            for prefix in _PREFIXES:
                for suffix in _SUFFIXES:
                    head, _, tail = word.rpartition('/')
                    parts = []
                    for part in (folder / head / (prefix + tail + suffix)).parts:
                        parts = parts[:-1] if part == '..' else parts + [part]
                    listed.add('/'.join(parts))
    for path in tree.sources:
        if path.endswith(('.cc', '.c')) and path not in listed:
            yield Violation(path, 1, 'dead-file',
                            'no meson.build names it: list it beside its neighbours, or delete it')


# ---- wire structs --------------------------------------------------------------------------------------------------
WIRE_HEADERS = ('dataplane/wire', 'lnd/*/proto*.h', 'lnd/*/proto/*.h')
_STRUCT = re.compile(r'^\s*struct\s+(?:alignas\([^)]*\)\s*)?(\w+)[^;{]*\{')


def golden_bytes(tree):
    """Each struct of the wire folders is named by a test in tests/wire, which holds its golden bytes."""
    tests = '\n'.join(s.text for p, s in tree.sources.items() if p.startswith('tests/wire/'))
    for path, source in tree.sources.items():
        if not path.endswith('.h') or not matches(path, WIRE_HEADERS):
            continue
        for number, line in enumerate(source.code_lines, 1):
            match = _STRUCT.match(line)
            raw = source.lines[number - 1] + (source.lines[number - 2] if number > 1 else '')
            if match and 'not on the wire' not in raw and not re.search(rf'\b{match.group(1)}\b', tests):
                yield Violation(path, number, 'golden',
                                f'{match.group(1)} is in no test of tests/wire: add one with its golden bytes '
                                '(or say "not on the wire" in a comment on or above this line)')


# ---- texts ---------------------------------------------------------------------------------------------------------
_COUNTER_TABLE = re.compile(r'std::array<CounterText,\s*size_t\((\w+)::kCount\)>\s*\w+\s*\{\{(.*?)\}\};', re.S)
COUNTERS = 'dataplane/base/counters.h'  # each enum with kCount in it is a kind of counter
# Rows of the sim driver describe nothing: those of socklnd come first.
FIELD_TABLES = re.compile(r'config/schema\w*\.cc$|lnd/(?!sim/)\w+/fields\.cc$')
_FIELD = re.compile(r'\{\s*\.path\s*=\s*"([^"]*)"(.*?)\}(?=,\s*(?:\{|//|\}|$))', re.S)


def texts(tree):
    """Every counter has name, unit and meaning, every configuration key its text: both end up in what a user reads."""
    enums = {}
    tables = {match.group(1) for source in tree.sources.values() for match in _COUNTER_TABLE.finditer(source.text)}
    for path, source in tree.sources.items():
        for match in re.finditer(r'enum class (\w+)\s*:[^{]*\{([^}]*)\bkCount\s*\}', source.stripped):
            enums[match.group(1)] = len(re.findall(r'\bk\w+', match.group(2)))
            if path == COUNTERS and match.group(1) not in tables:
                yield Violation(path, source.stripped.count('\n', 0, match.start()) + 1, 'counter-text',
                                f'{match.group(1)} has no table of CounterText: add one with name, unit and meaning')
    for path, source in tree.sources.items():
        for match in _COUNTER_TABLE.finditer(source.text):
            rows = re.findall(r'\{\s*"[^"]+",\s*"[^"]+",\s*"[^"]+"', match.group(2))
            if len(rows) != enums.get(match.group(1)):
                line = source.text.count('\n', 0, match.start()) + 1
                yield Violation(path, line, 'counter-text',
                                f'{match.group(1)} has {enums.get(match.group(1))} counters, '
                                f'{len(rows)} of them with name, unit and meaning: add the rows')
        if not FIELD_TABLES.match(path):
            continue
        for match in _FIELD.finditer(source.text):
            ignored = re.search(r'\.type\s*=\s*kIgnored', match.group(2))
            if not ignored and not re.search(r'\.text\s*=\s*"[^"]+', match.group(2)):
                line = source.text.count('\n', 0, match.start()) + 1
                yield Violation(path, line, 'key-text',
                                f'{match.group(1)} has no text: say what it does, in one sentence')


# ---- configuration keys --------------------------------------------------------------------------------------------
# Names of the objects that hold a key's value in the code that reads it, by the map of the key. Default: the map's
# name.
KEY_HOLDERS = {'route': 'route|config', 'routing': 'routing|change'}
# Code that only shows or carries a value does not count as a reader.
KEY_NO_READERS = ('config', 'control/api', 'tools/ulnetctl', 'tests', 'perf')
# Read while a node starts. A key without another reader needs a restart.
KEY_START_READERS = ('control/lib/boot.cc',)
# A driver's key is a member of the driver's own struct: `.at = kAt<&SockConfig::member>`. The code of the driver's
# folder reads it from an object with one of these names. A file that only carries it to the other half does not count.
DRIVER_KEY = re.compile(r'\.at\s*=\s*kAt<&(?:\w+::)*(\w+)::(\w+)>')
DRIVER_HOLDERS = r'config_?|tunables(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?'
DRIVER_NO_READERS = ('fields.cc', 'config.h', 'messages.h')
_KEY_PLACE = re.compile(r'\.at\s*=\s*AT\((\w+)((?:\.\w+)+)\)')


def keys(tree):
    """Every configuration key is read by some code, or says that it has no effect. A key that is read only while a node
    starts says that it needs a restart."""
    readers = {p: s.stripped for p, s in tree.sources.items() if not matches(p, KEY_NO_READERS)}
    for path, source in tree.sources.items():
        if not re.match(r'config/schema\w*\.cc$', path):
            continue
        for match in _FIELD.finditer(source.text):
            place = _KEY_PLACE.search(match.group(2))
            if place is None or '.no_effect' in match.group(2):
                continue
            words = (place.group(1) + place.group(2)).split('.')
            holder, member = words[-2:]
            reads = re.compile(rf'\b(?:{KEY_HOLDERS.get(holder, holder)})(?:\.|->){member}\b')
            found = [p for p, text in readers.items() if reads.search(text)]
            line = source.text.count('\n', 0, match.start()) + 1
            if not found:
                yield Violation(path, line, 'key-read',
                                f'{match.group(1)} is read by no code: use it, or say .no_effect and why')
            elif '.needs_restart = true' not in match.group(2) and words[0] == 'ulnet' \
                    and all(p in KEY_START_READERS for p in found):
                yield Violation(path, line, 'key-live',
                                f'{match.group(1)} is read only at start: say .needs_restart, or follow it at run time')


def driver_keys(tree):
    """Every key of a driver is read by the code of its folder."""
    for path, source in tree.sources.items():
        folder = path.rsplit('/', 1)[0]
        rows = [m for m in _FIELD.finditer(source.text) if DRIVER_KEY.search(m.group(2))]
        if not rows or not path.startswith('lnd/'):
            continue
        code = '\n'.join(s.stripped for p, s in tree.sources.items()
                         if p.startswith(folder + '/') and p.rsplit('/', 1)[1] not in DRIVER_NO_READERS)
        for match in rows:
            member = DRIVER_KEY.search(match.group(2)).group(2)
            reads = re.compile(rf'\b\w*(?:{DRIVER_HOLDERS})(?:\.|->){member}\b(?!\s*=[^=])')
            if '.no_effect' not in match.group(2) and not reads.search(code):
                yield Violation(path, source.text.count('\n', 0, match.start()) + 1, 'key-read',
                                f'{match.group(1)}: no code of {folder} reads {member}: use it, or say .no_effect')


# Code that names no key of a driver. All other tools write configurations as an operator does: ulnetctl maps the words
# of its command line to keys.
DRIVER_KEY_NAMES_IN = ('config', 'control', 'dataplane', 'tools/ulnetd')
DRIVER_KEY_NAMES_ALLOWED = {
    # 'path:name': reason
    'config/import.cc:timeout': 'also a key of `ping:`',
    'config/export.cc:lnd_timeout': 'also a key of `global:`',
    'config/schema_lnet.cc:lnd_timeout': 'also a key of `global:`',
    'config/apply.cc:retry_count': 'also a key of `global:`',
    'config/schema_lnet.cc:retry_count': 'also a key of `global:`',
    'dataplane/base/counters.cc:timeout': 'also the name of a failure class',
}
_DRIVER_KEY_NAME = re.compile(r'\.(?:path|net_set)\s*=\s*"([^"]+)"')


def _key_patterns(path):
    """Texts that name a key: `path`, its tails that have a dot, its last word alone; with `_`, that word anywhere."""
    parts = path.split('.')
    tails = [re.escape('.'.join(parts[i:])) for i in range(len(parts) - 1)]
    if '_' in parts[-1]:
        tails.append(parts[-1])
    return re.compile(r'(?<!\w)(?:' + '|'.join(tails + [rf'^{parts[-1]}$']) + r')(?!\w)')


def driver_key_names(tree):
    """A key of a driver is written once, in its row: no string literal of these folders names it."""
    keys = {}
    for path, source in tree.sources.items():
        if FIELD_TABLES.match(path) and DRIVER_KEY.search(source.text):
            for key in _DRIVER_KEY_NAME.findall(source.text):
                keys.setdefault(key, (path, _key_patterns(key)))
    for path, source in tree.sources.items():
        if not matches(path, DRIVER_KEY_NAMES_IN):
            continue
        for line, text in cpp_text.literals(source.text):
            for key, (owner, pattern) in keys.items():
                name = key.split('.')[-1]
                if pattern.search(text) and f'{path}:{name}' not in DRIVER_KEY_NAMES_ALLOWED:
                    yield Violation(path, line, 'driver-key',
                                    f'{name} is a key of {owner}: take the name and its limits from the row')


# ---- documents ---------------------------------------------------------------------------------------------------
TRUE_DOCUMENTS = ('README.md', 'docs/architecture.md')
_LINK = re.compile(r'\]\(([^)#:\s]+)\)')
_NAMED = re.compile(r'`((?:' + '|'.join(CODE_FOLDERS + ('docs',)) + r')/[\w./-]*)`')


def documents(tree):
    """Links lead somewhere; the files that README.md and docs/architecture.md name exist."""
    for path, text in tree.texts.items():
        if not path.endswith('.md'):
            continue
        for number, line in enumerate(text.split('\n'), 1):
            folder = (tree.root / path).parent
            wanted = [(folder / link, link) for link in _LINK.findall(line)]
            if path in TRUE_DOCUMENTS:
                wanted += [(tree.root / name, name) for name in _NAMED.findall(line)]
            for target, name in wanted:
                if not target.exists():
                    yield Violation(path, number, 'document', f'{name} is not there: mend the text or the link')


# ---- formatting ----------------------------------------------------------------------------------------------------
def formatting(tree):
    """clang-format, where it is installed in the version that the style was written for (tools/packages full)."""
    program = shutil.which('clang-format-14') or shutil.which('clang-format')
    files = [p for p in tree.sources]
    if program is None or not files:
        return
    if 'version 14.' not in subprocess.run([program, '--version'], capture_output=True, text=True).stdout:
        return
    result = subprocess.run([program, '--dry-run', '--ferror-limit=1', *files], cwd=tree.root, capture_output=True,
                            text=True)
    for match in re.finditer(r'^([^\s:]+):(\d+):\d+: warning', result.stderr, re.M):
        yield Violation(match.group(1), int(match.group(2)), 'format', f'run: clang-format -i {match.group(1)}')


RULES = [include_direction, lengths, folder_lengths, words, banned, global_state, headers, dead_files, golden_bytes,
         texts, keys, driver_keys, driver_key_names, documents, english.ratchet, names.names_exist]
FULL_RULES = [formatting]
