import pytest

from estimator_lib import errors
from model_fns.datasets.meaning import checks
from model_fns.datasets.meaning.annotated import CROWD, Annotated, Object
from model_fns.datasets.meaning.findings import Severity


def test_errors_come_first_and_are_raised_together():
    items = [Object(f'object {index}', ignored=CROWD, unread=['angle']) for index in range(3)]
    findings = checks.find([Annotated('a.png', (10, 10), items)], ['cat'], more=[])
    severities = [finding.severity for finding in findings]
    assert severities == [Severity.ERROR, Severity.WARNING, Severity.WARNING]
    with pytest.raises(errors.DataError, match=r'^all 3 objects are crowds.*\.$'):
        checks.refuse_errors(findings)
    lines = checks.refuse_errors(findings[1:])
    assert len(lines) == 2 and all(line.endswith('.') for line in lines)
