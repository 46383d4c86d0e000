"""Adam with decoupled weight decay."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


class AdamWOptimizer(tf1.train.AdamOptimizer):
    """Adam whose weight decay is not part of the gradient.

    Each step computes `w -= rate * weight_decay * w`, and then Adam's update (Loshchilov and Hutter
    2019, "Decoupled Weight Decay Regularization", algorithm 2, with the schedule as the rate).

    Variables of at most one dimension do not decay: biases, and the scales and offsets of
    normalization. The slots are those of Adam, so either optimizer resumes a run of the other one.

    Args:
        learning_rate: float32 scalar.
        weight_decay: the decay in a step at a learning rate of 1, at least 0.
        **arguments: those of `tf.compat.v1.train.AdamOptimizer`.
    """

    def __init__(self, learning_rate: Any, *, weight_decay: float, **arguments: Any):
        super().__init__(learning_rate, **arguments)
        self._weight_decay = weight_decay

    # Four methods, because the base class has one for each kind of variable and of gradient, and no
    # method that all of them call.
    def _apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decay(var, grad)):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decay(var, grad)):
            return super()._resource_apply_dense(grad, var)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        # All rows decay, as with a dense gradient, not only those that the gradient has.
        with tf.control_dependencies(self._decay(var, grad.values)):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        with tf.control_dependencies(self._decay(var, grad)):
            return super()._resource_apply_sparse(grad, var, indices)

    def decays(self, variable: tf.Variable) -> bool:
        """Return whether a variable decays."""
        # "No bias decay" of He et al. 2019, "Bag of Tricks for Image Classification with
        # Convolutional Neural Networks", section 3.1.
        return bool(variable.shape.rank > 1 and self._weight_decay)

    def _decay(self, variable: tf.Variable, gradient: tf.Tensor) -> list:
        """Return the ops that shrink a variable once its gradient has been computed."""
        if not self.decays(variable):
            return []
        with tf.control_dependencies([gradient]):
            rate = tf.cast(self._lr_t, variable.dtype.base_dtype) * self._weight_decay
            # The value is read after the gradient, whose update waits for this op.
            return [tf1.assign_sub(variable, rate * variable.read_value())]
