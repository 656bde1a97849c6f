# SPDX-License-Identifier: Apache-2.0
"""A Python program that uses the driver by ctypes; prints what the trace must hold."""
import ctypes

BYTES = 10000

cuda = ctypes.CDLL("libcuda.so.1")
address = ctypes.c_uint64()
context = ctypes.c_void_p()
there = ctypes.create_string_buffer(bytes(i % 251 for i in range(BYTES)), BYTES)
back = ctypes.create_string_buffer(BYTES)


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)


call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(BYTES))
call("cuMemcpyHtoD_v2", address, there, ctypes.c_size_t(BYTES))
call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(BYTES - 1))
call("cuMemFree_v2", address)
assert back.raw[: BYTES - 1] == there.raw[: BYTES - 1]
print(f"H2D {BYTES} D2H {BYTES - 1} device {BYTES}")
