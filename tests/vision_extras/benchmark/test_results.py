"""Tables and drawings of a benchmark."""

import csv
import io

import pytest

from vision_extras.benchmark import results
from vision_extras.benchmark.timing import Latency, Timing

TIMING = Timing(Latency(1.5, 2.25), Latency(8.0, 9.0), 3 << 20)
ROWS = [
    results.Row('checkpoint', {'accuracy': 0.75}, results.CHECKPOINT),
    results.Row('saved_model', {'accuracy': 0.75}, results.CHECKPOINT, 1.0, 2500000, TIMING),
    results.Row(
        'tflite int8',
        {'accuracy': 0.5, 'recall': 0.25},
        results.FILE,
        0.987,
        640000,
        Timing(Latency(0.5, 0.75), None, 0),
    ),
    results.Row('onnx', refused='the package onnx is not installed'),
]


def test_the_csv_has_every_number_and_reason():
    rows = list(csv.DictReader(io.StringIO(results.to_csv(ROWS))))
    assert [row['export'] for row in rows] == ['checkpoint', 'saved_model', 'tflite int8', 'onnx']
    assert [row['accuracy'] for row in rows] == ['0.75', '0.75', '0.5', '']
    assert [row['recall'] for row in rows] == ['', '', '0.25', '']
    assert [row['metrics_of'] for row in rows] == ['checkpoint', 'checkpoint', 'file', '']
    assert rows[1]['bytes'] == '2500000' and rows[1]['memory_bytes'] == str(3 << 20)
    assert (rows[1]['one_ms_median'], rows[1]['one_ms_95']) == ('1.5', '2.25')
    assert (rows[1]['batch_of_8_ms_median'], rows[1]['batch_of_8_ms_95']) == ('8.0', '9.0')
    assert rows[2]['batch_of_8_ms_median'] == '' and rows[2]['agreement'] == '0.987'
    assert rows[3]['refused'] == 'the package onnx is not installed' and rows[3]['bytes'] == ''


def test_the_table_shows_one_metric_and_the_reasons():
    lines = [line.split() for line in results.format_table(ROWS, 'accuracy')]
    assert lines[0][:3] == ['export', 'accuracy', 'agreement']
    assert lines[1] == ['checkpoint', '0.7500', '-', '-', '-', '-', '-']
    assert lines[2] == (
        ['saved_model', '0.7500*', '100.00%', '2.50', '1.50', '(2.25)', '8.00', '(9.00)', '3']
    )
    assert lines[3] == ['tflite', 'int8', '0.5000', '98.70%', '0.64', '0.50', '(0.75)', '-', '0']
    assert ' '.join(lines[4]) == '* of the checkpoint: the file has its graph'
    assert ' '.join(lines[5]) == 'onnx: refused: the package onnx is not installed'
    assert len(lines) == 6


@pytest.mark.parametrize('rows', [ROWS, ROWS[:1]])
def test_the_drawing_has_a_bar_for_each_timed_export(rows):
    figure_module = pytest.importorskip('matplotlib.figure')
    figure = figure_module.Figure()
    results.draw(figure, rows, 'accuracy')
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ['accuracy', 'ms for one image (95 %)', 'memory, MiB', 'size, MB']
    widths = [patch.get_width() for patch in figure.axes[0].patches]
    assert widths == ([0.75, 0.5] if len(rows) > 1 else [])
