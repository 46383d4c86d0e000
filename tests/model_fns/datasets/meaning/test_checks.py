import pytest

from estimator_lib import errors
from model_fns.datasets.meaning import checks
from model_fns.datasets.meaning.annotated import CROWD, Annotated, Object
from model_fns.datasets.meaning.issues import Severity


def test_errors_come_first_and_are_raised_together():
    items = [Object(f'object {index}', ignored=CROWD, unread=['angle']) for index in range(3)]
    issues = checks.find([Annotated('a.png', (10, 10), items)], ['cat'], more=[])
    severities = [issue.severity for issue in issues]
    assert severities == [Severity.ERROR, Severity.WARNING, Severity.WARNING]
    with pytest.raises(errors.DataError, match=r'^all 3 objects are crowds.*\.$'):
        checks.refuse_errors(issues)
    lines = checks.refuse_errors(issues[1:])
    assert len(lines) == 2 and all(line.endswith('.') for line in lines)
