"""DeepLab: backbones, pyramid pooling, decoders, heads."""
