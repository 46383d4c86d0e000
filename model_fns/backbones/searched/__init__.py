"""Networks that architecture search has found: NASNet, PNASNet, those of DeepLab."""
