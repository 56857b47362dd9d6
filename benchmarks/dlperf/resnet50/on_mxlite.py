"""ResNet-50 v1.5 on mxlite: ``resnet50_v1b`` of the model zoo."""

import mxlite as mx
import peer_values

from . import on_gluon


def _horovod():
    import mxlite.horovod as hvd

    return hvd


def prepare(spec, variant):
    """Return the training; the network's parameters depend on their names only.

    Parameters
    ----------
    spec : dict
        Content of the file that measure.py writes.
    variant : str
        Only ``"hybrid"``.

    Returns
    -------
    on_gluon.Training
        Ready for its first step.
    """
    size = spec["case"]["size"]
    net = mx.gluon.model_zoo.vision.get_model(spec["network"])
    net.initialize()
    net.infer_shape(mx.nd.zeros((1, 3, size, size)))
    for name, parameter in net._collect_params_with_prefix().items():
        parameter.set_data(mx.nd.array(peer_values.parameter(name, parameter.shape)))
    return on_gluon.Training(mx, net, spec, _horovod)
