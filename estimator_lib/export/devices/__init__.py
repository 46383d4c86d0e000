"""Files for small devices: the static graph of a network as TFLite and ONNX."""
