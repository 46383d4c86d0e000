import pytest

from estimator_lib import errors
from estimator_lib.commands import command_line


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (['--steps=x'], "argument --steps: invalid int value: 'x' (--help lists the flags)"),
        (['--step_s=1'], 'unrecognized arguments: --step_s=1 (--help lists the flags)'),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments, said, capsys):
    parser = command_line.Parser()
    parser.add_argument('--steps', type=int)
    with pytest.raises(errors.UserError) as caught:
        parser.parse_args(arguments)
    assert str(caught.value) == said
    assert capsys.readouterr() == ('', '')
