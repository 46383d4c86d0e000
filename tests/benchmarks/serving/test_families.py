"""Table of families and formats."""

import numpy as np

from benchmarks.serving import families

WORKS = {'agreement': 0.99984, 'latency': 0.5, 'megabytes': 4.31, 'milliseconds': 12.4}


def test_no_cell_of_the_table_is_empty():
    rows = {
        'saved_model': WORKS,
        'tflite': {
            'refused': 'model.ssd.box_type: ROTATED; expected AXIS_ALIGNED, or another format.'
        },
        'onnx': WORKS,
        'onnx --batch=dynamic': WORKS,
    }
    table = families.lines({'rotated': rows})
    assert table == [
        '| family | saved_model | tflite | onnx | onnx --batch=dynamic |',
        '| --- | --- | --- | --- | --- |',
        '| rotated | works (reference, 12 ms, 4.3 MB) | refused: model.ssd.box_type: ROTATED '
        '| works (99.98 %, 0.50, 4.3 MB) | works (99.98 %, 0.50, 4.3 MB) |',
    ]


def test_exports_run_in_turns(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(families, 'load', lambda path: lambda image: calls.append((path, image[0])))
    monkeypatch.setattr(families, '_TURNS', 2)
    monkeypatch.setattr(families, '_ONE_THREAD', {})
    np.savez(tmp_path / 'images.npz', np.array([7]), np.array([8]))
    file = str(tmp_path / 'images.npz')
    seconds = families.time_in_turns([('one', file), ('other', file)])
    assert len(seconds) == 2 and min(seconds) >= 0
    assert calls == [('one', 7), ('other', 7), ('one', 8), ('other', 8), ('one', 7), ('other', 7)]
