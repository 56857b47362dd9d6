"""The small modules that scripts import: base, util, context, libinfo, log, error, name."""

import ctypes
import logging
import os
from concurrent.futures import ThreadPoolExecutor

import mxlite as mx
import numpy as np
import pytest
from numpy.testing import assert_raises_regex


def test_type_tuples_of_base():
    assert isinstance("x", mx.base.string_types)
    assert isinstance(3, mx.base.numeric_types) and isinstance(np.float16(1), mx.base.numeric_types)
    assert isinstance(np.int64(3), mx.base.integer_types)
    assert not isinstance(3.0, mx.base.integer_types)
    assert mx.base.mx_real_t is np.float32


def test_c_helpers_of_base():
    assert list(mx.base.c_array(mx.base.mx_uint, [1, 2])) == [1, 2]
    assert mx.base.py_str(mx.base.c_str("grün").value) == mx.base.py_str("grün") == "grün"
    assert list(mx.base.c_str_array(["a", "b"])) == [b"a", b"b"]
    values = (ctypes.c_float * 6)(*range(6))
    pointer = ctypes.cast(values, mx.base.mx_float_p)
    shared = mx.base.ctypes2numpy_shared(pointer, (2, 3))
    assert shared.tolist() == [[0, 1, 2], [3, 4, 5]]
    shared[0, 0] = 9
    assert values[0] == 9
    assert_raises_regex(TypeError, "pointer to float", mx.base.ctypes2numpy_shared, values, (6,))
    text = ctypes.create_string_buffer(b"abc")
    assert mx.base.ctypes2buffer(ctypes.cast(text, ctypes.POINTER(ctypes.c_char)), 2) == b"ab"


def test_a_name_of_the_c_library_that_is_missing_names_itself():
    assert not hasattr(mx.base, "MXCallbackList")
    text = r"mx\.base\.MXCallbackList"
    assert_raises_regex(mx.base.NotSupportedError, text, getattr, mx.base, "MXCallbackList")


def test_not_given_is_false_and_prints_its_name():
    assert not mx.base._Null and repr(mx.base._Null) == "_Null"
    assert mx.base._as_list(3) == [3] and mx.base._as_list((3,)) == (3,)


def test_class_properties_and_meta_classes():
    class Meta(type):
        pass

    class Thing(mx.base.with_metaclass(Meta)):
        @mx.base.classproperty
        def kind(cls):
            return cls.__name__

    assert Thing.kind == "Thing" and Thing().kind == "Thing" and type(Thing) is Meta


def test_errors_for_symbols_and_sparse_arrays_name_function_and_classes():
    error = mx.base.NotImplementedForSymbol(len, "size", 3)
    assert isinstance(error, mx.MXNetError) and isinstance(error, NotImplementedError)
    assert "len" in str(error) and "size" in str(error) and "int" in str(error)
    assert "SparseNDArray" in str(mx.base.NotSupportedForSparseNDArray(len, None, 3))


def test_error_classes_are_registered_by_name():
    @mx.error.register
    class MyError(mx.MXNetError):
        pass

    try:
        assert mx.base.error_types["MyError"] is MyError
        assert mx.base.c2pyerror("MyError: text") == ("MyError: text", "MyError")
        assert mx.base.c2pyerror("text without a class")[1] is None
        assert mx.base.error_types["InternalError"] is mx.error.InternalError
    finally:
        del mx.base.error_types["MyError"]


def test_parameter_documentation():
    text = mx.base.build_param_doc(["a", "b", "a"], ["int", "str", "int"], ["first", "", "again"])
    assert text == "Parameters\n----------\na : int\n    first\nb : str\n"


