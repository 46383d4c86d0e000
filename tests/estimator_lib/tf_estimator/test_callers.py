"""The objects whose methods are running."""

from estimator_lib.tf_estimator import callers


class Caller:
    """Calls a function from one of its methods."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def call(self, function):
        return function()


def test_the_nearest_caller_with_an_attribute_counts():
    far, near, other = Caller(hooks=1), Caller(hooks=2), Caller(own=3)

    def find(attribute):
        return far.call(
            lambda: near.call(lambda: other.call(lambda: callers.nearest_caller(attribute)))
        )

    assert find('hooks') is near
    assert find('own') is other
    assert find('nothing_has_this') is None
