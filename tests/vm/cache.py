"""The cache of the guests: Debian packages that are unpacked but never installed, and the base initramfs made of them.

ULNET_VM_CACHE names the folder; meson sets it to `cache` beside the builds, so that the builds share it. All work in
the folder is done under a lock, in a folder `tmp-...` that gets its final name at the end. Hence a killed run leaves
only a `tmp-...` folder, and the next run removes it. Names have a hash of what the contents are made of. To get newer
packages, remove the folder.
"""
import contextlib
import fcntl
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import initramfs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'smoke'))
import netns  # noqa: E402  # pylint: disable=wrong-import-position

KERNEL = 'linux-image-amd64'  # depends on the package that has the kernel
PACKAGES = ('busybox-static', 'dash', 'ethtool', 'ibverbs-providers', 'ibverbs-utils', 'libibumad3', 'libibverbs1',
            'libmnl0', 'libnl-3-200', 'libnl-route-3-200', 'libpcap0.8', 'libpci3', 'librdmacm1', 'perftest',
            'rdma-core', 'rdmacm-utils', 'tcpdump')
# The console of the kernel is a serial port that is built in, so that it also has the messages of the first moments.
MODULES = ('virtio_pci', 'virtio_console', 'failover', 'net_failover', 'virtio_net', 'crc32_generic', 'ib_core',
           'ib_cm', 'iw_cm', 'rdma_cm', 'ib_uverbs', 'rdma_ucm', 'rdma_rxe', 'sch_netem', 'sch_tbf',
           'vfio_iommu_type1', 'vfio_pci')
# Programs of the packages, and of this machine (iproute2 is needed by each test with namespaces).
PACKAGED = ('ethtool', 'ibv_asyncwatch', 'ibv_devices', 'ibv_devinfo', 'ibv_rc_pingpong', 'ib_read_bw', 'ib_send_bw',
            'ib_send_lat', 'ib_write_bw', 'rping', 'tcpdump', 'ucmatose')
OF_THIS_MACHINE = ('ip', 'tc', 'rdma')
DISTRIBUTIONS = '/usr/lib/tc'  # the tables of netem
LIBGCC = 'libgcc_s.so.1'  # pthread_exit() loads it, so that ldd does not list it
LAYOUT = '1'  # of the folder with the packages: a change makes a new one
IMAGES_KEPT = 4
PACKAGES_KEPT_SECONDS = 86400  # after the last use; a running test may use another set of packages
XZ_MAGIC = b'\xfd7zXZ\0'
HASH_DIGITS = 16


class Unavailable(Exception):
    """The packages cannot be had here: a reason to skip, not to fail."""


