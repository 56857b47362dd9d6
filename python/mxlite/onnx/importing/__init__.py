"""Import of ONNX: a table of converters from nodes to symbols."""
