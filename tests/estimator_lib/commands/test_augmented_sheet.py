import numpy as np
import pytest
from PIL import Image

from estimator_lib import errors
from estimator_lib.commands import augmented_sheet
from estimator_lib.drawing import visualization
from estimator_lib.task import IMAGE
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line
from tests.estimator_lib.tiny_task import Presented


class DrawnLine(Presented, Line):
    """Pictures of one value, the example's number, and as wide as it says."""

    def augment(self, example, seed):
        return {**example, IMAGE: 10.0 * example[IMAGE]}

    def draw(self, features, outputs, labels=None, shown=None):
        assert not outputs
        assert features[IMAGE].shape == (1, 1, 1)
        value = round(float(features[IMAGE][0, 0, 0]))
        assert labels['y'] == pytest.approx(3 * value)
        return np.full([600, 200 + value, 3], value, np.uint8)


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


def test_examples_are_drawn_as_training_gets_them(config, tmp_path):
    pictures = augmented_sheet.draw_examples(DrawnLine(), config, 3)
    assert [picture.shape[0] for picture in pictures] == [320] * 3
    assert all(picture[0, 0, 0] % 10 == 0 for picture in pictures)
    path = augmented_sheet.write_sheet(DrawnLine(), config, str(tmp_path / 'new'), 3)
    assert path == str(tmp_path / 'new' / 'augmented.png')
    expected = visualization.grid(pictures, columns=2)
    np.testing.assert_array_equal(np.asarray(Image.open(path).convert('RGB')), expected)


def test_examples_may_end(config):
    config.train_input_reader.num_epochs = 1
    assert len(augmented_sheet.draw_examples(DrawnLine(), config, 99)) == 4


def test_a_task_that_draws_nothing(config, tmp_path):
    with pytest.raises(errors.UserError, match="the task 'line' draws no examples"):
        augmented_sheet.write_sheet(Line(), config, str(tmp_path), 3)


def test_the_start_of_a_run_draws_and_never_ends_it(config, tmp_path, caplog, monkeypatch):
    config.train_input_reader.shuffle_buffer_size = 9999
    config.train_config.progress.draw_first_examples = 3
    augmented_sheet.start_sheet(DrawnLine(), config, str(tmp_path / 'run')).result()
    assert Image.open(tmp_path / 'run' / 'augmented.png').size[1] == 2 * 320 + 8
    assert config.train_input_reader.shuffle_buffer_size == 9999
    augmented_sheet.start_sheet(Line(), config, str(tmp_path / 'nothing')).result()
    assert not (tmp_path / 'nothing').exists()
    config.train_input_reader.tf_record_input_reader.input_path[:] = ['missing']
    augmented_sheet.start_sheet(DrawnLine(), config, str(tmp_path / 'other')).result()
    assert not caplog.text  # training itself says it
    monkeypatch.setattr(augmented_sheet, 'draw_examples', lambda *_: [None])
    augmented_sheet.start_sheet(DrawnLine(), config, str(tmp_path / 'other')).result()
    assert 'augmented.png: it cannot be drawn' in caplog.text
