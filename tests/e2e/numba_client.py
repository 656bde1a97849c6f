# SPDX-License-Identifier: Apache-2.0
"""Numba's arrays of the device, its streams and its page-locked memory, without kernels.

Prints what the trace must hold: "alloc KIND BYTES" and "transfer KIND BYTES FUNCTION".
Numba frees late, when it has gathered enough or is told to; here it is told.
"""
import gc

import numpy
from numba import cuda


def note(line, value=None):
    print(line)
    return value


def arrays():
    there = numpy.arange(10000, dtype=numpy.float32)
    note("alloc device 40000\ntransfer H2D 40000 cuMemcpyHtoD")
    full = cuda.to_device(there)
    note("transfer D2H 40000 cuMemcpyDtoH")
    assert (full.copy_to_host() == there).all()
    note("alloc device 20000")
    empty = cuda.device_array(5000, dtype=numpy.int32)
    note("transfer H2D 20000 cuMemcpyHtoD")
    empty.copy_to_device(numpy.full(5000, 11, dtype=numpy.int32))
    note("transfer D2H 400 cuMemcpyDtoH")
    assert (empty[100:200].copy_to_host() == 11).all()
    note("alloc device 40000\ntransfer D2D 40000 cuMemcpyDtoD")
    twin = cuda.device_array_like(full)
    twin.copy_to_device(full)
    note("transfer D2H 40000 cuMemcpyDtoH")
    assert (twin.copy_to_host() == there).all()


def streams():
    stream = cuda.stream()
    note("alloc pinned 3000")
    pinned = cuda.pinned_array(3000, dtype=numpy.uint8)
    pinned[:] = 7
    note("alloc device 3000\ntransfer H2D 3000 cuMemcpyHtoDAsync")
    there = cuda.to_device(pinned, stream=stream)
    back = numpy.zeros(3000, dtype=numpy.uint8)
    note("alloc registered 3000")
    with cuda.pinned(back):
        note("transfer D2H 3000 cuMemcpyDtoHAsync")
        there.copy_to_host(back, stream=stream)
        stream.synchronize()
    assert (back == 7).all()
    event = cuda.event()
    event.record(stream)
    event.synchronize()
    note("alloc pinned 800")
    mapped = cuda.mapped_array(100, dtype=numpy.int64)
    mapped[:] = 5
    note("alloc managed 512")
    managed = cuda.managed_array(64, dtype=numpy.float64)
    managed[:] = 1


def main():
    context = cuda.current_context()
    arrays()
    streams()
    gc.collect()
    context.memory_manager.deallocations.clear()
    cuda.synchronize()


main()