def test_numpy_mode_is_a_switch_of_the_process_and_scopes_are_of_the_thread():
    def states():
        return mx.is_np_shape(), mx.is_np_array()

    assert states() == (False, False) and mx.util.is_np_default_dtype() is False
    mx.npx.set_np()
    try:
        assert states() == (True, True) == in_thread(states)
        with mx.np_array(False):
            assert states() == (True, False) and in_thread(states) == (True, True)
        with mx.np_shape(False), pytest.raises(RuntimeError), mx.np_array(False):
            assert states() == (False, False)
            raise RuntimeError
        assert states() == (True, True)
        mx.util.set_np(array=False)
        assert states() == (True, False) == in_thread(states)
    finally:
        mx.npx.reset_np()
    assert states() == (False, False) == in_thread(states)
    assert mx.util.use_np(states)() == (True, True) and mx.util.use_np_array(states)() == (
        False,
        True,
    )
    assert_raises_regex(ValueError, "shape must be True", mx.util.set_np, shape=False)


def test_numpy_shapes_are_a_switch_of_the_thread():
    assert not mx.is_np_shape() and mx.set_np_shape(True) is False
    try:
        assert mx.is_np_shape() and mx.set_np_shape(False) is True and not mx.is_np_shape()
        with mx.np_shape():
            with mx.np_shape(False):
                assert not mx.is_np_shape()
            assert mx.is_np_shape() and not in_thread(mx.is_np_shape)
        assert not mx.is_np_shape()
        mx.set_np_shape(2)
        assert mx.is_np_shape() and in_thread(mx.is_np_shape)
    finally:
        mx.set_np_shape(False)
    assert not mx.is_np_shape() and not in_thread(mx.is_np_shape)


def in_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_functions_and_methods_decorated_for_numpy_shapes_have_them_on():
    @mx.use_np_shape
    def shapes_on():
        """Its text."""
        return mx.is_np_shape()

    @mx.use_np_shape
    class Asked:
        value = 3

        def __init__(self):
            self.at_start = mx.is_np_shape()

        @property
        def now(self):
            return mx.is_np_shape()

        @staticmethod
        def static():
            return mx.is_np_shape()

    assert shapes_on() and shapes_on.__doc__ == "Its text." and shapes_on.__name__ == "shapes_on"
    assert Asked().at_start and Asked().now and Asked.static() and Asked.value == 3
    assert not mx.is_np_shape()
    assert mx.np_shape(False)(mx.is_np_shape)() is False


def test_classes_decorated_for_numpy_mode_switch_it_on():
    @mx.use_np
    class Asked:
        """Its text."""

        def now(self):
            return mx.is_np_shape() and mx.is_np_array()

    assert Asked().now() and Asked.__doc__ == "Its text." and not mx.is_np_array()
    assert_raises_regex(
        TypeError, "use_np_shape: func must be a function or class, got 3", mx.use_np_shape, 3
    )


def test_environment_variables(monkeypatch):
    monkeypatch.delenv("MXLITE_TEST_VALUE", raising=False)
    assert mx.util.getenv("MXLITE_TEST_VALUE") is None
    mx.util.setenv("MXLITE_TEST_VALUE", "1")
    assert os.environ["MXLITE_TEST_VALUE"] == mx.util.getenv("MXLITE_TEST_VALUE") == "1"
    mx.util.setenv("MXLITE_TEST_VALUE", None)
    assert "MXLITE_TEST_VALUE" not in os.environ


def test_gpu_questions_without_a_gpu():
    assert_raises_regex(ValueError, "must be a GPU", mx.util.get_cuda_compute_capability, mx.cpu())
    if mx.num_gpus() == 0:
        assert mx.util.get_gpu_count() == 0
        assert_raises_regex(
            mx.base.DeviceError, "one of 0 usable GPUs|0 GPUs", mx.util.get_gpu_memory, 0
        )
        with pytest.raises(mx.base.DeviceError, match="one of 0 usable GPUs|0 GPUs"):
            mx.util.get_cuda_compute_capability(mx.gpu(0))