def folder():
    """The folder of the cache. Without ULNET_VM_CACHE (no meson), it is build/cache of the source tree."""
    default = pathlib.Path(__file__).resolve().parents[2] / 'build' / 'cache'
    return pathlib.Path(os.environ.get('ULNET_VM_CACHE') or default)


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def run(arguments, cwd=None):
    """Runs a program of the packaging tools; returns (exit status, output)."""
    done = subprocess.run([str(a) for a in arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, env={**os.environ, 'LC_ALL': 'C'}, check=False,
                          preexec_fn=netns.die_with_parent)
    return done.returncode, done.stdout


def demand(arguments, cwd=None):
    status, output = run(arguments, cwd)
    if status != 0:
        raise initramfs.ImageError(f'{" ".join(map(str, arguments))}: exit status {status}: {output[-2000:]}')
    return output


@contextlib.contextmanager
def locked(cache):
    """Holds the lock of the cache, and removes what a killed run has left."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / 'lock', 'wb') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in cache.glob('tmp-*'):
            shutil.rmtree(leftover, ignore_errors=True)
        yield


@contextlib.contextmanager
def made_whole(final):
    """Gives a temporary folder that becomes `final` at the end, and is removed after an exception."""
    temporary = pathlib.Path(tempfile.mkdtemp(prefix='tmp-', dir=final.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


# ---- packages ------------------------------------------------------------------------------------------------------
def kernel_package(depends_text):
    """The package that has the kernel, from the output of `apt-cache depends linux-image-amd64`."""
    match = re.search(r'Depends: (linux-image-\d\S*)', depends_text)
    return match.group(1) if match else None


def _download(target, options):
    """Downloads all packages into `target`. Returns None, or the reason that it cannot."""
    _, depends = run(['apt-cache', *options, 'depends', KERNEL])
    kernel = kernel_package(depends)
    if kernel is None:
        return f'no package {KERNEL}: {depends.strip()[-300:]}'
    status, output = run(['apt-get', *options, '-o', 'APT::Sandbox::User=root', '-q', 'download', kernel, *PACKAGES],
                         target)
    return None if status == 0 else f'apt-get download: {output.strip()[-300:]}'


def download(target, scratch):
    """Downloads with the package lists of this machine. If that fails, with fresh lists of its own in `scratch`."""
    why = _download(target, [])
    if why is None:
        return
    for name in ('lists/partial', 'apt/archives/partial'):
        (scratch / name).mkdir(parents=True)
    options = ['-o', f'Dir::State::lists={scratch}/lists', '-o', f'Dir::Cache={scratch}/apt']
    status, output = run(['apt-get', *options, '-o', 'APT::Sandbox::User=root', '-q', 'update'])
    if status != 0:
        why = f'apt-get update: {output.strip()[-300:]}'
    else:
        why = _download(target, options)
    if why is not None:
        raise Unavailable(f'the packages of the guests cannot be downloaded: {why}')


def packages(cache):
    """The folder with `root` (what the guests need of the packages), `kernel` and `names`. The lock is held."""
    final = cache / f'packages-{digest(" ".join((LAYOUT, KERNEL, *PACKAGES, *MODULES)))}'
    if final.exists():
        os.utime(final)
        return final
    for old in cache.glob('packages-*'):
        if old.stat().st_mtime < time.time() - PACKAGES_KEPT_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    with made_whole(final) as temporary:
        scratch = temporary / 'scratch'
        (scratch / 'debs').mkdir(parents=True)
        download(scratch / 'debs', scratch)
        root = temporary / 'root'
        debs = sorted((scratch / 'debs').glob('*.deb'))
        for deb in debs:
            demand(['dpkg', '-x', deb, root])
        version = kernel_version(root)
        demand(['depmod', '-b', root, version])
        packed = (root / f'boot/vmlinuz-{version}').read_bytes()
        (temporary / 'kernel').write_bytes(unpacked_kernel(packed) or packed)
        trim(root)
        (temporary / 'names').write_text(''.join(f'{deb.name}\n' for deb in debs))
        shutil.rmtree(scratch)
    return final


def trim(root):
    """Removes the files that no guest needs: most of the 400 MB are other modules."""
    needed = set(modules(root))
    for path in (root / 'lib/modules').rglob('*.ko'):
        if path not in needed:
            path.unlink()
    for name in ('boot', 'usr/share'):
        shutil.rmtree(root / name)


def modules(root):
    """Paths of the modules of the guests, in the order of loading."""
    home = root / 'lib/modules' / kernel_version(root)
    order = initramfs.load_order((home / 'modules.dep').read_text(), MODULES, (home / 'modules.builtin').read_text())
    return [home / path for path in order]


def unpacked_kernel(packed):
    """The ELF file inside a bzImage, or None if it is not compressed with xz. QEMU boots it by the PVH note, and the
    guest need not unpack it: eight seconds less for each boot.
    """
    start = packed.find(XZ_MAGIC)
    if start < 0:
        return None
    try:
        elf = lzma.LZMADecompressor().decompress(packed[start:])
    except lzma.LZMAError:
        return None
    return elf if elf.startswith(b'\x7fELF') else None


def kernel_version(root):
    """The only version in lib/modules of the unpacked packages."""
    versions = [path.name for path in (root / 'lib' / 'modules').iterdir()]
    if len(versions) != 1:
        raise initramfs.ImageError(f'not one kernel: {versions}')
    return versions[0]


# ---- the base image ------------------------------------------------------------------------------------------------
def base_archive(root):
    """The archive that all guests begin with, from the unpacked packages in `root`."""
    archive = initramfs.Archive()
    archive.add_merged_links()
    for name in ('dev', 'proc', 'sys', 'run', 'root', 'etc'):
        archive.add_folder(f'/{name}')
    archive.add_folder('/tmp', 0o1777)
    for path, name in (('/init', 'guest_init.sh'), ('/guest_loop.sh', 'guest_loop.sh')):
        archive.add_file(path, pathlib.Path(__file__).with_name(name), 0o755)
    archive.add_bytes('/etc/hosts', b'127.0.0.1 localhost\n')
    # tcpdump changes to a user of this name.
    archive.add_bytes('/etc/passwd', b'root:x:0:0:root:/root:/bin/sh\ntcpdump:x:1:1::/:/bin/false\n')
    archive.add_bytes('/etc/group', b'root:x:0:\ntcpdump:x:1:\n')
    _add_modules(archive, root)
    for name in PACKAGED:
        [path] = [root / folder / name for folder in ('usr/bin', 'sbin') if (root / folder / name).exists()]
        archive.add_program(f'/usr/bin/{name}', path, root)
    _add_providers(archive, root)
    for name in OF_THIS_MACHINE:
        path = shutil.which(name, path='/usr/sbin:/usr/bin:/sbin:/bin')
        if path is None:
            raise Unavailable(f'{name} of iproute2 is not installed')
        archive.add_program(f'/usr/bin/{name}', path, root)
    archive.add_file(f'{initramfs.LIBRARY_FOLDER}/{LIBGCC}', f'{initramfs.LIBRARY_FOLDER}/{LIBGCC}')
    for path in sorted(pathlib.Path(DISTRIBUTIONS).glob('*.dist')):
        archive.add_file(f'{DISTRIBUTIONS}/{path.name}', path)
    # Not busybox's sh: that one takes its own `ip` and `tc` even if there are others.
    archive.add_program('/usr/bin/dash', root / 'bin/dash', root)
    archive.add_link('/usr/bin/sh', 'dash')
    busybox = root / 'bin/busybox'
    archive.add_file('/usr/bin/busybox', busybox, 0o755)
    for applet in demand([busybox, '--list']).split():
        archive.add_link(f'/usr/bin/{applet}', 'busybox')  # a real program of this name stays
    return archive


def _add_modules(archive, root):
    paths = []
    for source in modules(root):
        paths.append(f'/lib/modules/{source.name}')
        archive.add_file(paths[-1], source)
    archive.add_bytes('/etc/modules.load', ''.join(f'{path}\n' for path in paths).encode())


def _add_providers(archive, root):
    """librxe: libibverbs loads it by the name in rxe.driver, hence ldd does not list it."""
    archive.add_file('/etc/libibverbs.d/rxe.driver', root / 'etc/libibverbs.d/rxe.driver')
    [provider] = (root / 'usr/lib').glob('*/libibverbs/librxe-*.so')
    archive.add_program(f'{initramfs.LIBRARY_FOLDER}/libibverbs/{provider.name}', provider, root)


def _base_image(cache, root):
    """The file of the base image; made if this machine and these packages have none yet. The lock is held."""
    archive = base_archive(root)
    final = cache / f'image-{kernel_version(root)}-{digest(archive.identity())}'
    if not final.exists():
        with made_whole(final) as temporary:
            with open(temporary / 'initrd', 'wb') as stream:
                archive.write(stream)
    os.utime(final)
    images = sorted(cache.glob('image-*'), key=lambda path: path.stat().st_mtime)
    for old in images[:-IMAGES_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final / 'initrd'


def install(cache, target, files=(), programs=()):
    """Writes the initramfs of a test to the file `target`. `files` maps paths in the guest to bytes or to paths here,
    `programs` maps them to paths, and these get the libraries that they need. Returns the path of the kernel.
    """
    with locked(cache):
        unpacked = packages(cache)
        root = unpacked / 'root'
        extra = initramfs.Archive()
        for path, content in dict(files).items():
            if isinstance(content, bytes):
                extra.add_bytes(path, content)
            else:
                extra.add_file(path, content)
        for path, source in dict(programs).items():
            extra.add_program(path, source, root)
        with open(target, 'wb') as stream:
            with open(_base_image(cache, root), 'rb') as base:
                shutil.copyfileobj(base, stream)
            extra.write(stream)
    return unpacked / 'kernel'
