"""Template of the report: complete, and without anything from a server."""

import re
import string

from estimator_lib.analysis import page


def test_all_parts_have_their_place():
    fields = {'title', 'subtitle', 'style', 'script', 'links', 'body'}
    found = {match['named'] for match in string.Template.pattern.finditer(page.TEMPLATE)}
    assert found == fields


def test_nothing_comes_from_a_server():
    assert not re.search(r'https?:|@import|url\(', page.TEMPLATE + page.STYLE + page.SCRIPT)


def test_braces_are_balanced():
    for text in (page.STYLE, page.SCRIPT):
        assert text.count('{') == text.count('}') > 5
