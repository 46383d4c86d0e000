"""Average precision and F1 of images with several labels, beside plain NumPy versions."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.classification import multi_label_metrics

tf1 = tf.compat.v1


def accumulate(logits, labels, batch_size=7):
    """Accumulate batches, and return the metrics."""
    with tf.Graph().as_default(), tf1.Session() as session:
        feeds = [tf1.placeholder(tf.float32, [None, logits.shape[1]]) for _ in range(2)]
        metrics = multi_label_metrics.create_metrics(*feeds)
        session.run(tf1.local_variables_initializer())
        value, update = metrics[multi_label_metrics.SCORES]
        for start in range(0, len(logits), batch_size):
            part = slice(start, start + batch_size)
            session.run(update, {feeds[0]: logits[part], feeds[1]: labels[part]})
        return multi_label_metrics.finish({multi_label_metrics.SCORES: session.run(value)})


def slow_ap(scores, labels):
    """Mean over the labeled images of the precision among the scores from theirs on."""
    found = [(labels[scores >= score]).mean() for score in scores[labels > 0]]
    return float(np.mean(found))


def slow_f1(logits, labels):
    said = logits >= 0
    right = np.sum(said & (labels > 0))
    wrong, missed = np.sum(said & (labels == 0)), np.sum(~said & (labels > 0))
    return 2 * right / (2 * right + wrong + missed)


def test_metrics_are_those_of_plain_versions():
    random = np.random.RandomState(1)
    labels = (random.rand(60, 4) < [0.5, 0.2, 0.8, 0]).astype(np.float32)
    # Scores that are far enough apart for bins of their own.
    logits = (random.permutation(240).reshape(60, 4) / 10 - 12.05 + labels * 2).astype(np.float32)
    metrics = accumulate(logits, labels)
    for index in range(3):
        ap = slow_ap(logits[:, index], labels[:, index])
        assert metrics[f'AP_class_{index}'] == pytest.approx(ap, abs=1e-6)
        f1 = slow_f1(logits[:, index], labels[:, index])
        assert metrics[f'F1_class_{index}'] == pytest.approx(f1)
    assert 'AP_class_3' not in metrics and 'F1_class_3' not in metrics
    mean = np.mean([metrics[f'AP_class_{index}'] for index in range(3)])
    assert metrics['mAP'] == pytest.approx(mean)
    assert metrics['F1_micro'] == pytest.approx(slow_f1(logits, labels))
    assert set(metrics) <= set(multi_label_metrics.metric_names(4))


def test_the_exact_mean_is_within_the_bound():
    random = np.random.RandomState(2)
    labels = (random.rand(400, 3) < [0.5, 0.1, 0.9]).astype(np.float32)
    # Three scores in each bin.
    logits = (random.permutation(1200).reshape(400, 3) / 300 + labels * 0.1).astype(np.float32)
    metrics = accumulate(logits, labels)
    exact = np.mean([slow_ap(logits[:, index], labels[:, index]) for index in range(3)])
    assert metrics['mAP'] != exact
    assert 0 < abs(metrics['mAP'] - exact) <= metrics['mAP_bound'] < 0.01


def test_the_bound_by_hand():
    # One bin has an image without and two with the label.
    metrics = accumulate(np.ones([3, 1], np.float32), np.array([[0], [1], [1]], np.float32))
    assert metrics['mAP'] == pytest.approx(2 / 3)
    assert metrics['mAP_bound'] == pytest.approx(1 - 2 / 3)


def test_by_hand():
    logits = np.array([[3, -1], [2, 5], [1, -30], [-1, np.nan]], np.float32)
    labels = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], np.float32)
    metrics = accumulate(logits, labels)
    assert metrics['AP_class_0'] == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert metrics['F1_class_0'] == pytest.approx(2 * 2 / (3 + 3))
    assert (metrics['AP_class_1'], metrics['F1_class_1']) == (1, 1)


def test_without_labels_there_is_no_mean():
    metrics = accumulate(np.zeros([3, 2], np.float32), np.zeros([3, 2], np.float32))
    assert metrics == {'F1_micro': 0.0}
