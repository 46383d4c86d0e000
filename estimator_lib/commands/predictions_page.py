"""`predictions.html`: pictures of predictions to look through, by class, score and name.

The page opens without server or network. It has one line of data for each image, and builds the
cards of one screen at a time, so that a browser shows 5,000 images as fast as 50.
"""

from __future__ import annotations

import html
import json
import math
import string
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from estimator_lib import texts
from estimator_lib.analysis import page

_MOST_RESULTS = 30  # of an image, on the page
_CARDS = 60  # on a screen

_CONTROLS = """
<section>
<form class="controls" id="controls">
<label>class <select name="class"><option value="">all</option></select></label>
<label>score from <input name="score" type="number" min="0" max="1" step="0.05" value="0"></label>
<label>name <input name="name" type="search"></label>
<label>order <select name="order">
<option value="name">name</option>
<option value="high">highest score first</option>
<option value="low">lowest score first</option>
<option value="most">most results first</option>
</select></label>
<span id="count"></span>
<span><button type="button" id="back">back</button>
<button type="button" id="next">next</button></span>
</form>
<div class="cards" id="cards"></div>
</section>
<script type="application/json" id="data">$data</script>
"""

_STYLE = """
.controls { display: flex; flex-wrap: wrap; gap: 0.5rem 1.25rem; align-items: center; }
.controls label, .controls span { color: var(--soft); font-size: 0.88rem; }
.controls input, .controls select, .controls button {
  font: inherit; color: var(--ink); background: var(--stripe); border: 1px solid var(--line);
  border-radius: 6px; padding: 0.2rem 0.5rem;
}
"""

_SCRIPT = """
const images = JSON.parse(document.getElementById('data').textContent);
const form = document.getElementById('controls'), cards = document.getElementById('cards');
const percent = value => value === null ? '' : ' ' + Math.round(100 * value) + '%';
const size = $cards;
let shown = [], start = 0;
const names = new Set(images.flatMap(image => image.results.map(result => result[0])));
for (const name of [...names].sort()) form.elements.class.add(new Option(name));
const kept = image => image.results.filter(([name, score]) =>
  (!form.elements.class.value || name === form.elements.class.value) &&
  (score === null || score >= Number(form.elements.score.value)));
const best = image => Math.max(0, ...kept(image).map(result => result[1] ?? 1));
const orders = {
  name: () => 0, high: (a, b) => best(b) - best(a), low: (a, b) => best(a) - best(b),
  most: (a, b) => kept(b).length - kept(a).length,
};
const card = image => {
  const figure = document.createElement('figure');
  figure.className = 'card';
  if (image.picture) {
    const button = figure.appendChild(document.createElement('button'));
    const picture = button.appendChild(new Image());
    button.className = 'zoom';
    picture.loading = 'lazy';
    picture.alt = image.name;
    picture.src = image.picture;
    button.addEventListener('click', () => {
      const large = document.getElementById('large');
      [large.firstElementChild.src, large.firstElementChild.alt] = [picture.src, picture.alt];
      large.showModal();
    });
  }
  const caption = figure.appendChild(document.createElement('figcaption'));
  caption.appendChild(document.createElement('b')).textContent = image.name;
  const list = caption.appendChild(document.createElement('ul'));
  for (const [name, score] of kept(image)) {
    list.appendChild(document.createElement('li')).textContent = name + percent(score);
  }
  return figure;
};
const draw = () => {
  start = Math.min(start, Math.max(0, Math.floor((shown.length - 1) / size) * size));
  cards.replaceChildren(...shown.slice(start, start + size).map(card));
  const end = Math.min(start + size, shown.length);
  document.getElementById('count').textContent =
    (shown.length ? start + 1 + ' to ' + end + ' of ' : '') + shown.length + ' images';
  document.getElementById('back').disabled = start === 0;
  document.getElementById('next').disabled = end === shown.length;
};
const choose = () => {
  const filters = form.elements.class.value || Number(form.elements.score.value) > 0;
  const text = form.elements.name.value.toLowerCase();
  shown = images.filter(image =>
    image.name.toLowerCase().includes(text) && (!filters || kept(image).length));
  shown.sort(orders[form.elements.order.value]);
  draw();
};
form.addEventListener('input', () => { start = 0; choose(); });
form.addEventListener('submit', event => event.preventDefault());
document.getElementById('back').addEventListener('click', () => { start -= size; draw(); });
document.getElementById('next').addEventListener('click', () => { start += size; draw(); });
choose();
"""


class Shown(NamedTuple):
    """Predictions of one image on the page.

    Attributes:
        name: of the image.
        picture: path of a picture, relative to the page; None: there is none.
        results: name and score (or share of the image, from 0 to 1; None) of each result.
    """

    name: str
    picture: Optional[str]
    results: Sequence[Sequence[Any]]


def summarize(rows: Sequence[Mapping[str, Any]], size: Sequence[int]) -> List[List[Any]]:
    """Return name and score of each result, or the share of the pixels where there is no score.

    Args:
        rows: of `Description`.
        size: height and width of the image.
    """
    pixels = max(1, size[0] * size[1])

    def score(row: Mapping[str, Any]) -> Optional[float]:
        value = row.get('score', row['pixels'] / pixels if 'pixels' in row else None)
        # JSON has neither NaN nor infinity.
        return round(float(value), 3) if value is not None and math.isfinite(value) else None

    return [[str(row.get('class', '')), score(row)] for row in rows[:_MOST_RESULTS]]


def to_html(images: Sequence[Shown]) -> str:
    """Return the text of the page.

    Args:
        images: in the order of their names.
    """
    data = json.dumps([image._asdict() for image in images], ensure_ascii=False)
    # An element of a script ends at the first `</script`, wherever it stands.
    body = string.Template(_CONTROLS).substitute(data=data.replace('<', '\\u003c'))
    return string.Template(page.TEMPLATE).substitute(
        title='Predictions',
        subtitle=html.escape(texts.counted(len(images), 'image')),
        style=page.STYLE + _STYLE,
        links='',
        body=body,
        script=page.SCRIPT + string.Template(_SCRIPT).substitute(cards=_CARDS),
    )
