"""The toy task with an analysis: each point is as bad as its distance from the line."""

import numpy as np

from estimator_lib.analysis import plots
from estimator_lib.analysis.parts import ExampleError, Figure, Finding, Section, Table, Tile
from estimator_lib.task import IMAGE, DataChecks
from estimator_lib.task_interfaces.analysis import Analysis, Analyzer
from tests.estimator_lib.line_task import Line
from tests.estimator_lib.tiny_task import Presented


class LineAnalyzer(Analyzer):
    def __init__(self):
        self._errors = []

    def fetches(self, features, outputs, labels):
        return {'error': labels['y'] - outputs['y']}

    def drawn(self, features, outputs, labels):
        return features, {'y': outputs['y']}, labels

    def add(self, arrays):
        error = abs(float(arrays['error']))
        self._errors.append(error)
        return Finding(error, [ExampleError('early', 'line', score=error)])

    def finish(self, metrics):
        distances = Figure(
            'distances', 'Distances', lambda figure: plots.bars(figure, {'a': 1.0}, 'points')
        )
        rows = [(f'point {index}', error) for index, error in enumerate(self._errors)]
        table = Table(
            'points', 'Points <&>', ['point', 'error'], [*rows, ('none', None)], 'A note.'
        )
        tile = Tile('error', f'{metrics["error"]:.3g}', 'of all')
        return [Section('Points', [distances, table], 'All points.', [tile])]

    def late_errors(self, number):
        return [ExampleError('late', 'line', note=f'number {number}')] if number % 2 else []


class LineChecks(DataChecks):
    def examine(self, serialized):
        return 1

    def label_figures(self, examined):
        counts = {name: float(len(values)) for name, values in examined.items()}
        return [Figure('records', 'Records', lambda figure: plots.bars(figure, counts, 'records'))]


class AnalyzedLine(Presented, Line):
    analysis = Analysis(LineAnalyzer)
    checks = LineChecks()

    def draw(self, features, outputs, labels=None, shown=None):
        value = np.clip(float(np.ravel(features[IMAGE])[0]) * 50, 0, 255)
        return np.full([40, 60, 3], value, np.uint8)
