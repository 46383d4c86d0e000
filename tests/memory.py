"""Memory of this process."""

import os


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; Linux only."""
    with open('/proc/self/statm') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
