"""The caching allocator's rules: cases worked by hand, and what must hold after any sequence of requests."""

from __future__ import annotations

import random

import pytest

from lecture_lib.accounting.allocator import MIB, Block, CachingAllocator, block_bytes, segment_bytes
from lecture_lib.quantity import LectureError, Quantity


@pytest.mark.parametrize(
    ("request_", "block", "segment"),
    [
        (0, 0, 0),
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB - 511, 10 * MIB, 10 * MIB),  # rounded first: 10 MiB is no longer below 10 MiB
        (10 * MIB, 10 * MIB, 10 * MIB),
        (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
    ],
)
def test_rounding(request_: int, block: int, segment: int) -> None:
    assert (block_bytes(request_).value, segment_bytes(request_).value) == (block, segment)


def test_small_requests_share_a_segment() -> None:
    device = CachingAllocator()
    blocks = [device.malloc(100) for _ in range(4096)]
    assert (device.allocated, device.reserved) == (Quantity(2, "MiB"), Quantity(2, "MiB"))
    assert [b.address for b in blocks] == [512 * i for i in range(4096)]
    device.malloc(1)
    assert device.reserved == Quantity(4, "MiB")


def test_small_and_large_never_share() -> None:
    device = CachingAllocator()
    device.malloc(2 * MIB)  # 18 MiB of its segment stay free
    device.malloc(4)
    assert device.reserved == Quantity(22, "MiB")


def test_a_large_block_keeps_a_remainder_of_one_mebibyte() -> None:
    for request, handed_out in [(11 * MIB, 12 * MIB), (11 * MIB - 512, 11 * MIB - 512)]:
        device = CachingAllocator()
        assert device.malloc(request).size == handed_out
        assert device.allocated.value == handed_out
        assert device.reserved == Quantity(12, "MiB")


def test_best_fit_then_lowest_address() -> None:
    device = CachingAllocator()
    blocks = [device.malloc(size * MIB) for size in (16, 1.5, 12, 1.5, 12)]
    for block in (blocks[0], blocks[2], blocks[4]):
        device.free(block)
    assert (
        device.malloc(int(11.5 * MIB)).address == blocks[2].address
    )  # 12 fits closer than 16; the first of two
    assert device.malloc(13 * MIB).address == blocks[0].address


def test_freed_neighbours_join() -> None:
    device = CachingAllocator()
    a, b, c = (device.malloc(6 * MIB) for _ in range(3))
    for block in (a, c, b):
        device.free(block)
    assert [len(segment) for segment in device.segments] == [1]
    assert device.malloc(18 * MIB + 512).address == 0
    assert device.reserved == Quantity(20, "MiB")


def test_free_bytes_in_two_segments_do_not_serve_one_request() -> None:
    device = CachingAllocator()
    first, second = device.malloc(10 * MIB), device.malloc(10 * MIB)
    device.free(first)
    device.free(second)
    device.malloc(20 * MIB)
    assert device.reserved == Quantity(40, "MiB")


def test_empty_cache_gives_back_whole_segments_only() -> None:
    device = CachingAllocator()
    big, small, other = device.malloc(30 * MIB), device.malloc(4), device.malloc(4)
    device.free(big)
    device.free(small)
    assert device.reserved == Quantity(32, "MiB")
    device.empty_cache()
    assert (device.allocated.value, device.reserved) == (512, Quantity(2, "MiB"))
    device.free(other)
    device.empty_cache()
    assert (device.allocated.value, device.reserved.value, device.segments) == (0, 0, [])


def test_nothing_asked_nothing_taken() -> None:
    device = CachingAllocator()
    device.free(device.malloc(0))
    assert device.reserved.value == 0


def test_any_sequence_keeps_the_books() -> None:
    rng = random.Random(4)
    for _ in range(20):
        device, held = CachingAllocator(), []
        for _ in range(80):
            if held and rng.random() < 0.45:
                device.free(held.pop(rng.randrange(len(held))))
            elif rng.random() < 0.05:
                device.empty_cache()
            else:
                top = rng.choice([2_000, MIB, 9 * MIB, 40 * MIB])
                held.append(device.malloc(rng.randint(1, top)))
            check_books(device, held)
        for block in held:
            device.free(block)
        device.empty_cache()
        assert device.reserved.value == 0


def check_books(device: CachingAllocator, held: list[Block]) -> None:
    blocks = [block for segment in device.segments for block in segment]
    assert {id(b) for b in blocks if b.allocated} == {id(b) for b in held}
    assert device.allocated.value == sum(b.size for b in held)
    assert device.reserved.value == sum(b.size for b in blocks)
    assert all(b.size >= b.requested and b.size % 512 == 0 for b in blocks)
    for segment in device.segments:
        assert len({b.small for b in segment}) == 1
        for before, after in zip(segment, segment[1:], strict=False):
            assert before.address + before.size == after.address
            assert before.next is after and after.previous is before
            assert before.allocated or after.allocated, "two free neighbours were not joined"


def test_bad_input() -> None:
    device = CachingAllocator()
    block = device.malloc(4)
    device.free(block)
    for call in (
        lambda: device.free(block),
        lambda: CachingAllocator().free(device.malloc(4)),
        lambda: device.malloc(-1),
        lambda: device.malloc(1.5),
        lambda: block_bytes("4"),  # type: ignore[arg-type]
        lambda: segment_bytes(Quantity(4, "FLOP")),
    ):
        with pytest.raises(LectureError, match="expected .*; got "):
            call()
