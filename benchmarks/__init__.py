"""What is claimed about speed, as commands."""

import os

# Tables, without lines of TensorFlow's build: this is read when TensorFlow is first imported.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
