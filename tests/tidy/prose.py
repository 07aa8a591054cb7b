"""Takes the English out of a file: comments, Markdown, texts that the product prints, names of tests.

extract(path, text) yields Segments. A segment is one paragraph, list item, table cell, text or name. Its lines are
joined, and each code span in it is one word. sentences(segment) splits a segment and keeps the line of each sentence.
"""
import bisect
import collections
import io
import re
import tokenize

import cpp_text

# kind: 'comment' (comments, names of tests) or 'user' (documents, texts). role: 'prose', 'heading', 'text' or 'name'.
Segment = collections.namedtuple('Segment', 'kind role text starts lines')
Sentence = collections.namedtuple('Sentence', 'kind role text line')

# A user reads the texts in these folders.
PRODUCT_FOLDERS = ('dataplane', 'lnd', 'control', 'config', 'tools', 'perf')
GENERATED = ('config/reference.md', 'docs/control-socket.md')  # its texts are counted at their source
CODE_WORD = 'Code'

_LIST_ITEM = re.compile(r'\s*(?:[-*+]|\d+[.)]|\(?[a-z]\))\s+')
_DRAWING = re.compile(r'[─-◿←-⇿]|\+--|--\+|\|.*\|')
_DIRECTIVE = re.compile(r'\s*(?:NOLINT|clang-format o|shellcheck |!|-\*-|namespace\b|pylint:|noqa)')


def _paragraphs(lines):
    """Splits [(line, text)] at blank lines, list items and drawings; aligned columns become one paragraph each."""
    current = []
    for number, text in lines:
        rule, text = re.search(r'[-=_*~#]{4,}', text), re.sub(r'[-=_*~#]{4,}', ' ', text)
        columns = re.split(r'(?<=\S) {3,}(?=\S)', text.strip())
        if rule or not text.strip() or _DRAWING.search(text) or _DIRECTIVE.match(text) or len(columns) > 1:
            yield current
            current = []
            if (rule or len(columns) > 1) and not _DRAWING.search(text):
                yield from ([(number, column)] for column in columns)
            continue
        item = _LIST_ITEM.match(text)
        if item:
            yield current
            current, text = [], text[item.end():]
        current.append((number, text.strip()))
    yield current


_SPAN = re.compile(r'``.+?``|`[^`]*`', re.S)
_URL = re.compile(r'\bhttps?://\S+')
_LINK = re.compile(r'!?\[([^\]]*)\]\([^)]*\)')


def _segment(kind, role, lines):
    """One Segment of [(line, text)], or None if there are no words in it."""
    text, starts, numbers = '', [], []
    for number, line in lines:
        starts.append(len(text))
        numbers.append(number)
        text += line + ' '

    def cut(match, word):  # same length, so that offsets keep their lines
        return word + ' ' * (len(match.group(0)) - len(word)) if len(match.group(0)) >= len(word) else ' X'
    text = _SPAN.sub(lambda m: cut(m, CODE_WORD), text)
    text = _URL.sub(lambda m: cut(m, CODE_WORD), text)
    text = _LINK.sub(lambda m: (' ' + m.group(1)).ljust(len(m.group(0))), text)
    text = text.replace('**', '  ')
    if not re.search(r'[A-Za-z]{2}', text):
        return None
    return Segment(kind, role, text.rstrip(), starts, numbers)


_ABBREVIATION = re.compile(r'(?:\b(?:e\.g|i\.e|cf|vs|etc|no|approx|incl|resp|fig|sec|[A-Z])\.)$', re.I)
_SENTENCE_END = re.compile(r'[.!?]["\')\]*]*\s+(?=["\'(\[*]*(?:[A-Z0-9§]|\w+(?:_\w|\(\)|::)))')


def sentences(segment):
    begin = 0
    ends = [m for m in _SENTENCE_END.finditer(segment.text)]
    for end in [m.end() for m in ends if not _ABBREVIATION.search(segment.text[:m.start() + 1])] + [len(segment.text)]:
        text = segment.text[begin:end]
        if text.strip():
            offset = begin + len(text) - len(text.lstrip())
            line = segment.lines[bisect.bisect_right(segment.starts, offset) - 1]
            yield Sentence(segment.kind, segment.role, ' '.join(text.split()), line)
        begin = end


# ---- C and C++ -----------------------------------------------------------------------------------------------------
_ESCAPES = {'n': '\n', 't': '   ', '"': '"', '\\': '\\', '0': ' '}


def _cpp_comments(text):
    """Comment blocks as [(line, text)]: line comments below each other, alone on their lines or at the same column."""
    line_starts = [0] + [m.end() for m in re.finditer('\n', text)]
    block, last_line, last_column = [], -1, -1
    for match in cpp_text.TOKEN.finditer(text):
        token = match.group(0)
        if not token.startswith('/'):
            continue
        line = bisect.bisect_right(line_starts, match.start())
        column = match.start() - line_starts[line - 1]
        alone = not text[line_starts[line - 1]:match.start()].strip()
        if token.startswith('/*'):
            if block:
                yield block
            block, last_line = [], -1
            body = re.sub(r'^/\*+<?|\*+/$', '', token)
            yield [(line + i, re.sub(r'^\s*\*(?!\*)', '', part)) for i, part in enumerate(body.split('\n'))]
            continue
        content = re.sub(r'^///?<?!?', '', token)
        if not (block and line == last_line + 1 and alone and column == last_column):
            if block:
                yield block
            block = []
        block.append((line, content))
        last_line, last_column = line, column
    if block:
        yield block


