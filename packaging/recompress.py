"""Compresses the files of a wheel as far as deflate can: ``python packaging/recompress.py WHEEL``.

Names, contents, times and attributes stay as they are, and so does RECORD, which tells of contents only. Zopfli
looks longer for a short stream of the format that every unpacker reads; the same version gives the same bits. Python's
zipfile only stores data that it has compressed itself, so the archive is written here, member after member.
"""

import os
import struct
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import zopfli.zlib

ITERATIONS = 15
UTF8 = 0x800  # the flag of names that are not ASCII


def deflated(content: bytes) -> bytes:
    """Return a raw deflate stream of a content, after unpacking it again."""
    # Of blocks, each with a code of its own, as many as make it shorter. Less the frame of zlib.
    packed: bytes = zopfli.zlib.compress(content, numiterations=ITERATIONS, blocksplittingmax=0)[2:-4]
    if zlib.decompress(packed, wbits=-15) != content:
        raise ValueError("what was compressed does not unpack to what it was")
    return packed


def record(member: ZipInfo, content: bytes, packed: bytes, offset: int) -> tuple[bytes, bytes]:
    """Return what stands before a member, and its entry in the table at the end of the archive."""
    method, data = (ZIP_DEFLATED, packed) if len(packed) < len(content) else (ZIP_STORED, content)
    name = member.filename.encode()
    year, month, day, hour, minute, second = member.date_time
    time, date = hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
    flags = 0 if name.isascii() else UTF8
    common = struct.pack(
        "<HHHHHLLLHH", 20, flags, method, time, date, zlib.crc32(content), len(data), len(content), len(name), 0
    )
    made_by = member.create_system << 8 | 20
    entry = struct.pack("<4sH", b"PK\x01\x02", made_by) + common
    entry += struct.pack("<HHHLL", 0, 0, 0, member.external_attr, offset) + name
    return b"PK\x03\x04" + common + name + data, entry


def recompressed(wheel: Path) -> bytes:
    """Return the archive with the same members in the same order, compressed anew."""
    with ZipFile(wheel) as archive:
        members = archive.infolist()
        contents = [archive.read(member) for member in members]
    with ProcessPoolExecutor() as pool:
        streams = list(pool.map(deflated, contents))
    body, table = bytearray(), bytearray()
    for member, content, packed in zip(members, contents, streams, strict=True):
        before, entry = record(member, content, packed, len(body))
        body += before
        table += entry
    end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, len(members), len(members), len(table), len(body), 0)
    return bytes(body + table + end)


def main(wheel: Path) -> None:
    """Replace a wheel by the smaller one, once that is known to hold the same."""
    old = wheel.read_bytes()
    smaller = wheel.with_suffix(".smaller")
    smaller.write_bytes(recompressed(wheel))
    with ZipFile(wheel) as before, ZipFile(smaller) as after:
        kept = ("filename", "date_time", "external_attr", "create_system", "file_size", "CRC")
        for one, other in zip(before.infolist(), after.infolist(), strict=True):
            same = all(getattr(one, name) == getattr(other, name) for name in kept)
            if not same or before.read(one) != after.read(other):
                raise ValueError(f"{one.filename} is not what it was")
    size = smaller.stat().st_size
    os.replace(smaller, wheel)
    print(f"{len(old):,} bytes compressed to {size:,}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
