"""A network namespace for the tasks of a local cluster, with only the loopback; Linux only.

TensorFlow's servers listen on all interfaces and run any graph that they are sent. Without a
namespace, everybody who reaches the machine can run code through the ports of a local cluster.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import socket
import struct
import sys
from typing import Optional, Sequence

# From the headers of Linux: Python has names for the first two from 3.12 on, and none for the rest.
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_LOOPBACK = '127.0.0.1'
# A comment in a config may contain a link. A file:// path is on this machine.
_COMMENT = re.compile(r'#[^\n]*')
_REMOTE = re.compile(r'\b(?!file:)[a-z][a-z0-9]*://[^\s\'"]*')


def isolate() -> None:
    """Move this process, and all that it starts from now on, into their own network.

    The process must have one thread. Without root rights it also enters a user namespace, where it
    keeps its user id and its rights to files.

    Raises:
        OSError: the kernel does not allow it; the process is unchanged.
    """
    if sys.platform != 'linux':
        raise OSError(errno.ENOSYS, f'{sys.platform} has no network namespaces')
    # A process cannot undo half of the move, so a child process tries first.
    child = os.fork()
    if child == 0:
        # For any exception that is no error of the system: the child must not return into the
        # caller's code.
        number = errno.EIO
        try:
            number = _attempt()
        finally:
            os._exit(number)
    number = os.WEXITSTATUS(os.waitpid(child, 0)[1])
    if number == errno.ENOSPC:
        raise OSError(number, 'as many namespaces as the kernel allows')
    if number:
        raise OSError(number, os.strerror(number))
    _enter()


def _attempt() -> int:
    """Enter the network and use it; return the number of the error, or 0."""
    try:
        _enter()
        with socket.socket() as server, socket.socket() as client:
            server.bind((_LOOPBACK, 0))
            server.listen()
            client.connect(server.getsockname())
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _enter() -> None:
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    # Root keeps its user namespace, and so its rights to the files of other users.
    if libc.unshare(_CLONE_NEWNET | (_CLONE_NEWUSER if user else 0)):
        raise OSError(ctypes.get_errno(), 'unshare')
    if user:
        # The order matters: the kernel refuses `gid_map` of a process without rights until
        # `setgroups` is denied (user_namespaces(7)).
        maps = {'setgroups': 'deny', 'uid_map': f'{user} {user} 1', 'gid_map': f'{group} {group} 1'}
        for name, text in maps.items():
            with open(f'/proc/self/{name}', 'w') as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # The loopback of a new namespace is down. The argument is `struct ifreq` of 40 bytes: a
        # name of 16, and flags.
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack('16sh22x', b'lo', _IFF_UP))


def remote_path(arguments: Sequence[str]) -> Optional[str]:
    """Return the first path of another machine (`gs://...`) in a command line; None if none.

    Args:
        arguments: a command line of the front door. The files that it names, as a config, are
            searched too, and so are the configs that runs have saved in the folders it names.
    """
    for argument in arguments:
        value = argument.partition('=')[2] or argument
        for text in (
            argument,
            _read_text(value),
            _read_text(os.path.join(value, 'pipeline.config')),
        ):
            match = _REMOTE.search(_COMMENT.sub('', text))
            if match:
                return match.group()
    return None


def _read_text(path: str, most: int = 1 << 20) -> str:
    try:
        with open(path, errors='replace') as file:
            return file.read(most)
    except (OSError, ValueError):
        return ''
