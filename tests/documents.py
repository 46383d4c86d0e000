"""Code blocks of the README and the pages of `docs/`."""

import pathlib
import re
import shlex
from typing import Iterator, List, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *sorted((ROOT / 'docs').glob('*.md'))]


class Block(NamedTuple):
    """A code block.

    Attributes:
        page: its path below the root.
        line: where it begins.
        language: what stands behind the fence: `sh`, `python` (a test runs it), `py` (a part of a
            program), `proto` (a part of a config), and others.
        text: without the fences.
    """

    page: str
    line: int
    language: str
    text: str


def blocks(*languages: str) -> List[Block]:
    """Return the code blocks in some languages; of all pages, in their order."""
    found = []
    for path in PAGES:
        text = path.read_text(encoding='utf-8')
        for match in re.finditer(r'^```(\w*)\n(.*?)^```$', text, re.M | re.S):
            if not languages or match[1] in languages:
                line = text.count('\n', 0, match.start()) + 1
                page = str(path.relative_to(ROOT))
                found.append(Block(page, line, match[1], match[2]))
    return found


def commands() -> Iterator[List[str]]:
    """Yield the words of each command in the `sh` blocks; `&&` stands between two commands."""
    for block in blocks('sh'):
        text = re.sub(r'(^|\s)#.*$', '', block.text.replace('\\\n', ' '), flags=re.M)
        lexer = shlex.shlex(text, posix=True, punctuation_chars='\n&')
        lexer.whitespace, lexer.whitespace_split = ' \t', True
        words: List[str] = []
        for token in [*lexer, '\n']:
            if token.strip('\n&'):
                words.append(token)
            elif words:
                yield words
                words = []
