import pytest

from model_fns.datasets.meaning.issues import Issue, Severity


@pytest.mark.parametrize(
    ('number', 'total', 'said'),
    [
        (2, 3000, '2 of 3,000 boxes are small (first: a.txt, line 1)'),
        (3, 3, 'all 3 boxes are small (first: a.txt, line 1)'),
        (1, 1, '1 of 1 boxes are small (first: a.txt, line 1)'),
    ],
)
def test_an_issue_is_one_line(number, total, said):
    issue = Issue(Severity.WARNING, number, total, 'boxes', 'are small', 'a.txt, line 1')
    assert str(issue) == said
    assert str(issue._replace(example='')) == said[: said.index(' (')]
