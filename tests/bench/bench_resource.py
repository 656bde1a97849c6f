# SPDX-License-Identifier: Apache-2.0
"""What bench_resource.c measures, of the allocators of PyTorch or CuPy: an allocation and
its free, on an idle device and with work in flight. The lines are the same ones. What
Python itself takes for such a pair of calls is the first of them.

    bench_resource.py torch|cupy [PAIRS [ROUNDS [MILLISECONDS [MOST_BYTES]]]]

Without the package, or a GPU, the status is 77.
"""
import statistics
import sys
from time import perf_counter_ns as now

SIZES = [256, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30]
IN_FLIGHT, WARM_UP, LEAST = 8, 3, 5
FIELD_BYTES = 512 << 20


class Nothing:
    """A pair of calls that does nothing."""
    name = "Python alone"

    def allocate(self, size):
        return size

    def release(self, pointer):
        pass

    def settle(self):
        pass


class Torch:
    name = "PyTorch"

    def __init__(self):
        import torch
        if not torch.cuda.is_available():
            raise ImportError("no GPU")
        self.torch = torch
        self.stream, self.beside = torch.cuda.Stream(), torch.cuda.Stream()
        self.field = torch.empty(FIELD_BYTES, dtype=torch.uint8, device="cuda")
        self.events = [torch.cuda.Event() for _ in range(IN_FLIGHT)]

    def allocate(self, size):
        return self.torch.cuda.caching_allocator_alloc(size, 0, self.stream)

    def release(self, pointer):
        self.torch.cuda.caching_allocator_delete(pointer)

    def settle(self):
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()

    def work(self, event):
        with self.torch.cuda.stream(self.beside):
            self.field.fill_(1)
            event.record(self.beside)

    @staticmethod
    def is_done(event):
        return event.query()


class CuPy:
    name = "CuPy"

    def __init__(self):
        import cupy
        if not cupy.is_available():
            raise ImportError("no GPU")
        self.cupy = cupy
        self.pool = cupy.get_default_memory_pool()
        self.beside = cupy.cuda.Stream(non_blocking=True)
        self.field = cupy.empty(FIELD_BYTES, dtype=cupy.uint8)
        self.events = [cupy.cuda.Event(disable_timing=True) for _ in range(IN_FLIGHT)]
        cupy.cuda.Stream(non_blocking=True).use()

    def allocate(self, size):
        return [self.pool.malloc(size)]

    def release(self, pointer):
        pointer.clear()

    def settle(self):
        self.cupy.cuda.Device().synchronize()
        self.pool.free_all_blocks()

    def work(self, event):
        self.field.data.memset_async(1, FIELD_BYTES, self.beside)
        event.record(self.beside)

    @staticmethod
    def is_done(event):
        return event.done


class Busy:
    """Some large memsets are under way whenever it has been called."""

    def __init__(self, package):
        self.package, self.next = package, 0

    def __call__(self):
        for _ in range(IN_FLIGHT):
            event = self.package.events[self.next]
            if not self.package.is_done(event):
                return
            self.package.work(event)
            self.next = (self.next + 1) % IN_FLIGHT


def time_round(allocator, size, busy, pairs, budget_ns, samples):
    allocate, release = allocator.allocate, allocator.release
    end = 0
    for i in range(-WARM_UP, pairs):
        if i == 0:
            end = now() + budget_ns
        if i >= LEAST and now() > end:
            break
        if busy:
            busy()
        begin = now()
        pointer = allocate(size)
        middle = now()
        release(pointer)
        last = now()
        if i >= 0:
            samples.append((last - begin, middle - begin, last - middle))
    allocator.settle()


def tell(allocator, size, busy, samples):
    pair, first, second = zip(*samples)
    figures = [len(samples), int(statistics.median(pair)), max(pair),
               int(statistics.median(first)), int(statistics.median(second))]
    print(allocator.name, size, "busy" if busy else "idle", *figures, sep="\t", flush=True)


def main():
    numbers = [int(word) for word in sys.argv[2:]]
    pairs, rounds, milliseconds, most = numbers + [200, 3, 60, 1 << 30][len(numbers):]
    try:
        package = {"torch": Torch, "cupy": CuPy}[sys.argv[1]]()
    except ImportError as error:
        print(f"bench_resource.py: {sys.argv[1]}: {error}", file=sys.stderr)
        return 77
    keep_busy = Busy(package)
    for size in [size for size in SIZES if size <= most]:
        for busy in None, keep_busy:
            samples = {allocator: [] for allocator in (Nothing(), package)}
            for _ in range(rounds):
                for allocator, kept in samples.items():
                    time_round(allocator, size, busy, pairs, milliseconds * 1000000, kept)
            for allocator, kept in samples.items():
                tell(allocator, size, busy, kept)
    return 0


sys.exit(main())
