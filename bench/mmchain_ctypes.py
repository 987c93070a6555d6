"""The C interface, as thin as ctypes makes it, for the benches in Python and a test."""

import ctypes

HOST, DEVICE = 0, 1
NO_LIMIT = 2**64 - 1


class Matrix(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("cols", ctypes.c_int64),
        ("ld", ctypes.c_int64),
        ("layout", ctypes.c_int),
        ("location", ctypes.c_int),
        ("stride", ctypes.c_int64),
        ("addresses", ctypes.c_void_p),
    ]


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("solver", ctypes.c_char_p),
        ("device", ctypes.c_char_p),
        ("memory_limit_bytes", ctypes.c_uint64),
        ("objective", ctypes.c_char_p),
        ("precision", ctypes.c_char_p),
        ("location", ctypes.c_int),
        ("device_memory_bytes", ctypes.c_uint64),
        ("fuse", ctypes.c_char_p),
        ("on_chip_words", ctypes.c_int64),
        ("max_slowdown", ctypes.c_double),
        ("kernel", ctypes.c_char_p),
    ]

    def __init__(self, **fields):
        super().__init__(
            size=ctypes.sizeof(PlanOptions),
            memory_limit_bytes=NO_LIMIT,
            device_memory_bytes=NO_LIMIT,
            **fields,
        )


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.context = ctypes.c_void_p()
        self.check(self.c.mmc_context_create(None, ctypes.byref(self.context)))

    def check(self, status):
        if status != 0:
            text = ctypes.create_string_buffer(512)
            if self.context:
                self.c.mmc_context_message(self.context, text, ctypes.c_size_t(len(text)))
            raise RuntimeError(f"mmchain status {status}: {text.value.decode()}")

    def prepare(self, text, **options):
        """Chain, plan and run for the text form of a chain."""
        chain, plan, run = (ctypes.c_void_p() for _ in range(3))
        self.check(self.c.mmc_chain_parse(self.context, text, ctypes.byref(chain)))
        given = ctypes.byref(PlanOptions(**options)) if options else None
        self.check(self.c.mmc_plan_create(self.context, chain, given, ctypes.byref(plan)))
        self.check(self.c.mmc_run_create(plan, ctypes.byref(run)))
        return chain, plan, run

    def release(self, handles):
        chain, plan, run = handles
        self.c.mmc_run_destroy(run)
        self.c.mmc_plan_destroy(plan)
        self.c.mmc_chain_destroy(chain)
