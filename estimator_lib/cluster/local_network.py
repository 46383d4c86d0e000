"""A network namespace for the tasks of a local cluster, with nothing but the loopback; Linux only.

TensorFlow's servers listen on all interfaces and run what anybody asks them to: without it, the
ports of a local cluster are an open door to everybody who reaches the machine.
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

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_LOOPBACK = '127.0.0.1'
# A comment of a config may have a link in it, and file:// is on this machine.
_COMMENT = re.compile(r'#[^\n]*')
_REMOTE = re.compile(r'\b(?!file:)[a-z][a-z0-9]*://[^\s\'"]*')


def isolate() -> None:
    """Move this process, and those that it starts from now on, into a network of their own.

    The process must have one thread. Without root it moves into a user namespace as well, in which
    it has the same user id, and the rights to files that it had.

    Raises:
        OSError: the kernel does not allow it; nothing has changed.
    """
    if sys.platform != 'linux':
        raise OSError(errno.ENOSYS, f'{sys.platform} has no network namespaces')
    # There is no way back from half of it, so another process tries first.
    child = os.fork()
    if child == 0:
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
    """The number of the error that entering ends with, or using what was entered; 0 for none."""
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
    # Root keeps its own user namespace, and with it the right to the files of others.
    if libc.unshare(_CLONE_NEWNET | (_CLONE_NEWUSER if user else 0)):
        raise OSError(ctypes.get_errno(), 'unshare')
    if user:
        maps = {'setgroups': 'deny', 'uid_map': f'{user} {user} 1', 'gid_map': f'{group} {group} 1'}
        for name, text in maps.items():
            with open(f'/proc/self/{name}', 'w') as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack('16sh22x', b'lo', _IFF_UP))


def remote_path(arguments: Sequence[str]) -> Optional[str]:
    """Return the first path of another machine (`gs://...`) in a command line of the front door.

    Args:
        arguments: the command line. The files that it names, as a config, are searched as well,
            and the config that a run has saved in a folder that it names.
    """
    for argument in arguments:
        value = argument.partition('=')[2] or argument
        for text in (argument, _text_of(value), _text_of(os.path.join(value, 'pipeline.config'))):
            found = _REMOTE.search(_COMMENT.sub('', text))
            if found:
                return found.group()
    return None


def _text_of(path: str, most: int = 1 << 20) -> str:
    try:
        with open(path, errors='replace') as file:
            return file.read(most)
    except (OSError, ValueError):
        return ''