def test_context_tables_and_default():
    assert mx.Context.devtype2str[mx.Context.devstr2type["cpu_pinned"]] == "cpu_pinned"
    assert mx.Context.default_ctx == mx.current_context()
    with mx.cpu(3):
        assert mx.Context.default_ctx == mx.cpu(3)
        mx.Context.default_ctx = mx.cpu(4)
        assert mx.current_context() == mx.nd.zeros(1).ctx == mx.cpu(4)
    assert mx.current_context() == mx.cpu(0)


def test_a_context_that_was_not_entered_cannot_be_left():
    with pytest.raises(ValueError, match=r"cpu\(2\) must be entered in this thread"):
        mx.cpu(2).__exit__()


def test_current_objects_may_be_assigned_per_thread():
    def assign():
        mx.Context.default_ctx = mx.cpu(7)
        mx.AttrScope.current = mx.AttrScope(group="a")
        mx.name.NameManager.current = manager = mx.name.NameManager()
        with mx.cpu(8):
            pass
        is_current = mx.name.NameManager.current is manager
        return mx.nd.zeros(1).ctx, mx.sym.Variable("x").attr("group"), is_current

    assert in_thread(assign) == (mx.cpu(7), "a", True)
    assert mx.current_context() == mx.cpu(0) and mx.sym.Variable("x").attr("group") is None


def test_current_name_manager_and_attribute_scope():
    with mx.name.Prefix("net_") as prefix:
        assert mx.name.NameManager.current is prefix
        assert mx.name.NameManager.current.get(None, "fc") == "net_fc0"
    with mx.AttrScope(lr_mult="2") as outer, mx.AttrScope(group="a"):
        assert mx.AttrScope.current.get({"group": "b"}) == {"lr_mult": "2", "group": "b"}
        assert mx.AttrScope.current is not outer
    assert mx.AttrScope.current.get(None) == {}


def test_library_paths():
    (path,) = mx.libinfo.find_lib_path()
    assert os.path.isfile(path)
    assert mx.libinfo.find_lib_path("libmxnet") == [path]
    assert os.path.isfile(os.path.join(mx.libinfo.find_include_path(), "mxnet/c_predict_api.h"))
    with pytest.raises(mx.base.NotSupportedError):
        mx.libinfo.find_conf_path()
    assert_raises_regex(mx.base.NotSupportedError, "CustomOp", mx.library.load, "lib.so")


def test_logger_prints_letter_time_process_and_place(tmp_path):
    path = tmp_path / "log.txt"
    logger = mx.log.get_logger("mxlite.test", str(path), level=mx.log.INFO)
    assert mx.log.get_logger("mxlite.test") is logger and len(logger.handlers) == 1
    logger.info("epoch %d", 3)
    logger.warning("late")
    logger.debug("not printed")
    logger.handlers[0].close()
    first, second = path.read_text().splitlines()
    assert first.startswith("I") and first.endswith("] epoch 3") and str(os.getpid()) in first
    assert second.startswith("W") and "test_modules.py" in second
    assert isinstance(mx.log.getLogger(), logging.RootLogger)


def test_module_aliases():
    assert mx.rnd is mx.random and mx.img is mx.image and mx.opt is mx.optimizer
    assert mx.nd.utils.load is mx.nd.load
    assert mx.contrib.nd is mx.contrib.ndarray is mx.nd.contrib
    assert mx.contrib.sym is mx.contrib.symbol is mx.sym.contrib
    # These classes are in other files than in 1.9.1.
    assert mx.gluon.nn.conv_layers.MaxPool2D is mx.gluon.nn.MaxPool2D
    from mxlite.optimizer.optimizer import SGD

    assert SGD is mx.optimizer.SGD


def test_features():
    features = mx.runtime.Features()
    assert features.is_enabled("mkldnn") and not features.is_enabled("TENSORRT")
    assert features.is_enabled("DIST_KVSTORE") and features is mx.runtime.Features()
    assert {f.name for f in mx.runtime.feature_list()} == set(features)
    assert_raises_regex(RuntimeError, "OPENCVV.*OPENCV", features.is_enabled, "OPENCVV")
