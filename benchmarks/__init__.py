"""Measurements that the documentation quotes, as commands: a folder for each subject."""

import os

# Tables, without lines of TensorFlow's build: this is read when TensorFlow is first imported.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
