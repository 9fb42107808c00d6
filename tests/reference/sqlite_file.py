"""Which bytes of an SQLite database mean nothing: read off the file format (sqlite.org/fileformat2.html)."""

HEADER = 100
# Of the file's header: the change counter (24) and what is compared with it (92, 96), the version of the schema (40),
# the suggested cache size (48), what is reserved (72 to 91); and numbers of which only some bits are read: who may
# write (18) and read (19), the format of the schema (44), the encoding (56). No reading of these changes a row.
UNREAD = {18, 19, *range(24, 28), *range(40, 52), *range(56, 60), *range(72, 100)}


def varint(data, at):
    """Return the number that begins at a place, and the place after it."""
    value = 0
    for index in range(9):
        byte = data[at + index]
        if index == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    raise AssertionError


def dead_space(data):
    """Return the places of all bytes that no row, no index and no structure is made of."""
    size = int.from_bytes(data[16:18], "big")
    dead, overflows = UNREAD | number_of_last(data), []
    for page in range(len(data) // size):
        start = page * size
        if (start + (HEADER if page == 0 else 0)) in {at for at, _ in overflows}:
            continue
        if data[start + (HEADER if page == 0 else 0)] in (2, 5, 10, 13):
            dead |= dead_in_page(data, start, HEADER if page == 0 else 0, size, overflows)
    for start, left in overflows:
        dead |= set(range(start + 4 + min(left, size - 4), start + size))
    return dead


def number_of_last(data):
    """Return the places of the number of the schema's last row: nothing refers to it, and any larger one will do."""
    kind, cells = data[HEADER], int.from_bytes(data[HEADER + 3 : HEADER + 5], "big")
    if kind != 13 or not cells:
        return set()
    pointer = HEADER + 8 + 2 * (cells - 1)
    begin = varint(data, int.from_bytes(data[pointer : pointer + 2], "big"))[1]
    return set(range(begin, varint(data, begin)[1]))


def dead_in_page(data, start, offset, size, overflows):
    """Return the dead bytes of one page of a tree; note the overflow pages of its cells."""
    head = start + offset
    kind, cells = data[head], int.from_bytes(data[head + 3 : head + 5], "big")
    pointers = head + (12 if kind in (2, 5) else 8)
    used = set(range(start, pointers + 2 * cells))
    for index in range(cells):
        at = start + int.from_bytes(data[pointers + 2 * index : pointers + 2 * index + 2], "big")
        used |= set(range(at, cell_end(data, at, kind, size, overflows)))
    block = int.from_bytes(data[head + 1 : head + 3], "big")
    while block:  # free blocks: four bytes of structure each
        used |= set(range(start + block, start + block + 4))
        block = int.from_bytes(data[start + block : start + block + 2], "big")
    return set(range(start, start + size)) - used


def cell_end(data, at, kind, size, overflows):
    """Return the place after a cell."""
    if kind == 5:
        return varint(data, at + 4)[1]
    payload, at = varint(data, at + 4 if kind == 2 else at)
    if kind == 13:
        at = varint(data, at)[1]
    most = size - 35 if kind == 13 else (size - 12) * 64 // 255 - 23
    if payload <= most:
        return max(at + payload, at)
    least = (size - 12) * 32 // 255 - 23
    local = least + (payload - least) % (size - 4)
    local = local if local <= most else least
    follow(data, int.from_bytes(data[at + local : at + local + 4], "big"), payload - local, size, overflows)
    return at + local + 4


def follow(data, page, left, size, overflows):
    """Note the pages that the rest of a payload lies on, and how much lies on each."""
    while page:
        start = (page - 1) * size
        overflows.append((start, left))
        left = max(0, left - (size - 4))
        page = int.from_bytes(data[start : start + 4], "big")
