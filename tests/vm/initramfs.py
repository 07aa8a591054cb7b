"""The contents of the initramfs of a guest. An Archive has cpio's newc format. Kernel modules are put in their load
order, programs come with the libraries that `ldd` names. No part of this file needs QEMU or root.
"""
import os
import pathlib
import re
import stat
import subprocess

MERGED = ('bin', 'sbin', 'lib', 'lib64')  # links into /usr, as on a Debian machine
LIBRARY_FOLDER = '/usr/lib/x86_64-linux-gnu'


class ImageError(AssertionError):
    """The image cannot be made: a module, program or library is missing."""


def guest_path(path):
    """The path below the links of MERGED: /lib/x becomes /usr/lib/x."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] != '/' or '..' in parts:
        raise ImageError(f'{path}: a path in the guest is absolute and has no ..')
    return '/usr' + path if parts[1] in MERGED else path


class Archive:
    """Files, folders and links of one cpio archive. The first entry with a path stays; later ones are ignored."""

    def __init__(self):
        self._entries = {}  # path without the first slash -> (mode, bytes or Path)

    def __contains__(self, path):
        return guest_path(path)[1:] in self._entries

    def _add(self, path, mode, content):
        parts = pathlib.PurePosixPath(path).parts[1:]
        for count in range(1, len(parts)):
            self._entries.setdefault('/'.join(parts[:count]), (stat.S_IFDIR | 0o755, b''))
        self._entries.setdefault('/'.join(parts), (mode, content))

    def add_merged_links(self):
        for name in MERGED:
            self.add_folder(f'/usr/{name}')
            self._add(f'/{name}', stat.S_IFLNK | 0o777, f'usr/{name}'.encode())

    def add_folder(self, path, mode=0o755):
        self._add(guest_path(path), stat.S_IFDIR | mode, b'')

    def add_bytes(self, path, data, mode=0o644):
        self._add(guest_path(path), stat.S_IFREG | mode, data)

    def add_file(self, path, source, mode=None):
        source = pathlib.Path(source).resolve()
        if mode is None:
            mode = 0o755 if source.stat().st_mode & 0o100 else 0o644
        self._add(guest_path(path), stat.S_IFREG | mode, source)

    def add_link(self, path, target):
        self._add(guest_path(path), stat.S_IFLNK | 0o777, target.encode())

    def add_program(self, path, source, root=None):
        """Adds a program with its libraries. `root`: a folder of unpacked packages, whose libraries come first."""
        self.add_file(path, source, 0o755)
        for library, library_source in libraries(source, root).items():
            self.add_file(library, library_source)

    def identity(self):
        """Text that changes with each change of the contents. A file counts with path, size and time, not bytes."""
        lines = []
        for path, (mode, content) in sorted(self._entries.items()):
            if isinstance(content, bytes):
                lines.append(f'{path} {mode:o} {content.hex()}')
            else:
                facts = content.stat()
                lines.append(f'{path} {mode:o} {content} {facts.st_size} {facts.st_mtime_ns}')
        return '\n'.join(lines)

    def write(self, stream):
        """Writes the archive. The kernel accepts several archives one after the other, each padded to four bytes."""
        for number, (path, (mode, content)) in enumerate(sorted(self._entries.items()), 1):
            data = content if isinstance(content, bytes) else content.read_bytes()
            _write_entry(stream, number, path, mode, data)
        _write_entry(stream, 0, 'TRAILER!!!', 0, b'')


def _write_entry(stream, number, path, mode, data):
    name = path.encode() + b'\0'
    # inode, mode, uid, gid, links, time, size, device of the file (2), device of the entry (2), size of name, check
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    header = b'070701' + b''.join(b'%08X' % field for field in fields) + name
    for block in (header, data):
        stream.write(block)
        stream.write(bytes(-len(block) % 4))


# ---- modules -------------------------------------------------------------------------------------------------------
def module_name(path):
    """The name as `lsmod` prints it, from a path or from a name with dashes."""
    return pathlib.PurePosixPath(path).name.split('.ko')[0].replace('-', '_')


def load_order(dep_text, names, builtin_text=''):
    """Paths of these modules and of all that they need, each after what it needs. `dep_text` is modules.dep,
    `builtin_text` is modules.builtin. Modules that are built into the kernel are left out.
    """
    needs = {}  # name -> (path, names)
    for line in dep_text.splitlines():
        path, _, rest = line.partition(':')
        needs[module_name(path)] = (path, [module_name(other) for other in rest.split()])
    builtin = {module_name(path) for path in builtin_text.split()}
    order, open_names = [], []

    def visit(name):
        if name in open_names:
            raise ImageError(f'modules need each other: {" -> ".join([*open_names, name])}')
        if name in builtin and name not in needs:
            return
        if name not in needs:
            needed_by = f', needed by {open_names[-1]}' if open_names else ''
            raise ImageError(f'module {name}: not in modules.dep{needed_by}')
        path, others = needs[name]
        if path in order:
            return
        open_names.append(name)
        for other in others:
            visit(other)
        open_names.pop()
        order.append(path)

    for name in names:
        visit(module_name(name))
    return order


# ---- libraries -----------------------------------------------------------------------------------------------------
def parse_ldd(text):
    """Paths of the libraries in the output of `ldd`. Raises ImageError if one is missing."""
    paths = []
    for line in text.splitlines():
        missing = re.match(r'\s*(\S+) => not found', line)
        if missing:
            raise ImageError(f'library {missing.group(1)}: not found')
        match = re.match(r'\s*(?:\S+ => )?(/\S+) \(0x', line)
        if match:
            paths.append(match.group(1))
    return paths


def home_of_library(path, root=None):
    """Where a library of this machine, or of the unpacked packages in `root`, belongs in a guest. The loader searches
    only the usual folders there, so that a library from elsewhere goes into LIBRARY_FOLDER.
    """
    if root is not None and pathlib.PurePosixPath(path).is_relative_to(root):
        path = '/' + str(pathlib.PurePosixPath(path).relative_to(root))
    path = guest_path(path)
    folder, name = os.path.split(path)
    return path if folder in (LIBRARY_FOLDER, '/usr/lib', '/usr/lib64') else f'{LIBRARY_FOLDER}/{name}'


def libraries(program, root=None):
    """Maps paths in the guest to paths here, for all libraries that this program or library needs."""
    folders = [f'{root}{folder}' for folder in (LIBRARY_FOLDER, '/lib/x86_64-linux-gnu')] if root else []
    environment = {'PATH': os.environ.get('PATH', ''), 'LC_ALL': 'C'}
    if folders:
        environment['LD_LIBRARY_PATH'] = ':'.join(folders)
    done = subprocess.run(['ldd', str(program)], capture_output=True, text=True, env=environment, timeout=120,
                          check=False)
    if done.returncode != 0:
        if 'not a dynamic executable' in done.stdout + done.stderr:
            return {}
        raise ImageError(f'ldd {program}: {done.stderr.strip()}')
    try:
        return {home_of_library(path, root): path for path in parse_ldd(done.stdout)}
    except ImageError as error:
        raise ImageError(f'{program}: {error}') from None
