import pytest

from estimator_lib.export import writers


def test_unless_a_format_says_otherwise_it_needs_nothing_and_knows_floats_alone():
    class Writer(writers.Writer):
        write = load = None

    assert Writer.quantizes == (writers.NONE,)
    assert Writer().check() is None


def test_what_a_format_must_have():
    with pytest.raises(TypeError, match='abstract'):
        writers.Writer()
    with pytest.raises(TypeError, match='abstract'):
        writers.FileModel()


def test_what_is_asked_for_unless_somebody_says_otherwise():
    assert writers.AS_TRAINED == (None, 100)
