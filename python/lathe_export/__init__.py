"""PyTorch to ONNX, for `lathe export`. Started as `python -m lathe_export`; see __main__.py."""
