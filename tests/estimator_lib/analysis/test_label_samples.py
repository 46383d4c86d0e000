"""The section on the labels of the data."""

from estimator_lib.analysis import label_samples
from tests.estimator_lib import line_task
from tests.estimator_lib.analysis.analyzed_line import AnalyzedLine, LineChecks
from tests.estimator_lib.line_task import Line


class Counting(LineChecks):
    """Notes what was examined."""

    def check_example(self, serialized):
        return 'bad' if b'x' not in serialized else None

    def label_figures(self, examined):
        self.examined = {name: len(values) for name, values in examined.items()}
        return super().label_figures(examined)


def test_the_first_valid_records_of_each_reader(tmp_path, monkeypatch):
    config = line_task.create_config(tmp_path)
    task = AnalyzedLine()
    task.checks = Counting()
    section, drawings = label_samples.draw_labels(task, config)
    assert list(drawings) == ['records'] and drawings['records'].png
    assert task.checks.examined == {
        'train_input_reader': 4,
        'eval_input_reader[0]': 4,
        'eval_input_reader[1]': 4,
    }
    assert section.title == 'Labels' and [part.name for part in section.parts] == ['records']
    monkeypatch.setattr(label_samples, 'RECORDS', 3)
    assert '3 records' in label_samples.start_drawing(task, config).result().section.text
    assert set(task.checks.examined.values()) == {3}


def test_a_reader_without_files_is_left_out(tmp_path):
    config = line_task.create_config(tmp_path)
    config.train_input_reader.tf_record_input_reader.input_path[:] = [str(tmp_path / 'gone')]
    task = AnalyzedLine()
    task.checks = Counting()
    label_samples.draw_labels(task, config)
    assert list(task.checks.examined) == ['eval_input_reader[0]', 'eval_input_reader[1]']


def test_a_task_without_figures(tmp_path):
    assert label_samples.draw_labels(Line(), line_task.create_config(tmp_path)) is None
