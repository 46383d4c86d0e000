"""Template, style and script of `report.html`, from the files of these kinds beside this one."""

from __future__ import annotations

import pathlib

_FILE = pathlib.Path(__file__).with_name('report')
TEMPLATE, STYLE, SCRIPT = (
    _FILE.with_suffix(ending).read_text(encoding='utf-8') for ending in ('.html', '.css', '.js')
)
