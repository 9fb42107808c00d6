"""Whether a path lies on a file system of another machine, where locks and fsync cannot be trusted."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ferrodp.errors import LedgerError

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|ncpfs|afs|coda|9p|ceph|lustre|gpfs|beegfs|pvfs2|orangefs|ocfs2|gfs2|glusterfs|davfs"
    r"|fuse\.(sshfs|glusterfs|s3fs|rclone|davfs2?|gcsfuse|ceph|cephfs|juicefs|blobfuse2?|goofys|nfs.*|smb.*)"
)
_MOUNTS = Path("/proc/self/mountinfo")


def refuse_network(path: Path, mounts: Path = _MOUNTS) -> None:
    """Raise `LedgerError` if the directory of `path` is on a network file system; where that is unknown, do nothing."""
    try:
        device = os.stat(path.parent).st_dev
        kind = _kinds(mounts.read_text(encoding="utf-8", errors="replace")).get((os.major(device), os.minor(device)))
    except OSError:
        return
    if kind is not None and _NETWORK.fullmatch(kind):
        raise LedgerError(
            f"ledger {str(path)!r} would be on a network file system ({kind}), where locks do not hold; use a "
            "local disk, or a PostgreSQL server for many machines"
        )


def _kinds(text: str) -> dict[tuple[int, int], str]:
    """Return the types of mounted file systems by device (proc(5), mountinfo)."""
    found = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) >= 3 and kind and re.fullmatch(r"\d+:\d+", fields[2]):
            major, minor = fields[2].split(":")
            found[int(major), int(minor)] = kind[0]
    return found
