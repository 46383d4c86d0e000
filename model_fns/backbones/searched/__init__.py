"""Networks from architecture search: NASNet, PNASNet, those of DeepLab."""
