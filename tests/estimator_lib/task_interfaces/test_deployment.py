"""Defaults of a task that is served as a SavedModel only."""

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task_interfaces.deployable import Ops
from estimator_lib.task_interfaces.deployment import Deployment


class Served(Deployment):
    """What no task can do without."""

    name = 'served'

    def serving_features(self, images):
        return {'image': images}

    def export_outputs(self, outputs):
        return outputs


def test_a_server_receives_images_alone():
    assert Served().serving_side_inputs(tf.constant(1), None) == ({}, {})
    assert Served().image_tensor_name() == 'image_tensor'


def test_files_for_devices_are_refused():
    with pytest.raises(errors.UserError, match='served has no files for devices; expected --form'):
        Served().deployable(Ops.CORE)


def test_a_task_has_features_of_a_servers_images():
    class Unserved(Deployment):
        name = 'unserved'

        def export_outputs(self, outputs):
            return outputs

    with pytest.raises(TypeError, match='serving_features'):
        Unserved()


def test_a_task_is_exported_as_it_is():
    served = Served()
    assert served.as_exported() is served


def test_a_name_is_an_attribute_or_a_property_that_nobody_leaves_out():
    class Computed(Served):
        @property
        def name(self):
            return 'com' + 'puted'

    class Nameless(Deployment):
        serving_features = export_outputs = Served.export_outputs

    assert (Served().name, Computed().name) == ('served', 'computed')
    with pytest.raises(TypeError, match='name'):
        Nameless()
