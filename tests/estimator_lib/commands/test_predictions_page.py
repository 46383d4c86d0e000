"""The page of predictions: its data, and names that are no markup."""

import json
import math
import re

import numpy as np
import pytest

from estimator_lib.commands import predictions_page
from estimator_lib.commands.predictions_page import Shown


def data(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_results_are_names_with_scores_or_shares():
    rows = [{'class': 'cat', 'score': 0.98765}, {'class': 'sky', 'pixels': 6}, {'id': 3}]
    expected = [['cat', 0.988], ['sky', 0.5], ['', None]]
    assert predictions_page.summarize(rows, (3, 4)) == expected
    assert len(predictions_page.summarize(rows * 20, (3, 4))) == 30


@pytest.mark.parametrize('score', [math.nan, math.inf, np.float32('-inf')])
def test_scores_that_are_no_numbers_are_left_out(score):
    assert predictions_page.summarize([{'class': 'cat', 'score': score}], (3, 4)) == [['cat', None]]


def test_names_are_data_and_no_markup():
    name = '</script><b>&"'
    page = predictions_page.to_html([Shown(name, None, [[name, 0.5]])])
    assert name not in page
    assert data(page) == [{'name': name, 'picture': None, 'results': [[name, 0.5]]}]


def test_the_page_of_5000_images_is_small_and_needs_no_network():
    images = [Shown(f'photos/{n}.jpg', f'{n}.png', [['cat', 0.5]] * 3) for n in range(5000)]
    page = predictions_page.to_html(images)
    assert len(data(page)) == 5000 and len(page) < 1_000_000
    assert not re.search(r'(src|href)="(https?:)?//', page)
