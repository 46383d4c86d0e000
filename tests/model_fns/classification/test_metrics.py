import numpy as np
import pytest
import tensorflow as tf

from model_fns.classification import metrics


def accumulate(batches, num_classes):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        logits = tf.compat.v1.placeholder(tf.float32, [None, num_classes])
        labels = tf.compat.v1.placeholder(tf.int64, [None])
        created = metrics.create_metrics(logits, labels, num_classes)
        session.run(tf.compat.v1.local_variables_initializer())
        for of_logits, of_labels in batches:
            session.run(
                [update for _, update in created.values()],
                {
                    logits: of_logits,
                    labels: of_labels,
                },
            )
        return session.run({name: value for name, (value, _) in created.items()})


def test_confusion_and_accuracies_by_hand():
    logits = np.eye(3, dtype=np.float32)
    # Labels 0, 0, 1 predicted as 0, 1, 1; then one more 0 predicted as 2. Class 2 never occurs.
    values = accumulate([(logits[[0, 1, 1]], [0, 0, 1]), (logits[[2]], [0])], 3)
    np.testing.assert_array_equal(values[metrics.CONFUSION], [[1, 1, 1], [0, 1, 0], [0, 0, 0]])
    assert metrics.finish(values) == {
        'accuracy': 0.5,
        'accuracy_class_0': pytest.approx(1 / 3),
        'accuracy_class_1': 1.0,
    }


def test_recall_at_5_only_with_more_than_five_classes():
    assert metrics.RECALL_5 not in accumulate([(np.eye(5)[[0]], [0])], 5)
    logits = np.arange(7, dtype=np.float32)[np.newaxis]  # the five largest: 2 to 6
    values = accumulate([(np.repeat(logits, 3, 0), [1, 2, 6])], 7)
    assert metrics.finish(values)['recall_5'] == pytest.approx(2 / 3)


def test_names_are_known_before_a_graph_is_built():
    values = accumulate([(np.eye(6)[[0, 1, 2, 3, 4, 5]], [0, 1, 2, 3, 4, 5])], 6)
    assert sorted(metrics.finish(values)) == sorted(metrics.metric_names(6))
