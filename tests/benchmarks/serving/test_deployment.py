"""Accuracy and agreement of exported files."""

import numpy as np

from benchmarks.serving import deployment


def test_exports_are_measured_on_the_same_images():
    def model(classes):
        return deployment.Model(
            2500,
            lambda images: [3 * image for image in images],
            lambda fed: np.eye(3)[classes[fed]],
        )

    images, labels = [np.array(value) for value in range(4)], np.array([0, 1, 2, 2])
    right, other = {0: 0, 3: 1, 6: 2, 9: 2}, {0: 0, 3: 2, 6: 2, 9: 1}

    class ByNumber(dict):
        def __getitem__(self, fed):
            return super().__getitem__(int(fed))

    rows = deployment.measure(
        {'first': model(ByNumber(right)), 'second': model(ByNumber(other))}, images, labels
    )
    assert [row['accuracy'] for row in rows.values()] == [1.0, 0.5]
    assert [row['agreement'] for row in rows.values()] == [1.0, 0.5]
    assert rows['second']['kB'] == 2.5
    assert 0 < rows['second']['least_ms'] <= rows['second']['median_ms']
