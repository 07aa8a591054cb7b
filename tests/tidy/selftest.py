#!/usr/bin/env python3
"""Tests the tidy rules: each planted violation is found where it was planted, and clean code is not accused."""
import contextlib
import io
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import banned
import commits
import cpp_text
import english
import names
import prose
import rules


def found_violations(files, rule_functions=None):
    """Violations in a temporary project of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding='utf-8')
        tree = rules.Tree(folder)
        return [violation for rule in rule_functions or rules.RULES for violation in rule(tree)]


def found(files, rule_functions=None):
    """The same, as 'path:line:rule'."""
    return sorted({f'{v.path}:{v.line}:{v.rule}' for v in found_violations(files, rule_functions)})


class IncludeDirection(unittest.TestCase):
    def check(self, path, include, expected):
        got = found({path: f'// c\n#include {include}\n'}, [rules.include_direction])
        self.assertEqual(got, [f'{path}:2:include'] if expected else [], f'{path} includes {include}')

    def test_forbidden_includes(self):
        for path, include in [
                ('dataplane/stages/turn.cc', '"control/node.h"'), ('dataplane/state/md.h', '"lnd/socklnd/conn.h"'),
                ('dataplane/base/ring.h', '"dataplane/state/credits.h"'),
                ('dataplane/state/md.h', '"dataplane/select/path.h"'),
                ('dataplane/state/md.h', '"dataplane/stages/worker.h"'),
                ('dataplane/select/path.cc', '"dataplane/stages/worker.h"'),
                ('dataplane/wire/header.h', '"dataplane/state/view.h"'),
                ('dataplane/host/threads.cc', '"dataplane/stages/worker.h"'),
                ('lnd/socklnd/conn.cc', '"dataplane/stages/worker.h"'),
                ('lnd/socklnd/conn.cc', '"lnd/o2iblnd/conn.h"'), ('lnd/socklnd/conn.cc', '"control/node.h"'),
                ('lnd/o2iblnd/conn.cc', '"lnd/rc/verbs/verbs.h"'), ('lnd/o2iblnd/driver.cc', '"lnd/rc/verbs/qp.h"'),
                ('lnd/lnd.h', '"lnd/sim/sim.h"'),
                ('control/node.cc', '"lnd/socklnd/socklnd.h"'), ('tools/ulnetctl.cc', '"lnd/socklnd/conn.h"'),
                ('config/load.cc', '"control/node.h"'), ('control/node.cc', '<yaml-cpp/yaml.h>'),
                ('dataplane/stages/turn.cc', '<rte_eal.h>'), ('lnd/o2iblnd/conn.cc', '<infiniband/verbs.h>'),
                ('control/node.cc', '"ids.h"'), ('dataplane/base/a.h', '"../wire/header.h"')]:
            self.check(path, include, True)

    def test_upward_arrows_are_counted_by_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, includes in [('base/a.h', ['wire/h.h', 'wire/i.h']), ('base/b.h', ['wire/h.h']),
                                   ('state/a.h', ['stages/w.h', 'base/a.h']), ('stages/a.cc', ['select/p.h']),
                                   ('host/a.h', ['base/a.h'])]:
                file = pathlib.Path(folder) / 'dataplane' / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(''.join(f'#include "dataplane/{one}"\n' for one in includes), encoding='utf-8')
            self.assertEqual(rules.upward_arrows(rules.Tree(folder)), [
                ('dataplane/base', 'dataplane/wire'), ('dataplane/state', 'dataplane/stages')])

    def test_allowed_includes(self):
        for path, include in [
                ('dataplane/stages/turn.cc', '"lnd/lnd.h"'), ('dataplane/stages/turn.cc', '"dataplane/state/portal.h"'),
                ('dataplane/state/slices.h', '"lnd/lnd.h"'), ('lnd/socklnd/conn.cc', '"dataplane/state/slices.h"'),
                ('lnd/socklnd/conn.cc', '"lnd/lnd.h"'), ('lnd/socklnd/conn.cc', '"dataplane/wire/header.h"'),
                ('lnd/socklnd/proto/hello.cc', '"lnd/socklnd/proto/hello.h"'), ('lnd/o2iblnd/conn.cc', '"lnd/rc/rc.h"'),
                ('lnd/o2iblnd/driver.cc', '"lnd/rc/providers_ctl.h"'), ('lnd/rc/roce/psn.cc', '"lnd/net/dpdk/port.h"'),
                ('lnd/registry.cc', '"lnd/socklnd/socklnd_ctl.h"'),
                ('control/node.cc', '"lnd/registry.h"'), ('control/node.cc', '"dataplane/stages/worker.h"'),
                ('tests/unit/a.cc', '"lnd/socklnd/conn.h"'),
                ('config/load.cc', '<yaml-cpp/yaml.h>'), ('tools/examples/a.c', '"ulnet.h"'),
                ('lnd/net/dpdk/eal.cc', '<rte_eal.h>')]:
            self.check(path, include, False)


class Lengths(unittest.TestCase):
    def test_file(self):
        self.assertEqual(found({'control/a.cc': '//\n' * 601}, [rules.lengths]), ['control/a.cc:601:file-length'])
        self.assertEqual(found({'control/a.cc': '//\n' * 600}, [rules.lengths]), [])

    def test_folder(self):
        limit = rules.FOLDER_LINES_MAX['control'][0]
        files = {f'control/{i}.cc': '//\n' * (limit // 16) for i in range(16)} | {'control/api/a.cc': '//\n' * 500}
        self.assertEqual(found(files, [rules.folder_lengths]), [])
        files['control/nis/a.cc'] = '//\n' * 16
        self.assertEqual(found(files, [rules.folder_lengths]), ['control:0:folder-length'])

    def test_columns(self):
        self.assertEqual(found({'tools/a.cc': '//\n//' + 'x' * 119}, [rules.lengths]), ['tools/a.cc:2:columns'])
        self.assertEqual(found({'tools/a.cc': '//' + 'ü' * 118}, [rules.lengths]), [])

    def test_function(self):
        for head in ['int f(int a)', 'void A::f() const noexcept', 'auto f() -> std::vector<int>',
                     'A::A(int a) : a_{a}, b_(2)', 'A::A() : a_{1}, b_{2}', 'TEST(Suite, name)',
                     'template <class T>\nstruct A {\n  int g() override']:
            closing = '}};' if 'struct' in head else '}'
            first = head.count('\n') + 2
            long = f'namespace x {{\n{head} {{\n' + '  g();\n' * 69 + f'{closing}\n}}\n'
            expected = [f'control/a.cc:{first}:function-length']
            self.assertEqual(found({'control/a.cc': long}, [rules.lengths]), expected, head)
            short = long.replace('  g();\n', '', 1)
            self.assertEqual(found({'control/a.cc': short}, [rules.lengths]), [], head)

    def test_long_table_class_and_macro_are_no_functions(self):
        for text in ['constexpr int t[] = {\n' + '1,\n' * 90 + '};',
                     'class A : public B<int()> {\n' + 'int f();\n' * 90 + '};',
                     '#define M(x) { \\\n' + '  x; \\\n' * 90 + '}\n', 'enum class E : int {\n' + 'a,\n' * 90 + '};']:
            self.assertEqual(found({'control/a.cc': text}, [rules.lengths]), [], text[:30])


class Words(unittest.TestCase):
    def test_unfinished_and_workplace(self):
        for word in ['FIX' 'ME', 'TO' 'DO', 'XX' 'X', 'HA' 'CK']:
            self.assertEqual(found({'docs/a.md': f'x\n{word}: later\n'}, [rules.words]), ['docs/a.md:2:unfinished'])
        for place in ['/wo' 'rk/x', 'see shared/de' 'sign']:
            self.assertEqual(found({'README.md': f'{place}\n'}, [rules.words]), ['README.md:1:workplace'])
        self.assertEqual(found({'docs/a.md': 'mktemp -d /tmp/a.XXXXXX; framework/x\n'}, [rules.words]), [])


class English(unittest.TestCase):
    PLANTED = [  # (pattern, comment)
        ('opener', 'Who waits gets a slot.'), ('opener', 'Kept: what a view names.'),
        ('opener', 'The pool is full; what comes then is dropped.'), ('opener', 'Whoever reads it takes one.'),
        ('opener', 'Those that wait go first.'), ('opener', 'One that waits goes first.'),
        ('opener', 'The NI closes. It is freed later.'), ('opener', 'Those of a peer.'),
        ('archaic', 'The table is made anew.'), ('archaic', 'A slice is used no more.'), ('archaic', 'MDs in being'),
        ('archaic', 'kept for shows'), ('archaic', 'Waits so long, then ends.'), ('archaic', 'Sent all the same.'),
        ('archaic', 'A gap is taken for a loss.'), ('archaic', 'Here stands the list.'),
        ('person', 'The view knows its peers.'), ('person', 'A worker asks for it.'), ('person', 'control is told'),
        ('person', 'The peer wants an ACK.'), ('person', 'no need to hurry'), ('person', 'a connection dies'),
        ('person', 'the node has doubts'), ('long', 'word ' * 26)]
    CLEAN = [
        'If the pool is full, the caller waits.', 'What is freed when? See below.', 'at most one entry of each peer',
        'No more than one slot.', 'a known peer', 'The operator knows why.', 'You may ask for it.',
        'the ask() of `who`', 'Two senders can be told apart.', 'Word' + ' word' * 24 + '. Word' + ' word' * 24,
        'a `very long span that ' + 'is ' * 30 + '`',
        'One row per driver.', 'The slot, or what is left of it.', 'kWanted, no_wants, wants_more(), x.told, NI::asks']

    def hits(self, path, text):
        return [(hit.line, hit.kind, hit.pattern) for hit in english.hits_of(path, text)]

    def test_planted_are_found_over_lines(self):
        for pattern, comment in self.PLANTED:
            self.assertEqual(self.hits('lnd/a.cc', f'int x;\n// {comment}\n'), [(2, 'comment', pattern)], comment)
            broken = '\n// '.join(comment.split())
            self.assertEqual({hit[1:] for hit in self.hits('lnd/a.cc', f'// {broken}\n')}, {('comment', pattern)},
                             comment)

    def test_clean_is_not_accused(self):
        for comment in self.CLEAN:
            self.assertEqual(self.hits('lnd/a.cc', f'// {comment}\n'), [], comment)

    def test_every_pattern_has_a_planted_violation(self):
        self.assertEqual({p[0] for p in english.PATTERNS} | {'long'}, {pattern for pattern, _ in self.PLANTED})

    def test_kinds_of_files(self):
        for path, text, expected in [
                ('lnd/a.cc', 'int a;  ///< the slot\n        ///< it was told\nint b;  // that wants\n',
                 [(1, 'comment', 'person'), (3, 'comment', 'person')]),
                ('lnd/a.cc', '/* The\n * peer wants it. */\nf("the peer " /* c */ "wants\\nx it " "knows that");\n',
                 [(1, 'comment', 'person'), (3, 'user', 'person')]),
                ('tests/a.cc', 'f("the peer wants it");\nTEST(Suite, what_a_peer_wants) {}\n',
                 [(2, 'comment', 'opener'), (2, 'comment', 'person')]),
                ('tests/a.py', '"""The peer\nwants it."""\nx = """The peer wants it."""  # It asks.\n',
                 [(1, 'comment', 'person'), (3, 'comment', 'opener'), (3, 'comment', 'person')]),
                ('tools/a', '#!/bin/bash\n# The peer\n# wants it.\necho "# it asks"  # It asks.\n',
                 [(2, 'comment', 'person'), (4, 'comment', 'opener'), (4, 'comment', 'person')]),
                ('docs/a.md', '# What it wants\n```\nIt asks\n```\n- a peer\n  wants\n- It `asks`\n> It asks\n',
                 [(1, 'user', 'person'), (5, 'user', 'person'), (7, 'user', 'opener')]),
                ('docs/a.md', '| It asks | a |\n|---|---|\n' + '| ' + 'a b c d e f g h i | ' * 5 + '\n',
                 [(1, 'user', 'opener'), (1, 'user', 'person')]),
                ('docs/wire/a.md', 'field ' * 40, []), ('config/reference.md', 'It asks.\n', []),
                ('lnd/a.cc', '//   kAsked    what it is\n'
                 '// a | it asks |\n// ---- it is ----\n// ' + 'word ' * 25 + '\n',
                 [(1, 'comment', 'opener'), (3, 'comment', 'opener')]),
                ('config/schema_a.cc', 'F f{.text = "The peer is full; ask for less, or tell it so."};\n',
                 [(1, 'user', 'person')])]:
            self.assertEqual(self.hits(path, text), expected, text)

    def test_sentences_keep_their_lines(self):
        segment, = prose.extract('docs/a.md', 'One two. Three\nfour (e.g. Five).\n`six` is\nseven. name() is. end\n')
        expected = [(1, 'One two.'), (1, 'Three four (e.g. Five).'), (3, 'Code is seven.'), (4, 'name() is. end')]
        self.assertEqual([(s.line, s.text) for s in prose.sentences(segment)], expected)

    TABLE = '{"start": {"comment": 9},\n"zero": {\n "comment": %s,\n "user": []},\n"files": {\n%s\n}}\n'
    ASKS = '// It is.\n'

    def ratchet(self, rows, files, zero='[]'):
        return found({english.TABLE: self.TABLE % (zero, rows), **files}, [english.ratchet])

    def test_a_file_may_only_shrink(self):
        row = '"lnd/a.cc": [2, 0]'
        self.assertEqual(self.ratchet(row, {'lnd/a.cc': self.ASKS * 2}), [])
        self.assertEqual(self.ratchet(row, {'lnd/a.cc': self.ASKS * 3}), ['lnd/a.cc:3:english'])
        self.assertEqual(self.ratchet(row, {'lnd/a.cc': self.ASKS}), ['lnd/a.cc:1:english'])
        self.assertEqual(self.ratchet(row, {'lnd/a.cc': self.ASKS * 2, 'lnd/b.cc': self.ASKS}), ['lnd/b.cc:1:english'])
        self.assertEqual(self.ratchet(row, {'control/x/a.cc': self.ASKS * 2}), [])
        self.assertEqual(self.ratchet(row, {'lnd/b.cc': self.ASKS}),
                         ['lnd/b.cc:1:english', f'{english.TABLE}:1:english'])
        self.assertEqual(self.ratchet(row, {'lnd/a.cc': self.ASKS * 2}, '["lnd/*.cc"]'),
                         ['lnd/a.cc:1:english', 'lnd/a.cc:2:english'])

    def update(self, files, counts):
        table, complaints = english.updated(english.Table(files=files), counts, set(counts))
        return complaints or table.files

    def test_update_follows_moves_and_refuses_growth(self):
        before = {'lnd/a.cc': (4, 0), 'lnd/b.cc': (2, 1)}
        for after in [{'lnd/a.cc': (3, 0), 'lnd/b.cc': (2, 0)}, {'x/a.cc': (4, 0), 'lnd/b.cc': (2, 1)},
                      {'x/other.cc': (4, 0), 'lnd/b.cc': (2, 1)},   # renamed
                      {'lnd/a.cc': (6, 1)},                         # merged
                      {'lnd/a.cc': (3, 0), 'lnd/b.cc': (2, 1), 'lnd/c.cc': (1, 0)}]:  # split
            self.assertEqual(self.update(before, after), after)
        for after in [{'lnd/a.cc': (5, 0), 'lnd/b.cc': (1, 1)}, {'lnd/a.cc': (4, 1), 'lnd/b.cc': (2, 0)},
                      {**before, 'lnd/c.cc': (1, 0)}, {'lnd/a.cc': (6, 2)}, {'x/a.cc': (5, 0), 'lnd/b.cc': (2, 1)}]:
            self.assertIsInstance(self.update(before, after), list, after)

    def test_table_is_read_with_the_marks_of_a_conflict(self):
        rows = ('"lnd/a.cc": [4, 0],\n<<<<<<< HEAD\n"lnd/b.cc": [2, 1],\n=======\n"lnd/b.cc": [1, 3],\n'
                '"lnd/c.cc": [9, 0],\n>>>>>>> x\n"lnd/d.cc": [1, 0]')
        table = english.Table.parse(self.TABLE % ('["x"]', rows))
        self.assertEqual(table.files, {'lnd/a.cc': (4, 0), 'lnd/b.cc': (1, 1), 'lnd/c.cc': (9, 0), 'lnd/d.cc': (1, 0)})
        again = english.Table.parse(table.text())
        self.assertEqual((again.start, again.zero, again.files),
                         ({'comment': 9}, {'comment': ['x'], 'user': []}, table.files))


class BannedCalls(unittest.TestCase):
    PLANTED = [  # (rule, file, line of code)
        ('clock', 'control/a.cc', 'auto t = std::chrono::steady_clock::now();'),
        ('clock', 'lnd/tcp/a.cc', 'clock_gettime(0, &t);'),
        ('clock', 'config/a.cc', 'x = time(nullptr);'), ('clock', 'dataplane/a.cc', 'uint64_t c = __rdtsc();'),
        ('clock', 'dataplane/a.cc', 'c = rte_get_tsc_cycles();'),
        ('random', 'control/a.cc', 'int r = rand();'), ('random', 'tools/a.cc', 'std::mt19937 g;'),
        ('print', 'dataplane/a.cc', 'std::printf("x");'), ('print', 'control/a.cc', 'std::cout << 1;'),
        ('print', 'control/a.cc', '#include <iostream>'),
        ('alloc', 'dataplane/a.cc', 'auto* p = new Foo(1);'), ('alloc', 'lnd/tcp/a.cc', 'p = malloc(3);'),
        ('lock', 'lnd/tcp/a.cc', 'std::mutex m_;'), ('lock', 'dataplane/a.cc', 'std::lock_guard g(m);'),
        ('fence', 'control/a.cc', 'std::atomic_thread_fence(std::memory_order_seq_cst);'),
        ('exception', 'dataplane/a.cc', 'throw 1;'), ('exception', 'control/a.cc', 'throw std::runtime_error("x");'),
        ('exception', 'lnd/tcp/a.cc', '} catch (...) {'),
        ('function-object', 'dataplane/a.cc', 'std::function<void()> f_;'),
        ('shared', 'dataplane/a.cc', 'std::shared_ptr<int> p_;'), ('text', 'lnd/tcp/a.cc', 'std::string s;'),
        ('text', 'dataplane/a.cc', 'auto s = fmt::format("x");'), ('assert', 'tools/a.cc', 'assert(x);'),
        ('blocking', 'control/a.cc', 'std::this_thread::sleep_for(1s);'),
        ('blocking', 'lnd/tcp/a.cc', 'getaddrinfo(a, b, c, d);'),
        ('thread-local', 'tools/a.cc', 'thread_local int x;'),
        ('error-type', 'control/routes/a.h', 'struct RouteError {'),
        ('deadline', 'control/routes/a.h', '[[nodiscard]] Instant next_deadline() const;'),
        # Worker code beside code of the control side.
        ('clock', 'dataplane/host/threads.cc', 'auto t = std::chrono::steady_clock::now();'),
        ('clock', 'perf/generator/operations.cc', 'auto t = std::chrono::steady_clock::now();'),
        ('random', 'dataplane/host/threads.cc', 'int r = rand();'),
        ('alloc', 'dataplane/host/threads.cc', 'auto* p = new Foo(1);'),
        ('alloc', 'lnd/net/dpdk/stack.cc', 'auto* p = new Foo(1);'),
        ('lock', 'lnd/net/dpdk/port.cc', 'std::mutex m_;'), ('lock', 'dataplane/host/host.cc', 'std::mutex m_;'),
        ('lock', 'control/lib/node_turnables.h', 'std::mutex m_;'), ('lock', 'perf/wire/apps.cc', 'std::mutex m_;'),
        ('text', 'lnd/net/dpdk/stack_rx.cc', 'std::string s;'), ('text', 'lnd/net/dpdk/port_queue.h', 'std::string s;'),
        ('text', 'lnd/net/dpdk/port_worker.cc', 'std::string s;'),
        ('text', 'dataplane/state/self_submitter.cc', 'std::string s;'),
        ('text', 'dataplane/stages/driver_calls.cc', 'std::string s;'),
        ('text', 'perf/generator/target.cc', 'std::string s;'), ('text', 'dataplane/host/arena.cc', 'std::string s;'),
        ('alloc', 'lnd/net/kernel/link_events.cc', 'p = malloc(3);'),
        ('shared', 'lnd/net/dpdk/packet.cc', 'std::shared_ptr<int> p_;'),
        ('function-object', 'lnd/net/dpdk/capture.h', 'std::function<void()> f_;'),
        ('blocking', 'dataplane/host/threads.cc', 'std::this_thread::sleep_for(1s);'),
        ('print', 'perf/generator/operations.cc', 'std::printf("x");')]
    CLEAN = [
        ('dataplane/a.cc', '// throw new std::string; printf("x")'),
        ('dataplane/a.cc', 'log("std::mutex rand() throw");'),
        ('dataplane/a.cc', 'std::string_view s;'), ('dataplane/a.cc', 'new (slot) Foo(1);'),
        ('dataplane/a.cc', 'static_assert(x);'),
        ('dataplane/a.cc', 'renew (x); operand(); now(); x.time(1);'), ('dataplane/base/nid_text.cc', 'std::string s;'),
        ('dataplane/host/clock.h', 'std::chrono::steady_clock::now();'), ('lnd/tcp/tcp_ctl.cc', 'std::string s;'),
        ('control/a.cc', 'std::mutex m;'), ('config/load.cc', '} catch (const YAML::Exception& e) {'),
        ('lnd/net/dpdk/port_config.cc', 'std::string s;'), ('dataplane/host/topology.cc', 'auto* m = new Machine;'),
        ('lnd/net/dpdk/capture.cc', 'std::string s;'), ('perf/generator/session.cc', 'std::mutex m;'),
        ('tests/unit/a.cc', 'throw rand(); assert(1); std::mutex m;'), ('tools/a.cc', 'std::printf("x");')]

    def test_planted_are_found(self):
        for rule, path, line in self.PLANTED:
            self.assertIn(f'{path}:2:{rule}', found({path: f'// c\n{line}\n'}, [rules.banned]), line)

    def test_clean_is_not_accused(self):
        for path, line in self.CLEAN:
            self.assertEqual(found({path: f'// c\n{line}\n'}, [rules.banned]), [], f'{path}: {line}')

    def test_every_ban_has_a_planted_violation(self):
        self.assertEqual({ban.rule for ban in banned.BANNED}, {rule for rule, _, _ in self.PLANTED})


class Globals(unittest.TestCase):
    def test_mutable(self):
        for line in ['int counter;', 'static int counter = 0;', 'std::atomic<bool> stop{false};',
                     'inline Foo* foo = nullptr;',
                     'char* name = nullptr;', 'std::map<int, std::string> table = {{1, "a"}};',
                     'int Foo::count_ = 0;', 'unsigned long n;', 'volatile std::sig_atomic_t stop = 0;',
                     'int table[4];']:
            text = f'// c\nnamespace x {{\n{line}\n}}\n'
            self.assertEqual(found({'control/a.cc': text}, [rules.global_state]), ['control/a.cc:3:global'], line)
        text = 'int f() {\n  static int n = 0;\n  return ++n;\n}\n'
        self.assertEqual(found({'control/a.cc': text}, [rules.global_state]), ['control/a.cc:2:global'])

    def test_constant_or_no_variable(self):
        for text in ['constexpr int a = 1;', 'const int a = 1;', 'inline constexpr Nid kAny{};',
                     'static const char* const k = "x";',
                     'int f(int a);', 'using A = int;', 'extern "C" {\nint f(void);\n}',
                     'struct A {\n  int x = 0;\n  int y;\n};',
                     'template <class T>\nusing R = E<T>;',
                     'int f() {\n  int x = 0;\n  static const int y = 1;\n  return x + y;\n}',
                     'class A {\n public:\n  A() : a_{1}, b_(2) {}\n  int a_;\n  int b_ = 3;\n};',
                     'enum class E { a, b };',
                     'static int f();', 'Foo::Foo() : a_{1} {}\nint g() { return 1; }', 'friend int f(A);',
                     '#define X(a) \\\n  int a;\n', 'auto Foo::operator=(const Foo&) -> Foo& = default;',
                     'Result<int> f(A a = {}, B b = {});', 'struct A;\nenum class B : int;',
                     'namespace a::b {\nint f() { return 0; }\n}']:
            self.assertEqual(found({'control/a.cc': text + '\n'}, [rules.global_state]), [], text)


class Files(unittest.TestCase):
    def test_header_has_comment_and_pragma(self):
        self.assertEqual(found({'control/a.h': '#include "x"\n'}, [rules.headers]),
                         ['control/a.h:1:file-comment', 'control/a.h:1:pragma-once'])
        self.assertEqual(found({'control/a.h': '// A thing.\n#pragma once\n'}, [rules.headers]), [])

    def test_dead_file(self):
        files = {'control/a.cc': '', 'control/dead.cc': '', 'tests/unit/nid_test.cc': '', 'lnd/tcp/b.cc': '',
                 'control/meson.build': "x = files('a.cc')  # 'dead.cc'", 'lnd/meson.build': "files('tcp/b.cc')",
                 'tests/unit/meson.build': "foreach t : ['nid']\n  executable(t, t + '_test.cc')\nendforeach"}
        self.assertEqual(found(files, [rules.dead_files]), ['control/dead.cc:1:dead-file'])

    def test_golden_bytes(self):
        files = {'dataplane/wire/h.h': '// c\nstruct Header {\n};\nstruct Other {};\n'
                                       'struct Aid {  // not on the wire\n};\nstruct Fwd;\n',
                 'lnd/tcp/proto.h': 'struct Hello {\n};\n', 'lnd/tcp/proto/x.h': 'struct Ask {};\n',
                 'tests/wire/h.cc': 'Header h;'}
        self.assertEqual(found(files, [rules.golden_bytes]),
                         ['dataplane/wire/h.h:4:golden', 'lnd/tcp/proto.h:1:golden', 'lnd/tcp/proto/x.h:1:golden'])

    def test_counters_and_keys_have_text(self):
        table = 'constexpr std::array<CounterText, size_t(Stat::kCount)> k{{\n{"a", "b", "c"},\n%s}};\n'
        files = {'dataplane/base/counters.h': 'enum class Stat : int {\n  kA, kB, kCount\n};\n',
                 'dataplane/base/counters.cc': table % '',
                 'config/schema_x.cc': 'Field f[] = {\n{.path = "a", .text = "x"},\n{.path = "b",\n .unit = "s"},\n};\n'
                }
        self.assertEqual(found(files, [rules.texts]), ['config/schema_x.cc:3:key-text',
                                                       'dataplane/base/counters.cc:1:counter-text'])
        files['dataplane/base/counters.cc'] = table % '{"a", "b", "c"},\n'
        self.assertEqual(found(files, [rules.texts]), ['config/schema_x.cc:3:key-text'])
        files['dataplane/base/counters.h'] += 'enum class NiStat : int { kA, kCount };\n'
        files['lnd/x.h'] = 'enum class Mode : int { kA, kCount };\n'
        self.assertEqual(found(files, [rules.texts]), ['config/schema_x.cc:3:key-text',
                                                       'dataplane/base/counters.h:4:counter-text'])

    def test_keys_are_read(self):
        key = '{.path = "%s",\n .text = "x", %s.at = AT(%s)},\n'
        files = {'config/schema_x.cc': 'Field f[] = {\n' + key % ('ulnet.dead', '', 'ulnet.dead')
                                       + key % ('ulnet.said', '.no_effect = "y", ', 'ulnet.said')
                                       + key % ('ulnet.start', '', 'ulnet.start')
                                       + key % ('ulnet.marked', '.needs_restart = true, ', 'ulnet.marked')
                                       + key % ('ulnet.live', '', 'ulnet.live') + '};\n',
                 'control/lib/boot.cc': 'x = ulnet.start + ulnet.marked + ulnet.live;\n',
                 'control/node.cc': 'x = c.desired.ulnet.live;\n// ulnet.dead\n', 'config/apply.cc': 'ulnet.dead;\n'}
        self.assertEqual(found(files, [rules.keys]), ['config/schema_x.cc:2:key-read', 'config/schema_x.cc:6:key-live'])

    def test_driver_keys_are_read(self):
        row = '{.path = "ulnet.x.%s",\n .text = "x",%s\n .at = kAt<&XConfig::%s>},\n'
        files = {'lnd/x/fields.cc': 'constexpr SettingRow<XConfig> k[] = {\n' + row % ('dead', '', 'dead')
                                    + row % ('said', ' .no_effect = "y",', 'said') + row % ('live', '', 'live')
                                    + row % ('carried', '', 'carried') + row % ('ni', '', 'ni') + '};\n',
                 'lnd/x/config.h': 'int y = config.dead;\n', 'lnd/x/messages.h': 'msg.a = config.carried;\n',
                 'lnd/x/x.cc': 'config.dead = 1;\nx = state_.config.live;\ny = x_tunables(all.tunables).ni;\n',
                 'lnd/y/y.cc': 'x = config.dead;\n'}
        self.assertEqual(found(files, [rules.driver_keys]),
                         ['lnd/x/fields.cc:11:key-read', 'lnd/x/fields.cc:2:key-read'])

    def test_keys_of_drivers_are_not_named_elsewhere(self):
        row = '{.path = "%s", .text = "x", .at = kAt<&XConfig::y>, .net_set = "%s"},\n'
        files = {'lnd/x/fields.cc': row % ('ulnet.x.tos', '') + row % ('ulnet.x.max_peers', 'x_peers'),
                 'lnd/x/x.cc': 'f("tos");\n', 'tools/ulnetctl/net.cc': 'f("tos");\n', 'tests/a.cc': 'f("tos");\n',
                 'config/a.cc': 'f("tos");\n// "tos"\nf("x.tos");\nf("raise max_"\n  "peers");\nf("x_peers");\n',
                 'control/a.cc': 'f("ulnet.x.tos is 3");\n',
                 'config/b.cc': '#include "tos"\nf("these tos", "ping.tos", "the max_peers_seen", tos);\n'}
        self.assertEqual(found(files, [rules.driver_key_names]), [
            'config/a.cc:1:driver-key', 'config/a.cc:3:driver-key', 'config/a.cc:4:driver-key',
            'config/a.cc:6:driver-key', 'control/a.cc:1:driver-key'])

    def test_documents_are_true(self):
        files = {'README.md': '[a](docs/a.md) [b](docs/b.md) [c](https://x/y)\n`lnd/lnd.h` `lnd/gone.h` `lnd/<x>/`\n',
                 'docs/a.md': '[up](../README.md) `lnd/gone.h`\n', 'lnd/lnd.h': ''}
        self.assertEqual(found(files, [rules.documents]), ['README.md:1:document', 'README.md:2:document'])

    def test_generated_and_foreign_folders_are_not_read(self):
        self.assertEqual(found({'build/x/a.cc': 'int x;\n', 'build-y/a.cc': 'int x;\n', '.git/a.cc': 'int x;\n'}), [])
        place = '/wo' + 'rk/shared'
        self.assertEqual(found({'.git': f'gitdir: {place}\n'}), [])  # of a work tree beside the project


class Commits(unittest.TestCase):
    BODY = '\n\nThe pool was too small.\n'

    def test_planted_are_found(self):
        for message, expected in [
                ('peers: what is full is dropped' + self.BODY, 'what'), ('peers: the pool grows' + self.BODY, 'the'),
                ('peers: adds a pool' + self.BODY, 'adds'), ('peers: added a pool' + self.BODY, 'added'),
                ('peers: adding a pool' + self.BODY, 'adding'), ('peers: Add a pool' + self.BODY, 'Add'),
                ('add a pool' + self.BODY, 'area'), ('Peers: add a pool' + self.BODY, 'area'), ('wip', 'area'),
                ('peers: add a pool; drop a list' + self.BODY, 'one topic'),
                ('peers: add ' + 'x' * 62 + self.BODY, '73 columns'), ('peers: add a pool.' + self.BODY, 'full stop'),
                ('peers: add a pool', 'reason'), ('peers: add a pool\n\nTest: Peers.pool.\n', 'reason'),
                ('peers: add a pool\nIt was small.\n', 'not empty'),
                ('peers: add a pool' + self.BODY + '\n# Conflicts:\n#\ta.cc\n', 'conflicts')]:
            self.assertIn(expected, '\n'.join(commits.wrong_with(message)), message)

    def test_clean_is_not_accused(self):
        for message in ['peers: add a pool' + self.BODY, 'tests, lnd/sim: process all events' + self.BODY,
                        'peers: add ' + 'x' * 61 + self.BODY, 'tests: move the rigs to tests/cluster\n',
                        'lnd.h: keep the size\n\nCause: no room.\nNone.\n\nTest: x.\n\nThe second reason.\n']:
            self.assertEqual(list(commits.wrong_with(message)), [], message)

    def run_in(self, folder, base):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = commits.main(['--root', folder, '--base', base])
        return status, output.getvalue()

    @unittest.skipIf(shutil.which('git') is None, 'git is not installed')
    def test_history(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_in(folder, 'HEAD')[0], commits.SKIPPED)

            def git(*arguments):
                subprocess.run(['git', '-C', folder, '-c', 'user.name=a', '-c', 'user.email=a@b', *arguments],
                               check=True, capture_output=True)
            git('init')
            for message in ['Before.', 'peers: add a pool' + self.BODY, 'peers: the pool']:
                git('commit', '--allow-empty', '-m', message)
            self.assertEqual(self.run_in(folder, '1234567')[0], commits.SKIPPED)
            status, output = self.run_in(folder, 'HEAD~2')
            self.assertEqual((status, output.splitlines()[-1]), (1, 'commits: 2 messages, 2 violations'))
            git('reset', '--hard', 'HEAD~1')
            self.assertEqual(self.run_in(folder, 'HEAD~1'), (0, 'commits: 1 messages, 0 violations\n'))


class Names(unittest.TestCase):
    TREE = {'lnd/b.h': '#pragma once\nclass Pool {\n  ~Pool();\n  void take(int);\n};\nconstexpr int kPoolMax = 1;\n'
                       'int field;\n',
            'lnd/c.cc': 'auto p = make<Pool>(1, "other()");\n', 'lnd/x/y.cc': '', 'tests/wire/captures/a.txt': ''}
    PLANTED = [  # (comment, name that is missing)
        ('calls gone()', 'gone()'), ('Pool::gone()', 'Pool::gone()'), ('p->gone() is', 'p->gone()'),
        ('see field()', 'field()'),
        ('other() too', 'other()'), ('Pool::lost is set', 'Pool::lost'), ('Gone::take', 'Gone::take'),
        ('at most kGoneMax', 'kGoneMax'), ('(gone.h)', 'gone.h'), ('lnd/y.cc', 'lnd/y.cc'), ('y/x.cc:3', 'y/x.cc'),
        ('in lnd/z or not', 'lnd/z'), ('lnd/z/{a,b}.h', 'lnd/z/'), ('b.hh', 'b.hh')]
    CLEAN = [
        'take() and ~Pool(), make() and Pool::take()', 'kPoolMax', 'Pool::take',
        'b.h, x/y.cc, lnd/b.h: lnd/x/y, lnd/x.',
        'lnd/{b,c}.h, lnd/x/*.cc, lnd/<driver>/a.h', 'rte_eth_rx_burst() and rte_mbuf.h', 'std::sort()', '<sys/gone.h>',
        'io_uring_submit() sends', 'tests/wire/captures', 'https://host/lnd/gone.h', '10 kHz', 'gone (not a call)',
        'control.hurry', 'a/b', 'select()']

    def missing(self, comment):
        return sorted({v.message.split('`')[1] for v in found_violations(
            {**self.TREE, 'lnd/a.cc': f'int x;\n/// {comment}\n'}, [names.names_exist])})

    def test_planted_are_found(self):
        for comment, name in self.PLANTED:
            self.assertIn(name, self.missing(comment), comment)

    def test_clean_is_not_accused(self):
        for comment in self.CLEAN:
            self.assertEqual(self.missing(comment), [], comment)

    def test_scripts(self):
        files = {**self.TREE, 'lnd/meson.build': '# lnd/gone.cc, lnd/c.cc\n', 'tools/a': '#!/bin/sh\n# lnd/gone\n',
                 'tests/a.py': '"""Plays lnd/x.\nAnd lnd/z."""\nx = "lnd/gone"  # gone.h\n'}
        self.assertEqual(found(files, [names.names_exist]),
                         ['lnd/meson.build:1:name', 'tests/a.py:2:name', 'tests/a.py:3:name', 'tools/a:2:name'])

    def test_documents(self):
        files = {**self.TREE, 'docs/a.md': 'gone()\n`take()` `gone()`\n', 'docs/wire/a.md': '`gone()`\n'}
        self.assertEqual(found(files, [names.names_exist]), ['docs/a.md:2:name'])


class CppText(unittest.TestCase):
    def test_strip_keeps_lines_and_columns(self):
        text = 'a /* b\nc */ d "e{\\"" \'}\' R"x(}\n{)x" 1\'000 // {\n'
        self.assertEqual(cpp_text.strip(text).count('\n'), text.count('\n'))
        self.assertEqual(len(cpp_text.strip(text)), len(text))
        self.assertNotRegex(cpp_text.strip(text), '[{}]')
        self.assertIn("1'000", cpp_text.strip(text))


if __name__ == '__main__':
    unittest.main()
