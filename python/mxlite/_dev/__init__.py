"""Tools for developers of mxlite: generators of stubs and documentation."""
