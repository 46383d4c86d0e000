"""The page of an analysis: escaped, self-contained, bounded, without errors in a browser."""

import re
import shutil
import subprocess

import pytest

from estimator_lib.analysis import report
from estimator_lib.analysis.parts import Figure, Section, Table, Tile
from estimator_lib.analysis.rendering import Drawing

_BROWSERS = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
# Runs in the page, behind its own script: sorts the first table twice, opens a picture, and leaves
# what it saw in the title.
_PROBE = """
<script>
const seen = [];
const rows = () => [...document.querySelectorAll('tbody')[0].rows];
const cells = () => rows().map(row => row.cells[0].textContent);
const heads = document.querySelectorAll('thead')[0].querySelectorAll('button');
heads[1].click(); seen.push(cells().join(','));
heads[1].click(); seen.push(cells().join(','));
heads[0].click(); seen.push(cells().join(','));
document.querySelector('.zoom').click();
seen.push(document.getElementById('large').open);
seen.push(document.documentElement.scrollWidth <= window.innerWidth);
// On a phone, a long name leaves room for its numbers.
const long = [...document.querySelectorAll('td')].find(cell => cell.textContent.includes('mAP'));
seen.push(long.offsetWidth < Math.max(0.5 * window.innerWidth, 240));
document.title = seen.join('|');
</script>
"""
JPEG = b'\xff\xd8\xff' + bytes(30)


def example(pictures=1, **changes):
    rows = [('b', 2.0), ('a', 10.0), ('c', None)]
    content = {
        'title': 'Title & <more>',
        'subtitle': 'Sub',
        'sections': [
            Section(
                'Numbers',
                [Table('t', 'Table', ['name', 'number'], rows), Figure('f', 'Figure', print)],
                'Text.',
                [Tile('AP', '12 %', 'hint')],
            )
        ],
        'drawings': {'f': Drawing(b'', '<svg viewBox="0 0 9 9"></svg>', 500)},
        'pictures': [
            report.Picture(f'worst/{n}.jpg', JPEG, 'a<b', ['x & y'], (4, 3))
            for n in range(pictures)
        ],
        'metrics': {
            'DetectionBoxes_PerformanceByCategory/mAP/small ellipse': 0.25,
            'undefined': float('nan'),
        },
        'files': {'errors.csv': 'each error'},
    }
    return report.Report(**{**content, **changes})


def test_what_is_on_the_page():
    page = report.to_html(example())
    assert '<title>Title &amp; &lt;more&gt;</title>' in page
    assert '<b>a&lt;b</b><ul><li>x &amp; y</li></ul>' in page
    assert '<td class="number" data-value="10.0">10</td>' in page
    # A heading is above its numbers.
    assert '<th scope="col" aria-sort="none"><button type="button">name</button>' in page
    assert (
        '<th scope="col" aria-sort="none" class="number"><button type="button">number</button>'
        in page
    )
    assert page.count('<td class="number none" data-value="">–</td>') == 2  # None and NaN
    assert 'prefers-color-scheme: dark' in page and 'width=device-width' in page
    assert re.findall(r'(?:src|href)="(?!data:|#|errors\.csv)[^"]*"', page) == []
    sections = re.findall(r'<section id="([^"]*)">', page)
    assert sections == ['numbers', 'worst-images', 'metrics-and-files']
    assert re.findall(r'<a href="#([^"]*)">', page) == sections


def test_tables_dialog_and_pictures_have_names_and_sizes():
    page = report.to_html(example())
    tables = re.findall(r'<table([^>]*)>', page)
    assert tables == [' aria-label="Table"', ' aria-label="All metrics"']
    # What scrolls takes the focus, so that it scrolls with the keyboard.
    assert page.count('class="scroll" tabindex="0" role="region" aria-label="') == 2
    assert '<dialog id="large" aria-label="enlarged picture">' in page
    assert 'alt="a&lt;b" width="4" height="3"' in page
    assert '<nav aria-label="sections">' in page


def test_the_size_is_bounded(monkeypatch):
    monkeypatch.setattr(report, '_MOST_BYTES', 2 * len(JPEG) + 1)
    page = report.to_html(example(pictures=4))
    assert page.count('data:image/jpeg') == 2
    assert 'src="worst/2.jpg"' in page and 'src="worst/3.jpg"' in page


def browser():
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        pytest.skip(f'none of these browsers is installed: {", ".join(_BROWSERS)}')
    return found


@pytest.mark.parametrize('width', [1280, 390])
def test_a_browser_shows_it_without_errors(tmp_path, width):
    program = browser()
    page = tmp_path / 'report.html'
    page.write_text(report.to_html(example()).replace('</body>', f'{_PROBE}</body>'))
    flags = (
        '--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync --v=0 '
        '--disable-background-networking --disable-component-update --enable-logging=stderr '
        f'--window-size={width},900 --user-data-dir={tmp_path / "profile"} --dump-dom'
    )
    done = subprocess.run(
        [program, *flags.split(), page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert re.findall(r'.*:CONSOLE.*', done.stderr) == []
    title = re.search('<title>(.*?)</title>', done.stdout)
    assert title and title.group(1) == 'a,b,c|b,a,c|a,b,c|true|true|true'


def test_the_browser_of_these_tests_reports_errors(tmp_path):
    """Otherwise the test above could not fail."""
    program = browser()
    page = tmp_path / 'report.html'
    page.write_text('<script>missing();</script>')
    flags = '--headless --no-sandbox --disable-gpu --no-first-run --enable-logging=stderr --v=0'
    done = subprocess.run(
        [program, *flags.split(), f'--user-data-dir={tmp_path / "p"}', '--dump-dom', page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert re.search(':CONSOLE.*missing', done.stderr)
