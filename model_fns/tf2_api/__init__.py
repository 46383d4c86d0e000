"""The API of the Object Detection API's TensorFlow 2 loop, for programs written against it."""