def _cpp_texts(text):
    """String literals as [(line, text)] per printed line."""
    for line, joined in cpp_text.literals(text, _ESCAPES):
        yield from _text_lines(joined, line)


def _text_lines(joined, line):
    for part in joined.split('\n'):
        part = re.sub(r'\{[^{}]*\}|%[-\d.]*l*[a-z]', 'X', part)
        for column in re.split(r'(?<=\S) {2,}(?=\S)', part.strip()):
            if len(re.findall(r'(?<![\w/_.-])[A-Za-z]+(?![\w/_-])', column)) >= 3:
                yield [(line, column)]


_TEST = re.compile(r'^\s*TEST(?:_[FP])?\(\s*\w+\s*,\s*(\w+)\s*\)', re.M)


def _comments(blocks):
    for block in blocks:
        for paragraph in _paragraphs(block):
            yield _segment('comment', 'prose', paragraph)


def _cpp(path, text):
    yield from _comments(_cpp_comments(text))
    if path.split('/')[0] in PRODUCT_FOLDERS:
        for lines in _cpp_texts(text):
            yield _segment('user', 'text', lines)
    yield from _names(text, _TEST)


def _names(text, pattern):
    for match in pattern.finditer(text):
        line = text.count('\n', 0, match.start(1)) + 1
        yield _segment('comment', 'name', [(line, match.group(1).replace('_', ' '))])


# ---- Python, meson, shell, YAML ------------------------------------------------------------------------------------
_PYTHON_TEST = re.compile(r'^\s*def test_(\w+)\(', re.M)


def _python_comments(text):
    block, last_line, last_column, statement_begins = [], -1, -1, True
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT:
            line, column = token.start
            alone = not token.line[:column].strip()
            if not (block and alone and line == last_line + 1 and column == last_column):
                yield block
                block = []
            block.append((line, token.string.lstrip('#')))
            last_line, last_column = line, column
        elif token.type == tokenize.STRING and statement_begins:
            body = re.sub(r'^[rRbBuU]*("""|\'\'\'|"|\')|("""|\'\'\'|"|\')$', '', token.string)
            yield [(token.start[0] + i, part) for i, part in enumerate(body.split('\n'))]
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            statement_begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    yield block


def _python(path, text):
    yield from _comments(_python_comments(text))
    yield from _names(text, _PYTHON_TEST)


def _script_comments(text):
    block, last_line, last_column = [], -1, -1
    for line, raw in enumerate(text.split('\n'), 1):
        match = re.match(r'(\s*)#(.*)', raw) or re.match(r'((?:[^#"\']|"[^"]*"|\'[^\']*\')*?\s)#(?:\s)(.*)', raw)
        if not match or (line == 1 and raw.startswith('#!')):
            continue
        column, alone = len(match.group(1)), not match.group(1).strip()
        if not (block and alone and line == last_line + 1 and column == last_column):
            yield block
            block = []
        block.append((line, match.group(2)))
        last_line, last_column = line, column
    yield block


def _script(path, text):
    yield from _comments(_script_comments(text))


# ---- Markdown ------------------------------------------------------------------------------------------------------
def _markdown(path, text):
    paragraph, fenced = [], False

    def done():
        nonlocal paragraph
        lines, paragraph = paragraph, []
        return _segment('user', 'prose', lines)
    for number, line in enumerate(text.split('\n'), 1):
        stripped = line.strip()
        if stripped.startswith('```'):
            fenced = not fenced
            yield done()
        elif fenced or not stripped or stripped.startswith(('>', '---', '===', '<!--')):
            yield done()
        elif stripped.startswith('#'):
            yield done()
            yield _segment('user', 'heading', [(number, stripped.lstrip('# '))])
        elif stripped.startswith('|'):
            yield done()
            for cell in re.split(r'(?<!\\)\|', _SPAN.sub(CODE_WORD, stripped)):
                yield _segment('user', 'prose', [(number, cell)])
        else:
            item = _LIST_ITEM.match(line)
            if item:
                yield done()
                line = line[item.end():]
            paragraph.append((number, line.strip()))
    yield done()


def _language(path, text):
    name, first = path.split('/')[-1], text[:80].split('\n')[0]
    if path.endswith(('.h', '.cc', '.c', '.hh')):
        return 'cpp'
    if path.endswith('.md'):
        return 'markdown'
    if path.endswith('.py') or first.startswith('#!') and 'python' in first:
        return 'python'
    if path.endswith(('.sh', '.build', '.yaml', '.yml', '.supp')) or name == 'meson_options.txt' \
            or '.' not in name and first.startswith('#'):
        return 'script'
    return ''


def extract(path, text):
    """Segments of the file, in no order. Files of other kinds have none."""
    reader = {'cpp': _cpp, 'markdown': _markdown, 'python': _python, 'script': _script}.get(_language(path, text))
    if reader and path not in GENERATED:
        yield from (segment for segment in reader(path, text) if segment)


def comments(path, text):
    """Blocks of comments of a file of code, as they stand: each a list of (line, text)."""
    reader = {'cpp': _cpp_comments, 'python': _python_comments, 'script': _script_comments}.get(_language(path, text))
    if reader:
        yield from reader(text)
