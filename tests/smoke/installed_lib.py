#!/usr/bin/env python3
"""Programs that link an installed ulnet: the examples are compiled with what pkg-config says, and run. No header and no
symbol is missing, and the shared library of C++ has the whole version in its name.

    installed_lib.py BUILD_DIRECTORY
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / 'tools/examples'
# All that the headers offer: the example does not use all of them.
HEADERS = '#include <ulnet.hh>\n#include <dataplane/host/turnable.h>\nint main() {}\n'
OUTPUT = 'put: 16 bytes\nget: 16 bytes\ngot back: hello over LNet\n'


def run(command, env=None):
    done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, f'{command}: {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout


def built(root, package, compiler, source):
    """Compiles an example against the files below `root` only."""
    (folder,) = root.glob('**/pkgconfig')
    env = {**os.environ, 'PKG_CONFIG_PATH': str(folder), 'PKG_CONFIG_SYSROOT_DIR': str(root)}
    flags = shlex.split(run(['pkg-config', '--cflags', '--libs', package], env))
    program = root / source.name.replace('.', '-')
    run([*compiler, '-Wall', '-Wextra', '-Werror', '-o', str(program), str(source), *flags])
    return program, {**os.environ, 'LD_LIBRARY_PATH': str(folder.parent)}


def main(build):
    with tempfile.TemporaryDirectory(prefix='ulnet-') as root:
        root = pathlib.Path(root)
        run(['meson', 'install', '-C', build, '--no-rebuild', '--destdir', str(root)])
        for package, compiler, source in (('ulnet', ['cc'], 'putget.c'),
                                          ('ulnet-cxx', ['c++', '-std=c++20'], 'putget.cc')):
            program, env = built(root, package, compiler, EXAMPLES / source)
            output = run([str(program)], env)
            assert output == OUTPUT, output
            if package == 'ulnet-cxx':
                version = run(['pkg-config', '--modversion', package],
                              {**os.environ, 'PKG_CONFIG_PATH': f'{env["LD_LIBRARY_PATH"]}/pkgconfig'}).strip()
                needed = run(['readelf', '-d', str(program)])
                assert f'[libulnet-cxx.so.{version}]' in needed, needed
            print(f'{source}: linked with {package}, ran')
        headers = root / 'headers.cc'
        headers.write_text(HEADERS, encoding='utf-8')
        built(root, 'ulnet-cxx', ['c++', '-std=c++20'], headers)


if __name__ == '__main__':
    main(sys.argv[1])
