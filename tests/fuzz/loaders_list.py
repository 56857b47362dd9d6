"""Names of the targets of loaders.py, for scripts that do not import mxlite."""

LOADERS = (
    "params_file npz safetensors states own_states objects checkpoint idx index records image"
    " embedding model symbol predictor tools torch"
).split()
