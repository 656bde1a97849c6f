# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own Python bindings at work; prints what the trace must hold.

Lines: "alloc KIND BYTES FUNCTION FUNCTION-OF-ITS-FREE", "transfer KIND BYTES FUNCTION
CAPTURED", "call FUNCTION COUNT ERRORS"; functions without the version of their symbol.
"""
import collections

from cuda.bindings import driver

# What the bindings call by another name.
SYMBOLS = {"cuGraphInstantiate": "cuGraphInstantiateWithFlags"}
GOOD = driver.CUresult.CUDA_SUCCESS

calls = collections.Counter()
errors = collections.Counter()


def attempt(name, *arguments):
    symbol = SYMBOLS.get(name, name)
    result, *values = getattr(driver, name)(*arguments)
    calls[symbol] += 1
    errors[symbol] += result != GOOD
    return result, values[0] if len(values) == 1 else values


def call(name, *arguments):
    result, value = attempt(name, *arguments)
    assert result == GOOD, (name, result)
    return value


def allocate(kind, size, name, end, *arguments):
    print(f"alloc {kind} {size} {name} {end}")
    return call(name, *arguments)


def move(kind, size, name, *arguments, captured=0):
    print(f"transfer {kind} {size} {name} {captured}")
    call(name, *arguments)


def copy_both_ways(there):
    block = allocate("device", 10000, "cuMemAlloc", "cuMemFree", 10000)
    back = bytearray(10000)
    move("H2D", 9000, "cuMemcpyHtoD", block, there, 9000)
    move("D2H", 8000, "cuMemcpyDtoH", back, int(block) + 100, 8000)
    assert back[:8000] == there[100:8100]
    other = allocate("device", 5000, "cuMemAlloc", "cuMemFree", 5000)
    move("D2D", 4000, "cuMemcpyDtoD", other, block, 4000)
    move("MEMSET", 999, "cuMemsetD8", other, 7, 999)
    move("D2H", 2000, "cuMemcpyDtoH", back, other, 2000)
    assert back[:999] == b"\7" * 999 and back[999:2000] == there[999:2000]
    assert attempt("cuMemFree", 12345)[0] != GOOD
    call("cuMemFree", other)
    call("cuMemFree", block)


def work_in_a_stream(there):
    stream = call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    begin, end = (call("cuEventCreate", 0) for _ in range(2))
    pinned = allocate("pinned", 6000, "cuMemHostAlloc", "cuMemFreeHost", 6000, 0)
    block = allocate("pool", 6000, "cuMemAllocAsync", "cuMemFreeAsync", 6000, stream)
    call("cuEventRecord", begin, stream)
    move("H2D", 6000, "cuMemcpyHtoDAsync", block, there, 6000, stream)
    move("MEMSET", 500 * 4, "cuMemsetD32Async", block, 1, 500, stream)
    move("D2H", 6000, "cuMemcpyDtoHAsync", pinned, block, 6000, stream)
    call("cuEventRecord", end, stream)
    call("cuEventSynchronize", end)
    assert call("cuEventElapsedTime", begin, end) >= 0
    call("cuMemFreeAsync", block, stream)
    call("cuStreamSynchronize", stream)
    call("cuMemFreeHost", pinned)
    for event in begin, end:
        call("cuEventDestroy", event)
    return stream


def launch_a_graph(stream, there):
    block = allocate("device", 3000, "cuMemAlloc", "cuMemFree", 3000)
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    call("cuStreamBeginCapture", stream, mode)
    move("MEMSET", 700, "cuMemsetD8Async", block, 3, 700, stream, captured=1)
    move("H2D", 1100, "cuMemcpyHtoDAsync", int(block) + 1000, there, 1100, stream, captured=1)
    graph = call("cuStreamEndCapture", stream)
    execution = call("cuGraphInstantiate", graph, 0)
    for _ in range(2):
        call("cuGraphLaunch", execution, stream)
        print("transfer MEMSET 700 cuGraphLaunch 0\ntransfer H2D 1100 cuGraphLaunch 0")
    call("cuStreamSynchronize", stream)
    back = bytearray(3000)
    move("D2H", 3000, "cuMemcpyDtoH", back, block, 3000)
    assert back[:700] == b"\3" * 700 and back[1000:2100] == there[:1100]
    call("cuGraphExecDestroy", execution)
    call("cuGraphDestroy", graph)
    call("cuMemFree", block)


def main():
    there = bytes(number % 251 for number in range(10000))
    call("cuInit", 0)
    device = call("cuDeviceGet", 0)
    context = call("cuDevicePrimaryCtxRetain", device)
    call("cuCtxSetCurrent", context)
    copy_both_ways(there)
    stream = work_in_a_stream(there)
    launch_a_graph(stream, there)
    call("cuStreamDestroy", stream)
    call("cuDevicePrimaryCtxRelease", device)
    for name, count in calls.items():
        print(f"call {name} {count} {errors[name]}")


main()
