"""PNG files of ids of every kind, written by hand."""

import struct
import zlib

import numpy as np


def _chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))


def png(ids, bits=8, palette=False):
    """A PNG of ids, [height, width]: gray, or with a palette of colors that are no ids."""
    height, width = ids.shape
    places = (ids[..., None] >> np.arange(bits - 1, -1, -1)) & 1
    rows = np.packbits(places.reshape(height, -1).astype(np.uint8), axis=1)
    data = b''.join(b'\0' + row.tobytes() for row in rows)
    header = struct.pack('>IIBBBBB', width, height, bits, 3 if palette else 0, 0, 0, 0)
    colors = bytes(255 - i % 7 for i in range(3 * 2**bits)) if palette else b''
    chunks = [(b'IHDR', header), (b'PLTE', colors), (b'tRNS', b'\0' if palette else b'')]
    chunks = [(kind, content) for kind, content in chunks if content]
    chunks += [(b'IDAT', zlib.compress(data)), (b'IEND', b'')]
    return b'\x89PNG\r\n\x1a\n' + b''.join(_chunk(*chunk) for chunk in chunks)


def claiming(height, width):
    """A PNG of a few bytes whose header claims a size; its pixels are missing."""
    start = b'\x89PNG\r\n\x1a\n'
    header = _chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0))
    return start + header + _chunk(b'IDAT', zlib.compress(b'\0')) + _chunk(b'IEND', b'')
