"""Names of tasks."""

import pytest

from estimator_lib.task_interfaces.named import Named


def test_a_name_is_an_attribute_or_a_property_that_nobody_leaves_out():
    class Constant(Named):
        name = 'constant'

    class Computed(Named):
        @property
        def name(self):
            return 'com' + 'puted'

    assert (Constant().name, Computed().name) == ('constant', 'computed')
    with pytest.raises(TypeError, match='name'):
        Named()
