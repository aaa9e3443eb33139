"""Trained models in files: a folder to load again, with its backbone where it has one, and ONNX.

May import `experiment` and all below it.
"""
