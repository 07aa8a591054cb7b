"""Reads C++ well enough for the tidy rules: blanks comments and literals, finds functions and global variables.

Not a parser. The input is text whose comments and literals have been blanked (same length, same lines). scan() matches
braces and looks at the words before each. Unclear places are left out: a rule may miss something, but should not accuse
a file that is in order.
"""
import re

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s\\"]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'", re.S)


def _blank(text):
    return re.sub(r'[^\n]', ' ', text)


def strip(text, keep_includes=True):
    """`text` with comments and the insides of literals blanked; lines and columns stay. #include "x" keeps its path."""
    def replace(match):
        token = match.group(0)
        if token.startswith('/'):
            return _blank(token)
        if keep_includes and re.search(r'#\s*include\s*$', text[text.rfind('\n', 0, match.start()) + 1:match.start()]):
            return token
        return token[0] + _blank(token[1:-1]) + token[-1] if not token.startswith('R') else _blank(token)
    return TOKEN.sub(replace, text)


def literals(text, escapes=None):
    """(line, text) of each string literal, neighbours joined, without those of #include. An escape becomes its text in
    `escapes`, or a blank."""
    joined, line, previous_end = '', 0, -1
    for match in TOKEN.finditer(text):
        token = match.group(0)
        if token.startswith(('/', "'")):
            continue
        if re.search(r'#\s*include\s*$', text[text.rfind('\n', 0, match.start()) + 1:match.start()]):
            continue
        if token.startswith('R'):
            content = re.sub(r'^R"[^(]*\(|\)[^)]*"$', '', token)
        else:
            content = re.sub(r'\\(.)', lambda m: (escapes or {}).get(m.group(1), ' '), token[1:-1])
        if joined and not text[previous_end:match.start()].strip():
            joined += content
        else:
            if joined:
                yield line, joined
            joined, line = content, text.count('\n', 0, match.start()) + 1
        previous_end = match.end()
    if joined:
        yield line, joined


def _without_preprocessor(text):
    """Blanks preprocessor lines and their continuations, so that a macro's braces are not counted."""
    return re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', lambda m: _blank(m.group(0)), text, flags=re.M)


_TYPE_HEAD = re.compile(r'\b(?:class|struct|union)\b(?!.*\)\s*(?:const|noexcept|override|final)*\s*$)', re.S)
_FUNCTION_HEAD = re.compile(
    r'\)\s*(?:(?:const|noexcept|override|final|mutable|try|&&?|requires\b.*)\s*)*$'   # ...) const {
    r'|\)\s*(?:const|noexcept|\s)*->[^;{}]*$'                                        # ...) -> T {
    r'|\)\s*(?:noexcept\s*)?:[^:].*[})]\s*$', re.S)                                    # C() : a_{1} {


def _kind_of(head):
    """The kind of block that a `{` opens, judged by the text of its statement so far."""
    head = head.strip()
    if re.search(r'\bnamespace\b[\w:\s]*$', head) or re.search(r'\bextern\s*$', head) or head.startswith('extern " '):
        return 'namespace'
    if re.search(r'\benum\b[^()]*$', head):
        return 'other'
    if _FUNCTION_HEAD.search(head) and not re.search(r'(?<![=!<>])=(?!=)[^()]*$', head):
        return 'function'
    if _TYPE_HEAD.search(head) and not re.search(r'\)\s*$', head):
        return 'type'
    return 'other'


class Function:
    def __init__(self, head, first_line, last_line):
        self.head, self.first_line, self.last_line = ' '.join(head.split()), first_line, last_line

    @property
    def name(self):
        before = self.head.split('(')[0].split()
        if before and re.fullmatch(r'TEST(?:_[FP])?|BENCHMARK\w*', before[-1]):
            return self.head.split(')')[0] + ')'
        return before[-1] if before else '?'

    @property
    def lines(self):
        return self.last_line - self.first_line + 1


class Statement:
    def __init__(self, text, line):
        self.text, self.line = text, line


def scan(stripped):
    """Returns (functions, statements of namespace scope, static declarations in functions) of stripped text."""
    text = _without_preprocessor(stripped)
    functions, outer, statics = [], [], []
    stack = []            # (kind, statement head, line of `{`)
    head, head_line, line = '', 1, 1
    for position, char in enumerate(text):
        if char == '\n':
            line += 1
        if char == '{':
            inside_function = any(kind == 'function' for kind, _, _ in stack)
            kind = 'block' if inside_function else _kind_of(head)
            stack.append((kind, head, line))
            if kind in ('namespace', 'type', 'function') or kind == 'block':
                head = ''
            else:
                head += ' {'
        elif char == '}':
            if not stack:
                continue  # unbalanced: give up on this level
            kind, opened_by, opened_line = stack.pop()
            if kind == 'function':
                functions.append(Function(opened_by, opened_line, line))
            if kind == 'other':
                head = opened_by + ' {} '  # an initialiser: the statement goes on
            else:
                head = ''
        elif char == ';':
            if all(kind == 'namespace' for kind, _, _ in stack):
                outer.append(Statement(head.strip(), head_line))
            elif re.match(r'\s*static\b', head) and any(kind == 'function' for kind, _, _ in stack):
                statics.append(Statement(head.strip(), head_line))
            head = ''
        elif char == ':' and re.fullmatch(r'\s*(?:public|private|protected)\s*', head):
            head = ''
        else:
            if not head.strip():
                if char.isspace():
                    continue
                head_line = line
            head += char
    return functions, outer, statics


_NOT_A_VARIABLE = re.compile(
    r'^(?:\[\[[^\]]*\]\]\s*)*(?:using|typedef|namespace|struct|class|union|enum|template|extern|static_assert|friend|'
    r'constexpr|concept|consteval|constinit\s+const|const\b|(?:inline|static)\s+(?:constexpr|const)\b|'
    r'(?:inline\s+static|static\s+inline)\s+const|TEST|BENCHMARK|INSTANTIATE|ULNET_|RTE_|DEFINE_)')


# type (with template arguments), name, array bounds
_VARIABLE = re.compile(
    r'^(?:(?:static|inline|volatile|constinit|thread_local)\s+)*(?:unsigned\s+|signed\s+|long\s+)*'
    r'[\w:]+(?:\s*<.*>)?[\s*&]+[\w:]+(?:\s*\[.*\])*\s*$', re.S)


def is_mutable_variable(statement):
    """True for a declaration of a variable that is not constant: `int x;`, `std::atomic<int> n{0};`, `char* p = 0;`."""
    text = statement.text
    if not text or _NOT_A_VARIABLE.match(text) or re.search(r'\boperator\b', text):
        return False
    declared = re.split(r'(?<![=!<>])=(?!=)|\{', text)[0]
    if '(' in declared:  # a function declaration, or a macro
        return False
    if re.search(r'\*\s*const\b|^(?:static|inline)\s+const', declared) or 'constexpr' in declared:
        return False
    # type and name; `::` belongs to a definition of a class's static member, which is a variable too
    return _VARIABLE.match(declared) is not None
