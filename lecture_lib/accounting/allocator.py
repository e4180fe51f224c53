"""The CUDA caching allocator's rules, without a GPU: what a request takes and reserves.

torch asks the driver for segments and hands out blocks of them; freed blocks stay reserved, to be handed
out again. The model is of one device and one stream with the default settings (no expandable segments, no
limit to splitting, no power-of-two rounding).
Source: c10/core/AllocatorConfig.h and c10/cuda/CUDACachingAllocator.cpp, torch 2.13.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lecture_lib.accounting.inputs import whole
from lecture_lib.quantity import LectureError, Quantity

MIB = 1 << 20
ROUNDING = 512  # every block is a multiple of this
SMALL_REQUEST = 1 * MIB  # up to here a request is served from small segments
SMALL_SEGMENT = 2 * MIB
MEDIUM_REQUEST = 10 * MIB  # below this a large request gets a segment that others can share
MEDIUM_SEGMENT = 20 * MIB
LARGE_ROUNDING = 2 * MIB  # larger segments are multiples of this

SOURCE = "torch 2.13: c10/core/AllocatorConfig.h, c10/cuda/CUDACachingAllocator.cpp"


def block_bytes(request: int | Quantity) -> Quantity:
    """Bytes that a request of that many bytes is rounded to: the next multiple of 512 B; 0 for 0.

    The block handed out can be larger still, where what is left of a segment is too small to split off
    (`CachingAllocator.malloc` shows it).
    """
    asked = whole("request", request, 0, "B")
    return Quantity(
        _rounded(asked, ROUNDING),
        "B",
        name="block",
        formula="512·ceil(request/512)",
        inputs={"request": asked},
        conventions=("CUDA caching allocator",),
        source=SOURCE,
    )


def segment_bytes(request: int | Quantity) -> Quantity:
    """Bytes reserved from the driver for a request that no free block can serve.

    2 MiB for requests up to 1 MiB, 20 MiB below 10 MiB, else the next multiple of 2 MiB; 0 for 0.
    """
    size = int(block_bytes(request))
    if size == 0:
        value, formula = 0, "0"
    elif size <= SMALL_REQUEST:
        value, formula = SMALL_SEGMENT, "2 MiB, as request <= 1 MiB"
    elif size < MEDIUM_REQUEST:
        value, formula = MEDIUM_SEGMENT, "20 MiB, as 1 MiB < request < 10 MiB"
    else:
        value, formula = _rounded(size, LARGE_ROUNDING), "2 MiB·ceil(request/2 MiB)"
    return Quantity(
        value,
        "B",
        name="segment",
        formula=formula,
        inputs={"request": size},
        conventions=("CUDA caching allocator", "no free block large enough"),
        source=SOURCE,
    )


@dataclass(eq=False)
class Block:
    """A run of bytes within a segment.

    address: where it starts; size: its bytes, a multiple of 512; requested: bytes asked for (0 when free)
    """

    address: int
    size: int
    small: bool
    requested: int = 0
    allocated: bool = False
    previous: Block | None = field(default=None, repr=False)
    next: Block | None = field(default=None, repr=False)


class CachingAllocator:
    """Blocks and segments of one device, empty at first.

    >>> gpu = CachingAllocator()
    >>> block = gpu.malloc(4)
    >>> int(gpu.allocated), int(gpu.reserved)
    (512, 2097152)
    """

    def __init__(self) -> None:
        self._first_blocks: list[Block] = []  # of each segment, by address
        self._free: set[Block] = set()
        self._used: set[Block] = set()
        self._end = 0  # where the next segment is placed

    def malloc(self, nbytes: int | Quantity) -> Block:
        """Serves a request: the smallest free block that is large enough, else a new segment.

        What a block has left over is split off and stays free: in a small segment from 512 B on, in a larger
        one only if it is more than 1 MiB. A request of 0 bytes takes nothing.
        """
        asked = whole("nbytes", nbytes, 0, "B")
        size = int(block_bytes(asked))
        small = size <= SMALL_REQUEST
        if size == 0:
            return Block(0, 0, small, allocated=True)
        fitting = [b for b in self._free if b.small == small and b.size >= size]
        block = min(fitting, key=lambda b: (b.size, b.address)) if fitting else self._reserve(asked, small)
        left = block.size - size
        if left >= ROUNDING if small else left > SMALL_REQUEST:
            rest = Block(block.address + size, left, small, previous=block, next=block.next)
            if block.next is not None:
                block.next.previous = rest
            block.next, block.size = rest, size
            self._free.add(rest)
        block.allocated, block.requested = True, asked
        self._free.discard(block)
        self._used.add(block)
        return block

    def free(self, block: Block) -> None:
        """Takes a block back, joined with free neighbours; its segment stays reserved."""
        if block.size == 0:
            return
        if block not in self._used:
            raise LectureError(f"expected a block that is allocated here; got {block}; free each block once")
        self._used.remove(block)
        block.allocated, block.requested = False, 0
        if block.next is not None and not block.next.allocated:
            self._free.remove(block.next)
            _join(block, block.next)
        if block.previous is not None and not block.previous.allocated:
            _join(block.previous, block)
        else:
            self._free.add(block)

    def empty_cache(self) -> None:
        """Gives back to the driver the segments in which nothing is allocated."""
        given_back = {b for b in self._first_blocks if not b.allocated and b.next is None}
        self._first_blocks = [b for b in self._first_blocks if b not in given_back]
        self._free -= given_back

    @property
    def allocated(self) -> Quantity:
        """Bytes of all blocks handed out, rounding included (`torch.cuda.memory_allocated`)."""
        total = sum(b.size for b in self._used)
        return Quantity(total, "B", name="allocated", conventions=("blocks as rounded",), source=SOURCE)

    @property
    def reserved(self) -> Quantity:
        """Bytes of all segments (`torch.cuda.memory_reserved`)."""
        total = sum(b.size for b in self._blocks())
        return Quantity(total, "B", name="reserved", conventions=("whole segments",), source=SOURCE)

    @property
    def segments(self) -> list[list[Block]]:
        """Every segment's blocks, in the order of their addresses."""
        found = []
        for first in self._first_blocks:
            blocks = [first]
            while (following := blocks[-1].next) is not None:
                blocks.append(following)
            found.append(blocks)
        return found

    def _blocks(self) -> list[Block]:
        return [block for segment in self.segments for block in segment]

    def _reserve(self, asked: int, small: bool) -> Block:
        block = Block(self._end, int(segment_bytes(asked)), small)
        self._end += block.size
        self._first_blocks.append(block)
        return block

    def __repr__(self) -> str:
        return f"allocated {self.allocated}, reserved {self.reserved} in {len(self._first_blocks)} segments"


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step


def _join(block: Block, following: Block) -> None:
    block.size += following.size
    block.next = following.next
    if following.next is not None:
        following.next.previous = block
    following.size = 0  # a stale handle to it is no block any more
