#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DLPack between libcustody and NumPy, in the versioned form and in the old one.

Run by test_numpy.sh, which says where the libraries are.
"""
import ctypes
import gc
import os
import sys
import unittest
import weakref

import numpy

CUDA_HOST, CPU = 3, 1
INVALID = -1


class Type(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("item_bytes", ctypes.c_uint32)]


class Layout(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("ndim", ctypes.c_int),
                ("shape", ctypes.c_size_t * 8), ("has_strides", ctypes.c_bool),
                ("strides", ctypes.c_ssize_t * 8), ("order", ctypes.c_int), ("type", Type)]

    def __init__(self, *shape, kind="i", item_bytes=4, order="C"):
        super().__init__(size=ctypes.sizeof(Layout), ndim=len(shape), order=ord(order),
                         type=Type(ord(kind), item_bytes))
        self.shape[:len(shape)] = shape


custody = ctypes.CDLL(os.environ["CUSTODY_LIBRARY"])
custody.custody_error_detail.restype = ctypes.c_char_p
for name in ("pointer", "host_pointer"):
    getattr(custody, "custody_array_" + name).restype = ctypes.c_void_p

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

NEW, OLD = b"dltensor_versioned", b"dltensor"
HAS_NEW = tuple(int(part) for part in numpy.__version__.split(".")[:2]) >= (2, 1)


def call(function, *arguments, error=0):
    result = getattr(custody, "custody_" + function)(*arguments)
    if result != error:
        raise AssertionError(f"{function} is {result}: {custody.custody_error_detail()}")


def make(function, *arguments):
    made = ctypes.c_void_p()
    call(function, *arguments, ctypes.byref(made))
    return made


class Exporter:
    """An array of libcustody's as an object that others import."""

    def __init__(self, array, device, form):
        self.array, self.device, self.form = array, device, form

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, **_):
        function = "array_to_dlpack" if self.form == NEW else "array_to_old_dlpack"
        return api.PyCapsule_New(make(function, self.array, None), self.form, None)


def take(context, array, form):
    """An array of libcustody's over the memory of one of NumPy's."""
    capsule = array.__dlpack__(max_version=(1, 0)) if form == NEW else array.__dlpack__()
    tensor = ctypes.c_void_p(api.PyCapsule_GetPointer(capsule, form))
    function = "array_from_dlpack" if form == NEW else "array_from_old_dlpack"
    made = make(function, context, tensor, None)
    # The name is only looked at, and has to stay where it is.
    api.PyCapsule_SetName(capsule, USED[form])
    return made


USED = {form: ctypes.c_char_p(b"used_" + form) for form in (NEW, OLD)}


class Case(unittest.TestCase):
    form = OLD

    def setUp(self):
        device = make("device_get", 0)
        self.context = make("context_of_device", device)

    def make_pinned(self, layout):
        array = ctypes.c_void_p()
        call("array_create_pinned", self.context, ctypes.byref(layout), 0, ctypes.byref(array))
        return array

    def test_pinned_array_is_seen_by_numpy_without_a_copy(self):
        array = self.make_pinned(Layout(4, 6))
        seen = numpy.from_dlpack(Exporter(array, CUDA_HOST, self.form))
        self.assertEqual(seen.shape, (4, 6))
        self.assertEqual(seen.dtype, numpy.int32)
        self.assertEqual(seen.ctypes.data, custody.custody_array_host_pointer(array))
        ctypes.memset(seen.ctypes.data, 0, 96)
        value = ctypes.c_int32(7)
        call("array_fill", array, ctypes.byref(value), None)
        self.assertTrue((seen == 7).all())
        call("array_destroy", array)

    def test_memory_outlives_the_array_while_numpy_looks_at_it(self):
        array = self.make_pinned(Layout(1000))
        value = ctypes.c_int32(5)
        call("array_fill", array, ctypes.byref(value), None)
        seen = numpy.from_dlpack(Exporter(array, CUDA_HOST, self.form))
        call("array_destroy", array)
        self.assertEqual(self.pending(), 0)
        self.assertEqual(int(seen.sum()), 5000)
        del seen
        gc.collect()
        self.assertEqual(self.pending(), 1)
        call("flush", self.context, True)

    def test_f_order_and_strides_are_what_numpy_sees(self):
        array = self.make_pinned(Layout(3, 5, kind="f", item_bytes=8, order="F"))
        seen = numpy.from_dlpack(Exporter(array, CUDA_HOST, self.form))
        self.assertTrue(seen.flags.f_contiguous)
        self.assertEqual(seen.strides, (8, 24))
        view = ctypes.c_void_p()
        call("array_slice", array, 1, ctypes.c_size_t(0), ctypes.c_size_t(5),
             ctypes.c_ssize_t(2), ctypes.byref(view))
        seen = numpy.from_dlpack(Exporter(view, CUDA_HOST, self.form))
        self.assertEqual(seen.strides, (8, 48))
        call("array_destroy", view)
        call("array_destroy", array)

    def test_memory_of_numpy_is_taken_over_and_let_go(self):
        source = numpy.arange(24, dtype=numpy.float64).reshape(4, 6)[1:, ::2]
        gone = weakref.ref(source)
        array = take(self.context, source, self.form)
        self.assertEqual(custody.custody_array_pointer(array), source.ctypes.data)
        layout = Layout()
        call("array_layout", array, ctypes.byref(layout))
        self.assertEqual(tuple(layout.shape[:2]), (3, 3))
        self.assertEqual(tuple(layout.strides[:2]), (48, 16))
        del source
        gc.collect()
        self.assertIsNotNone(gone())
        call("array_destroy", array)
        gc.collect()
        self.assertIsNone(gone())

    def test_memory_of_numpy_goes_to_the_device_and_back(self):
        source = numpy.arange(1000, dtype=numpy.int32)
        array = take(self.context, source, self.form)
        device = make("array_create", self.context, ctypes.byref(Layout(1000)), None, None)
        call("array_copy", device, array, None)
        source[:] = 0
        call("array_copy", array, device, None)
        self.assertEqual(int(source.sum()), 499500)
        call("array_destroy", device)
        call("array_destroy", array)

    def test_types_are_the_same_on_both_sides(self):
        for dtype in "?bhilBHILefdFD":
            source = numpy.zeros(3, dtype)
            array = take(self.context, source, self.form)
            self.assertEqual(numpy.from_dlpack(Exporter(array, CPU, self.form)).dtype,
                             source.dtype)
            call("array_destroy", array)

    def pending(self):
        class Pending(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("counts", ctypes.c_uint64 * 6)]

        pending = Pending(size=ctypes.sizeof(Pending))
        call("pending", self.context, ctypes.byref(pending))
        return pending.counts[0]


@unittest.skipUnless(HAS_NEW, "this NumPy knows the old form only")
class VersionedCase(Case):
    form = NEW

    def test_read_only_memory_of_numpy_is_not_written(self):
        source = numpy.arange(24, dtype=numpy.int32)
        source.flags.writeable = False
        array = take(self.context, source, NEW)
        value = ctypes.c_int32(7)
        call("array_fill", array, ctypes.byref(value), None, error=INVALID)
        seen = numpy.from_dlpack(Exporter(array, CPU, NEW))
        self.assertFalse(seen.flags.writeable)
        call("array_destroy", array)


if __name__ == "__main__":
    unittest.main(verbosity=0, argv=[sys.argv[0]])
