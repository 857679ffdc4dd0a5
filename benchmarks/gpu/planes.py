"""Float weights made small without loss, to be carried: the bytes of the same rank lie together, then xz.

A trained network's exponents repeat and its mantissas do not, so that each of the four planes is compressed alone; one
that does not get smaller stays as it is.
"""

import concurrent.futures
import lzma
from pathlib import Path

import numpy as np

MAGIC = b"planes1\n"


def squeeze(plane):
    """A plane and whether it is compressed: (b"x" or b"r", bytes)."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 24}]
    small = lzma.compress(plane, lzma.FORMAT_XZ, filters=filters)
    return (b"x", small) if len(small) < len(plane) else (b"r", plane)


def pack(data):
    """Bytes that unpack() turns into `data` again. `data` is float32 values, little-endian; another length is allowed."""
    whole = len(data) // 4 * 4
    values = np.frombuffer(data[:whole], np.uint32)
    turned = ((values << np.uint32(1)) | (values >> np.uint32(31))).view(np.uint8).reshape(-1, 4)  # the sign goes last
    with concurrent.futures.ThreadPoolExecutor() as pool:
        planes = list(pool.map(squeeze, (turned[:, rank].tobytes() for rank in range(4))))
    head = MAGIC + len(data).to_bytes(8, "little")
    parts = [kind + len(part).to_bytes(8, "little") + part for kind, part in planes]
    return b"".join([head, *parts, data[whole:]])


def unpack(packed):
    """What was given to pack(); ValueError for bytes that do not come from it."""
    if packed[:8] != MAGIC or len(packed) < 16:
        raise ValueError("no packed weights")
    length, at, planes = int.from_bytes(packed[8:16], "little"), 16, []
    for _ in range(4):
        kind, size = packed[at : at + 1], int.from_bytes(packed[at + 1 : at + 9], "little")
        part = packed[at + 9 : at + 9 + size]
        if len(part) != size or kind not in (b"x", b"r"):
            raise ValueError("packed weights end early")
        planes.append((kind, part))
        at += 9 + size
    with concurrent.futures.ThreadPoolExecutor() as pool:
        planes = list(pool.map(lambda p: lzma.decompress(p[1]) if p[0] == b"x" else p[1], planes))
    turned = np.stack([np.frombuffer(plane, np.uint8) for plane in planes], axis=1).copy().view(np.uint32).reshape(-1)
    values = (turned >> np.uint32(1)) | (turned << np.uint32(31))
    data = values.tobytes() + packed[at:]
    if len(data) != length:
        raise ValueError("packed weights have another length than was written")
    return data


def read_parts(first):
    """The bytes of FILE, or of FILE.00, FILE.01 ... if it was cut for several trips."""
    first = Path(first)
    if first.exists():
        return first.read_bytes()
    parts = sorted(first.parent.glob(first.name + ".[0-9][0-9]"))
    if not parts:
        raise FileNotFoundError(first)
    return b"".join(part.read_bytes() for part in parts)
