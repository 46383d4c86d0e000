import pytest

from model_fns.datasets.meaning.findings import Finding, Severity


@pytest.mark.parametrize(
    ('number', 'total', 'said'),
    [
        (2, 3000, '2 of 3,000 boxes are small (first: a.txt, line 1)'),
        (3, 3, 'all 3 boxes are small (first: a.txt, line 1)'),
        (1, 1, '1 of 1 boxes are small (first: a.txt, line 1)'),
    ],
)
def test_a_finding_is_one_line(number, total, said):
    finding = Finding(Severity.WARNING, number, total, 'boxes', 'are small', 'a.txt, line 1')
    assert str(finding) == said
    assert str(finding._replace(example='')) == said[: said.index(' (')]
