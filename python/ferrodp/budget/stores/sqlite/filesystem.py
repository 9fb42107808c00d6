"""The file systems on which a ledger may lie: an allow-list of those whose locks and syncs are this machine's own."""

from __future__ import annotations

from pathlib import Path

from ferrodp import _native
from ferrodp.errors import LedgerError

_LOCAL = {
    0xEF53: "ext2, ext3 or ext4",
    0x58465342: "XFS",
    0x9123683E: "Btrfs",
    0x2FC12FC1: "ZFS",
    0xF2F52010: "F2FS",
    0xCA451A4E: "bcachefs",
    0x01021994: "tmpfs",
    0x858458F6: "ramfs",
    0x3153464A: "JFS",
    0x52654973: "ReiserFS",
    0x3434: "NILFS",
    0x7366746E: "NTFS",
    0x4D44: "FAT",
    0x2011BAB0: "exFAT",
    0x00011954: "UFS",
    0x482B: "HFS+",
}
"""By the magic number that statfs(2) returns."""
_REFUSED = {
    0x794C7630: "an overlay, as the root of a container is",
    0x65735546: "FUSE",
    0x6969: "NFS",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB",
    0x517B: "SMB",
    0x01021997: "9P",
    0x00C36400: "Ceph",
    0x0BD00BD0: "Lustre",
    0x786F4256: "a shared folder of VirtualBox",
    0xBACBACBC: "a shared folder of VMware",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0x5346414F: "AFS",
    0x47504653: "GPFS",
    0xF15F: "eCryptfs",
}
"""Some that are met; whatever is not allowed is refused."""


def refuse_untrusted(path: Path) -> None:
    """Raise `LedgerError` unless a file, or where there is none its directory, is on a local file system.

    Network file systems have locks that do not hold. An overlay copies a file of a lower layer when it is opened, so
    each container would charge a ledger of its own.
    """
    kind = _native.file_system(path) if path.exists() else _native.file_system(path.parent)
    # mutant: network-file-system-taken-for-disk
    if kind in _LOCAL:
        return
    if kind is None:
        found = "a file system of unknown kind"
    else:
        found = f"a file system on which locks are not known to hold ({_REFUSED.get(kind, f'{kind:#x}')})"
    raise LedgerError(
        f"ledger {str(path)!r} would be on {found}; use a directory on a local disk (in a container: a directory of "
        "the host, mounted as a volume), or a PostgreSQL server for many machines; allow_unsafe_file_system=True takes "
        "it all the same"
    )
