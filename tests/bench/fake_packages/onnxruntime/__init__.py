"""Stands for an installation without ONNX Runtime."""

raise ImportError("No module named 'onnxruntime'")
