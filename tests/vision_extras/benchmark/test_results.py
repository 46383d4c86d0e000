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
    rows = list(csv.DictReader(io.StringIO(results.to_csv(ROWS, 8))))
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
    lines = [line.split() for line in results.format_table(ROWS, 'accuracy', 8)]
    assert lines[0][:2] == ['metric:', 'accuracy;']
    assert lines[1][:4] == ['export', 'metric', 'agrees', 'MB']
    assert lines[2] == ['checkpoint', '0.7500', '-', '-', '-', '-', '-']
    assert lines[3] == (
        ['saved_model', '0.7500*', '100.00%', '2.50', '1.50', '(2.25)', '8.00', '(9.00)', '3']
    )
    assert lines[4] == ['tflite', 'int8', '0.5000', '98.70%', '0.64', '0.50', '(0.75)', '-', '0']
    assert ' '.join(lines[5]) == '* of the checkpoint: the file has its graph'
    assert ' '.join(lines[6]) == 'onnx: refused: the package onnx is not installed'
    assert len(lines) == 7


def test_the_table_is_at_most_100_columns_wide():
    slow = Timing(Latency(123456.789, 234567.891), Latency(1234567.8, 2345678.9), 99 << 30)
    metric = 'DetectionBoxesByCategory_Precision/mAP@.75IOU of a class with a long name'
    rows = [
        results.Row('tflite float16', {metric: 0.12345}, results.CHECKPOINT, 1.0, 10**10, slow),
        results.Row('onnx batches', refused='a long reason ' * 20),
    ]
    lines = results.format_table(rows, metric, 128)
    assert max(map(len, lines)) <= 100
    (row,) = [line for line in lines if line.startswith('tflite')]
    assert row.split()[-5:] == ['123457', '(234568)', '1234568', '(2345679)', '101376']
    assert ' '.join(' '.join(lines).split()).count('a long reason') == 20


@pytest.mark.parametrize('rows', [ROWS, ROWS[:1]])
def test_the_drawing_has_a_bar_for_each_timed_export(rows):
    figure_module = pytest.importorskip('matplotlib.figure')
    figure = figure_module.Figure()
    results.draw(figure, rows, 'accuracy')
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ['accuracy', 'ms for one image (95 %)', 'memory, MiB', 'size, MB']
    widths = [patch.get_width() for patch in figure.axes[0].patches]
    assert widths == ([0.75, 0.5] if len(rows) > 1 else [])
