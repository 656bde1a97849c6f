# SPDX-License-Identifier: Apache-2.0
"""Arrays of libcustody as NumPy arrays (and PyTorch tensors, where PyTorch and a GPU are),
and the other way round, by DLPack: the same bytes, no copy, and each side frees its own.

    python3 dlpack_numpy.py ./dlpack_numpy.so
"""
import ctypes
import gc
import sys

import numpy

NEW, OLD = b"dltensor_versioned", b"dltensor"
CPU, CUDA, CUDA_HOST = 1, 2, 3

library = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "./dlpack_numpy.so")
library.why.restype = ctypes.c_char_p
python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = ctypes.py_object, ctypes.c_char_p
python.PyCapsule_SetName.argtypes = ctypes.py_object, ctypes.c_char_p
USED = b"used_dltensor"  # a capsule keeps the address of its name


def must(result):
    if result:
        raise RuntimeError(f"libcustody: {library.why(result).decode()} ({result})")


class Given:
    """An array of libcustody, as a Python object that speaks DLPack; to be taken once."""

    def __init__(self, rows, columns, on_device):
        self.on_device = on_device
        self.tensor = ctypes.c_void_p()
        must(library.give(ctypes.c_size_t(rows), ctypes.c_size_t(columns), on_device,
                          ctypes.byref(self.tensor)))

    def __dlpack_device__(self):
        return (CUDA if self.on_device else CUDA_HOST), 0

    def __dlpack__(self, **wishes):
        del wishes  # a stream to wait for: give() has waited; a version: it is 1.0
        return python.PyCapsule_New(self.tensor, NEW, None)


def take(array):
    """The sum of a float32 array that speaks DLPack, made by way of the device."""
    capsule = array.__dlpack__()
    total = ctypes.c_double()
    must(library.take(ctypes.c_void_p(python.PyCapsule_GetPointer(capsule, OLD)),
                      ctypes.byref(total)))
    python.PyCapsule_SetName(capsule, USED)  # libcustody has called the deleter
    return total.value


def with_numpy():
    array = numpy.from_dlpack(Given(20, 50, on_device=False))
    assert array.shape == (20, 50) and array.dtype == numpy.float32
    assert (array.ravel() == numpy.arange(1000)).all()
    print(f"numpy       has {array.nbytes} bytes of page-locked memory, read in place")
    del array
    gc.collect()
    total = take(numpy.arange(100, dtype=numpy.float32))
    assert total == 4950, total
    print(f"custody     has summed NumPy's array: {total:.0f}")


def with_torch(torch):
    tensor = torch.from_dlpack(Given(20, 50, on_device=True))
    assert tensor.is_cuda and float(tensor.sum()) == 499500
    print("torch       has summed an array of the device, in place")
    assert take(torch.arange(100, dtype=torch.float32, device="cuda")) == 4950
    print("custody     has summed PyTorch's tensor: 4950")


with_numpy()
try:
    import torch as pytorch
except ImportError:
    pytorch = None
if pytorch and pytorch.cuda.is_available():
    with_torch(pytorch)
