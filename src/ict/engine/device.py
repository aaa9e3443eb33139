"""The device of a run: which one, whether the data fits into its memory, and torch's global settings."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import prod
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ict.base.errors import UserError, unknown
from ict.base.thread_lock import TORCH_SETTINGS
from ict.engine import distributed

_WORTH_THREADS = 2**30  # multiplications; an update of ICT of that size takes about 50 ms on one core
_SHARE_OF_MEMORY = 0.7  # the part of the GPU's free memory that examples may take

Device = Literal["auto", "cpu", "cuda"]
Mode = Literal["exact", "fast"]


def pick_device(device: Device) -> torch.device:
    if device not in get_args(Device):
        raise unknown("device", str(device), get_args(Device))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("device cuda: torch finds no GPU; use --device cpu or auto.")
    if device == "cpu":
        return torch.device("cpu")
    index, count = distributed.local_rank(), torch.cuda.device_count()
    if index >= count:
        raise UserError(f"this machine has {count} GPUs and more ranks: start at most {count}, or use --device cpu.")
    if index:
        torch.cuda.set_device(index)
    return torch.device("cuda", index)


def runs_fast(mode: Mode, device: torch.device) -> bool:
    """Whether to run the fast step. Warns if it was asked for and a CPU has no bfloat16."""
    if mode != "fast":
        return False
    if device.type == "cpu":
        if not (able := has_bfloat16()):
            warnings.warn(
                "fast mode needs a GPU, or a CPU with instructions for bfloat16 (AVX512-BF16 or AMX): "
                f"running the exact step on {device.type}.",
                stacklevel=3,
            )
        return able
    if find_spec("triton") is None:
        raise UserError("mode fast needs the package triton, which torch installs only on Linux: use --mode exact.")
    return True


def has_bfloat16() -> bool:
    """Whether bfloat16 is faster than float32 on this CPU; without special instructions it is many times slower."""
    able = torch.cpu.get_capabilities()
    return torch.backends.mkldnn.is_available() and any(able.get(name) for name in ("avx512_bf16", "amx_bf16"))


def fits(x: Tensor, device: torch.device) -> bool:
    """Whether training examples fit into the device's memory. Warns if they do not."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    if x.nbytes <= _SHARE_OF_MEMORY * free:
        return True
    warnings.warn(
        f"the training examples ({x.nbytes / 1e9:.1f} GB) would fill the GPU's memory ({free / 1e9:.1f} GB free): "
        "they stay in the host's memory and are copied batch by batch.",
        stacklevel=3,
    )
    return False


@contextmanager
def explain_out_of_memory(device: torch.device) -> Iterator[None]:
    """Turn CUDA out-of-memory into a UserError with advice."""
    try:
        yield
    except torch.OutOfMemoryError:
        total = torch.cuda.get_device_properties(device).total_memory / 1e9 if device.type == "cuda" else 0
        raise UserError(
            f"the GPU's {total:.0f} GB of memory are not enough: set a smaller train.labeled_batch, "
            "train.unlabeled_batch or eval.batch, or use --device cpu."
        ) from None


def limit_threads(network: nn.Module, shape: tuple[int, ...], batch: int) -> None:
    """One thread for small updates: more gain little, and are many times slower if another program needs a core.

    To be called inside `untouched_globals`. The work of an update is estimated by the multiplications of a forward of a
    network without pooling, in which each parameter meets each pixel of each example.
    """
    parameters, pixels = sum(p.numel() for p in network.parameters()), prod(shape[1:])
    if parameters * pixels * batch < _WORTH_THREADS:
        torch.set_num_threads(1)


@contextmanager
def untouched_globals(device: torch.device, threads: int | None = None, *, exact: bool = True) -> Iterator[None]:
    """Set torch to deterministic arithmetic if `exact`. On exit restore its settings and random state.

    Threads take turns: one of them at a time is inside.
    """
    with TORCH_SETTINGS:
        # not use_deterministic_algorithms: it loses the warn-only setting and loads the compiler
        deterministic, before = torch.get_deterministic_debug_mode(), torch.get_num_threads()
        cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
        rounded = products.allow_tf32
        with (
            torch.random.fork_rng([device] if device.type == "cuda" else []),
            cudnn.flags(enabled=True, benchmark=not exact, deterministic=exact, allow_tf32=False),
        ):
            products.allow_tf32 = not exact  # ZCA's product
            if device.type == "cuda" and exact:
                os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it to be deterministic
                torch.set_deterministic_debug_mode("error")
            torch.set_num_threads(threads or before)
            try:
                yield
            finally:
                torch.set_deterministic_debug_mode(deterministic)
                torch.set_num_threads(before)
                products.allow_tf32 = rounded
