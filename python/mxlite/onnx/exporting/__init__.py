"""Export to ONNX: a table of converters, one file for each family of operators."""
