"""Answers, hints and known mistakes of notebooks/01_tensors.ipynb."""

from lecture_lib.exercises.key import Edit, Exercise, Mistake

SMALL = (2, 3, 5, 7, 11, 13)

# -- 1.1


def queries_bytes(batch, position, head, feature, bits):
    return batch * position * head * feature * bits // 8


def draw_queries(rng):
    batch, position, head, feature = rng.sample(SMALL, 4)
    bits = rng.choice((4, 8, 16, 32, 64))
    return {
        "batch": batch,
        "position": position,
        "head": head,
        "feature": 2 * feature if bits == 4 else feature,  # whole bytes
        "bits": bits,
    }


QUERIES_BYTES = Exercise(
    id="1.1",
    title="The blank row of a ledger",
    notebook="01_tensors",
    kind="function",
    level="core",
    difficulty="warm-up",
    points=1,
    minutes=2,
    unit="B",
    answer=queries_bytes,
    cases=[
        {"batch": 2, "position": 128, "head": 8, "feature": 64, "bits": 16},
        {"batch": 3, "position": 5, "head": 7, "feature": 11, "bits": 32},
        {"batch": 13, "position": 2, "head": 3, "feature": 5, "bits": 4},
    ],
    draw=draw_queries,
    case_text="({batch}, {position}, {head}, {feature}), {bits} bits",
    mistakes=[
        Mistake(
            "bits-for-bytes",
            "That is the number of bits: {bits} for each value. Eight bits are a byte.",
            Edit(" // 8", ""),
            see="01-bytes",
        ),
        Mistake(
            "elements-only",
            "That is the number of elements. Each takes {bits} bits.",
            Edit(" * bits // 8", ""),
            see="01-bytes",
        ),
        Mistake(
            "always-fp32",
            "You gave every value four bytes, as in FP32. This case has {bits} bits a value.",
            Edit("bits // 8", "4"),
            see="01-bytes-predict",
        ),
        Mistake(
            "always-bf16",
            "You gave every value two bytes, as in BF16. This case has {bits} bits a value.",
            Edit("bits // 8", "2"),
            see="01-bytes-predict",
        ),
        Mistake(
            "no-heads",
            "Your product leaves out the heads: {head} of them.",
            Edit(" * head", ""),
            see="01-bytes",
        ),
        Mistake(
            "no-features",
            "Your product leaves out the features: {feature} in a head.",
            Edit(" * feature", ""),
            see="01-bytes",
        ),
        Mistake(
            "no-positions",
            "Your product leaves out the positions: {position} of them.",
            Edit(" * position", ""),
            see="01-bytes",
        ),
        Mistake(
            "no-batch",
            "Your product leaves out the batch axis: {batch} examples.",
            Edit("batch * ", ""),
            see="01-bytes",
        ),
        Mistake(
            "whole-bytes",
            "You cut bits / 8 to whole bytes before you multiplied: a value of {bits} bits then takes none. Multiply first, divide at the end.",
            Edit("* bits // 8", "* (bits // 8)"),
            see="01-bytes",
        ),
        Mistake(
            "heads-added",
            "You added the sizes of head and feature. Every head has all the features: multiply.",
            Edit("position * head * feature", "position * (head + feature)"),
            see="01-bytes",
        ),
    ],
    hints=[
        "The other rows multiply every axis they have by the bytes of one value.",
        "Queries have four axes, and a value of `bits` bits takes bits/8 bytes.",
        "`return batch * position * head * feature * bits // 8`",
    ],
)

# -- 1.2

RANK = Exercise(
    id="1.2",
    title="What flattening changes",
    notebook="01_tensors",
    kind="choice",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=1,
    answer="b",
    options={
        "a": "The rank falls from 4 to 2, and the bytes with it.",
        "b": "The rank falls from 4 to 2; elements and bytes stay.",
        "c": "The rank stays 4: no value was lost.",
        "d": "The rank falls from 4 to 1: every row of `y` is the same.",
    },
    mistakes=[
        Mistake(
            "bytes-with-rank",
            "The rank does fall to 2. But (2·128·8)·64 is the same product as 2·128·8·64, so no element is "
            "gone.",
            "a",
            see="01-axes",
        ),
        Mistake(
            "rank-as-content",
            "No value was lost, and none of that is rank: a tensor's rank is how many axes it has, and `y` "
            "has two.",
            "c",
            see="01-axes",
        ),
        Mistake(
            "matrix-rank",
            "That 1 is the matrix rank of `y`, its number of independent rows. A tensor's rank counts "
            "axes: `y.ndim` is 2.",
            "d",
            see="01-axes-claim",
        ),
    ],
    hints=[
        "How many numbers are in the shape (2048, 64)?",
        "`y.ndim` is the rank, `y.numel()` the number of elements.",
        "Two axes, and 2048 · 64 = 131,072 elements, as before.",
    ],
)

# -- 1.3


def tensor_mib(shape, bits):
    elements = 1
    for size in shape:
        elements *= size
    return elements * bits / 8 / 2**20


def mib_as_found(shape, bits):
    return sum(shape) * bits / 10**6


def draw_shape(rng):
    return {
        "shape": rng.sample((2, 3, 5, 7, 11, 13, 64), rng.randint(1, 4)),
        "bits": rng.choice((4, 8, 16, 32, 64)),
    }


CALCULATOR = Exercise(
    id="1.3",
    title="Find what is wrong in this calculator",
    notebook="01_tensors",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=4,
    unit="MiB",
    answer=tensor_mib,
    cases=[
        {"shape": [2, 128, 8, 64], "bits": 16},
        {"shape": [4096, 11008], "bits": 4},
        {"shape": [3, 5, 7], "bits": 32},
        {"shape": [], "bits": 64},
    ],
    draw=draw_shape,
    tolerance=1e-9,
    case_text="shape {shape}, {bits} bits",
    mistakes=[
        Mistake(
            "as-found",
            "That is still the calculator as it was found. Work out (3, 5, 7) by hand: it has 105 elements.",
            mib_as_found,
            see="01-bytes",
        ),
        Mistake(
            "sum-of-sizes",
            "You still add the sizes of {shape}. A tensor has a value for every combination of indices: "
            "multiply.",
            [Edit("elements = 1", "elements = 0"), Edit("*= size", "+= size")],
            see="01-bytes",
        ),
        Mistake(
            "bits-for-bytes",
            "Eight times too much: `bits` are still counted as bytes.",
            Edit(" / 8", ""),
            see="01-bytes",
        ),
        Mistake(
            "mb-for-mib",
            "That is in MB, 10^6 bytes each. A MiB has 2^20 = 1,048,576 bytes.",
            Edit("2**20", "10**6"),
            see="01-bytes-claim",
        ),
        Mistake(
            "kib-for-mib",
            "That is in KiB, 2^10 bytes each. A MiB has 2^20.",
            Edit("2**20", "2**10"),
            see="01-bytes-claim",
        ),
        Mistake(
            "product-from-zero",
            "Zero everywhere: a product that starts at 0 stays 0. Start it at 1, which is also right for "
            "the shape ().",
            Edit("elements = 1", "elements = 0"),
            see="01-bytes",
        ),
        Mistake(
            "whole-bytes",
            "You cut bits / 8 to whole bytes before you multiplied: a value of 4 bits then takes none.",
            Edit("elements * bits / 8", "elements * (bits // 8)"),
            see="01-bytes",
        ),
        Mistake(
            "first-axis-left-out",
            "Your product leaves out the first axis.",
            Edit("in shape:", "in shape[1:]:"),
            see="01-bytes",
        ),
        Mistake(
            "gib-for-mib",
            "That is in GiB, 2^30 bytes each. A MiB has 2^20.",
            Edit("2**20", "2**30"),
            see="01-bytes",
        ),
    ],
    hints=[
        "Test it on (3, 5, 7): how many elements are there, and what does the first line make of it?",
        "Three slips: a sum for a product, bits for bytes, 10^6 for 2^20.",
        "`elements` is the product of the sizes (1 for an empty shape); return `elements * bits / 8 / "
        "2**20`.",
    ],
)

# -- 1.4


def unique_bytes(tensors):
    storages = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def logical_sum(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def once_per_object(tensors):
    objects = {id(tensor): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.element_size() for tensor in objects.values())


def storage_per_object(tensors):
    objects = {id(tensor): tensor for tensor in tensors}
    return sum(tensor.untyped_storage().nbytes() for tensor in objects.values())


def storage_each_time(tensors):
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


def elements_of_storage(tensors):
    storages = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
    return sum(storages.values())


VIEWS = ("", " transposed", " first row", " last row", " every other column", " expanded", " cloned")


def draw_tensors(rng):
    tensors = []
    for name, dtype in zip(
        "ab", rng.sample(("float32", "bfloat16", "int64", "float64", "int8"), 2), strict=True
    ):
        rows, columns = rng.sample(SMALL, 2)
        tensors.append(f"{name} {dtype} {rows}×{columns}")
    listed = ["a", "a last row", "b expanded", "a" + rng.choice(VIEWS), "b" + rng.choice(VIEWS)]
    rng.shuffle(listed)
    return {"tensors": "; ".join(tensors), "listed": ", ".join(listed)}


UNIQUE_BYTES = Exercise(
    id="1.4",
    title="Count each storage once",
    notebook="01_tensors",
    kind="driver",
    driver="listed_tensors",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    unit="B",
    answer=unique_bytes,
    equivalent=["storages[storage] = storage.nbytes()  # torch hands out one Python object for each storage"],
    cases=[
        {"tensors": "w float32 5×7", "listed": "w, w transposed, w last row"},
        {"tensors": "w bfloat16 11×3", "listed": "w, w"},
        {"tensors": "w float32 5×7; b int64 2×3", "listed": "w last row, b, b expanded"},
        {"tensors": "w int8 13×2", "listed": "w every other column, w cloned, w first row"},
    ],
    draw=draw_tensors,
    case_text="{tensors}: {listed}",
    mistakes=[
        Mistake(
            "logical-sum",
            "You added what every tensor shows. Views of one storage hold the same bytes: they count once.",
            logical_sum,
            see="01-views",
        ),
        Mistake(
            "once-per-object",
            "You told tensors apart as Python objects. A view is another object on the same storage; "
            "compare storages.",
            once_per_object,
            see="01-views",
        ),
        Mistake(
            "storage-per-object",
            "You weigh the right thing, the storage, but once for every Python object. Two views have one "
            "storage.",
            storage_per_object,
            see="01-views",
        ),
        Mistake(
            "storage-each-time",
            "You weigh the right thing, the storage, but at every tensor in the list. Keep each storage "
            "once.",
            storage_each_time,
            see="01-views",
        ),
        Mistake(
            "tensor-pointer",
            "You told storages apart by `tensor.data_ptr()`, which is where a view begins. The last row "
            "begins elsewhere in "
            "the same storage: use the storage's own pointer.",
            Edit("storages[storage.data_ptr()]", "storages[tensor.data_ptr()]"),
            see="01-strides",
        ),
        Mistake(
            "bytes-of-the-view",
            "You keep each storage once, then count what the last view of it shows. The storage is all "
            "there: `storage.nbytes()`.",
            Edit("= storage.nbytes()", "= tensor.numel() * tensor.element_size()"),
            see="01-keep",
        ),
        Mistake(
            "elements-for-bytes",
            "That is the number of elements in the storages; each has a size in bytes.",
            elements_of_storage,
            see="01-bytes",
        ),
        Mistake(
            "bits-for-bytes",
            "That is the number of bits; eight of them are a byte.",
            Edit("return sum(", "return 8 * sum("),
            see="01-views",
        ),
        Mistake(
            "told-by-size",
            "You told storages apart by their size. Two of the same size are still two: use the storage's address.",
            Edit("storages[storage.data_ptr()]", "storages[storage.nbytes()]"),
            see="01-views",
        ),
        Mistake(
            "first-alone",
            "You weighed the first tensor's storage and no other.",
            Edit("for tensor in tensors:", "for tensor in tensors[:1]:"),
            see="01-views",
        ),
        Mistake(
            "four-bytes-each",
            "You gave every value four bytes. These tensors differ in dtype: a storage knows its `nbytes()`.",
            Edit("= storage.nbytes()", "= 4 * tensor.numel()"),
            see="01-views",
        ),
    ],
    hints=[
        "What do `w`, `w.T` and `w[-1]` have in common? `tensor.untyped_storage()` gives it.",
        "A dict from `storage.data_ptr()` to `storage.nbytes()` keeps each storage once.",
        "For each tensor: `s = tensor.untyped_storage()`, `storages[s.data_ptr()] = s.nbytes()`. Return "
        "the sum of the values.",
    ],
)

# -- 1.5


def bytes_reached(shape, strides, offset, element_bytes):
    last = offset
    for size, stride in zip(shape, strides, strict=True):
        last += (size - 1) * stride
    return (last + 1) * element_bytes


def bytes_shown(shape, strides, offset, element_bytes):
    elements = 1
    for size in shape:
        elements *= size
    return elements * element_bytes


def offset_in_bytes(shape, strides, offset, element_bytes):
    last = 0
    for size, stride in zip(shape, strides, strict=True):
        last += (size - 1) * stride
    return offset + (last + 1) * element_bytes


def draw_view(rng):
    shape = rng.sample((2, 3, 4, 5, 7), 2)
    strides = rng.choice(
        ([shape[1] + rng.randint(1, 6), 1], [1, shape[0] + rng.randint(1, 6)], [0, 3], [17, 2])
    )
    if rng.random() < 0.5:
        shape, strides = [*shape, rng.randint(2, 4)], [*strides, rng.randint(30, 40)]
    return {
        "shape": shape,
        "strides": strides,
        "offset": rng.randint(1, 20),
        "element_bytes": rng.choice((2, 4, 8)),
    }


BYTES_REACHED = Exercise(
    id="1.5",
    title="How far a view reaches",
    notebook="01_tensors",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=6,
    unit="B",
    answer=bytes_reached,
    cases=[
        {"shape": [4, 6], "strides": [6, 1], "offset": 0, "element_bytes": 4},
        {"shape": [2, 3], "strides": [12, 2], "offset": 7, "element_bytes": 4},
        {"shape": [5, 7], "strides": [0, 1], "offset": 3, "element_bytes": 2},
        {"shape": [6], "strides": [9], "offset": 5, "element_bytes": 8},
        {"shape": [2, 5, 3], "strides": [40, 7, 2], "offset": 1, "element_bytes": 2},
    ],
    draw=draw_view,
    case_text="shape {shape}, strides {strides}, offset {offset}, {element_bytes} B each",
    mistakes=[
        Mistake(
            "last-not-counted",
            "You return where the last element begins. The bytes of that element are reached too.",
            Edit("(last + 1)", "last"),
            see="01-strides",
        ),
        Mistake(
            "one-stride-too-many",
            "An axis of n elements is n − 1 strides long: from the first to the last, not past it.",
            Edit("(size - 1)", "size"),
            see="01-strides",
        ),
        Mistake(
            "offset-forgotten",
            "You start at the beginning of the storage. This view starts {offset} elements in.",
            Edit("last = offset", "last = 0"),
            see="01-strides",
        ),
        Mistake(
            "offset-in-bytes",
            "You added the offset as bytes. `storage_offset()`, like strides, counts elements.",
            offset_in_bytes,
            see="01-strides",
        ),
        Mistake(
            "bytes-shown",
            "That is what the view shows, its logical bytes. With other strides the same elements lie "
            "farther apart, or on top of each other.",
            bytes_shown,
            see="01-strides",
        ),
        Mistake(
            "elements-for-bytes",
            "That is the number of elements reached; each has {element_bytes} bytes.",
            Edit(" * element_bytes", ""),
            see="01-bytes",
        ),
        Mistake(
            "bits-for-bytes",
            "That is the number of bits; `element_bytes` counts bytes already.",
            Edit(" * element_bytes", " * element_bytes * 8"),
            see="01-strides",
        ),
        Mistake(
            "two-axes-only",
            "You followed the first two axes only. A view may have any number: go through all of them.",
            Edit("zip(shape, strides, strict=True)", "zip(shape[:2], strides[:2], strict=True)"),
            see="01-strides",
        ),
        Mistake(
            "last-axis-left-out",
            "The last axis is left out: the last element lies along that one too.",
            Edit("zip(shape, strides, strict=True)", "zip(shape[:-1], strides[:-1], strict=True)"),
            see="01-strides",
        ),
        Mistake(
            "farthest-axis-only",
            "You took the longest of the axes' reaches. The last element is at the end of every axis: they add up.",
            Edit("last += (size - 1) * stride", "last = max(last, offset + (size - 1) * stride)"),
            see="01-strides",
        ),
        Mistake(
            "first-axis-only",
            "You followed the first axis alone, all of its strides. Go to the last element of every axis and add that element.",
            [
                Edit(
                    "for size, stride in zip(shape, strides, strict=True):",
                    "for size, stride in [(shape[0], strides[0])]:",
                ),
                Edit("(size - 1)", "size"),
                Edit("(last + 1)", "last"),
            ],
            see="01-strides",
        ),
        Mistake(
            "elements-shown",
            "You added the number of elements to the offset. The elements lie strides apart: the reach is not their number.",
            [
                Edit("last = offset", "last = 1"),
                Edit("last += (size - 1) * stride", "last *= size"),
                Edit("(last + 1)", "(offset + last)"),
            ],
            see="01-strides",
        ),
    ],
    hints=[
        "Where in the storage is element (0, 0)? And the element with the largest index on every axis?",
        "It is at offset + Σ (size − 1)·stride, counted in elements.",
        "Add 1, for the last element itself, and multiply by `element_bytes`.",
    ],
)

# -- 1.6: completion only, since what is kept alive is behaviour, seen from inside the student's own process


def last_states(hidden):
    return hidden[:, -1].clone()


LAST_STATES = Exercise(
    id="1.6",
    title="Keep one position and nothing else",
    notebook="01_tensors",
    kind="driver",
    driver="kept_by_result",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=5,
    answer=last_states,
    cases=[
        {"batch": 3, "position": 5, "feature": 7},
        {"batch": 1, "position": 11, "feature": 2},
    ],
    case_text="hidden ({batch}, {position}, {feature})",
    mistakes=[
        Mistake(
            "a-view",
            "The values are right, and all of `hidden` stays alive behind them: this is a view, or a view "
            "of a copy of everything. "
            "Copy what you keep, after choosing it.",
            Edit(".clone()", ""),
            see="01-keep-measure",
        ),
        Mistake(
            "contiguous",
            "`contiguous()` copies only where it must. With batch 1 the view is contiguous already, so "
            "nothing was copied and all "
            "of `hidden` stays alive. `clone()` always copies.",
            Edit(".clone()", ".contiguous()"),
            see="01-keep-measure",
        ),
        Mistake(
            "first-position",
            "A copy, and a small one, but of the first position. The last one is index −1.",
            Edit("-1", "0"),
            see="01-axes",
        ),
        Mistake(
            "last-example",
            "You took the last example with all its positions: index −1 on the batch axis. Positions are "
            "the second axis.",
            Edit("[:, -1]", "[-1]"),
            see="01-axes",
        ),
        Mistake(
            "axis-kept",
            "The values are right, but a position axis of size 1 is still there: `-1:` keeps an axis, `-1` "
            "drops it.",
            Edit("-1]", "-1:]"),
            see="01-axes",
        ),
        Mistake(
            "last-feature",
            "You took the last feature of every position: index −1 on the last axis. Positions are the second axis.",
            Edit("[:, -1]", "[:, :, -1]"),
            see="01-keep-measure",
        ),
        Mistake(
            "last-but-one",
            "A copy, and a small one, but of the last position but one. The last one is index −1.",
            Edit("-1", "-2"),
            see="01-keep-measure",
        ),
    ],
    hints=[
        "First choose the values. Then ask whose storage they are in.",
        "`hidden[:, -1]` is a view. Which call always copies?",
        "`return hidden[:, -1].clone()`",
    ],
)

# -- 1.7


def allocated_bytes(requests):
    return sum(-(-request // 512) * 512 for request in requests)


def total_rounded(requests):
    return -(-sum(requests) // 512) * 512


def draw_requests(rng):
    some = [rng.randint(1, 5_000) for _ in range(rng.randint(2, 5))]
    return {"requests": [*some, some[0], 512 * rng.randint(1, 9)]}


ALLOCATED_BYTES = Exercise(
    id="1.7",
    title="What the allocator gives out",
    notebook="01_tensors",
    kind="function",
    level="core",
    difficulty="steady",
    points=2,
    minutes=5,
    unit="B",
    answer=allocated_bytes,
    cases=[
        {"requests": [2]},
        {"requests": [512, 1_024]},
        {"requests": [513, 300, 3_000]},
        {"requests": [262_144, 40, 40, 7]},
    ],
    draw=draw_requests,
    case_text="requests of {requests} B",
    mistakes=[
        Mistake(
            "not-rounded",
            "That is what was asked for. Every request is rounded up to a multiple of 512 B.",
            Edit("-(-request // 512) * 512", "request"),
            see="01-allocator",
        ),
        Mistake(
            "total-rounded",
            "You rounded the total. Each tensor gets a block of its own, so each request is rounded.",
            total_rounded,
            see="01-allocator",
        ),
        Mistake(
            "rounded-down",
            "You rounded down: a block would be smaller than the tensor in it.",
            Edit("-(-request // 512)", "(request // 512)"),
            see="01-allocator",
        ),
        Mistake(
            "always-one-more",
            "A request that is a multiple of 512 B already fits its block; yours gets 512 B more.",
            Edit("-(-request // 512)", "(request // 512 + 1)"),
            see="01-allocator",
        ),
        Mistake(
            "blocks-for-bytes",
            "That is a number of 512-byte units; in bytes it is 512 times as many.",
            Edit(" * 512", ""),
            see="01-allocator",
        ),
        Mistake(
            "segments-for-blocks",
            "You rounded to 2 MiB, the segment that the allocator reserves from the driver. A tensor's "
            "block is a multiple of 512 B.",
            Edit("-(-request // 512) * 512", "-(-request // 2**21) * 2**21"),
            see="01-allocator-predict",
        ),
        Mistake(
            "each-size-once",
            "You counted equal requests once. Two tensors of the same size get a block each.",
            Edit("in requests)", "in set(requests))"),
            see="01-allocator",
        ),
        Mistake(
            "at-least-a-block",
            "You gave small tensors 512 B and larger ones what they asked for. Those are rounded up to a multiple of 512 B as well.",
            Edit("-(-request // 512) * 512", "max(512, request)"),
            see="01-allocator",
        ),
        Mistake(
            "to-the-nearest",
            "You rounded to the nearest multiple of 512 B. A block must hold the tensor: round up.",
            Edit("-(-request // 512)", "round(request / 512)"),
            see="01-allocator",
        ),
    ],
    hints=[
        "One request at a time: 513 B do not fit into 512 B.",
        "Round up with `-(-n // 512) * 512`; a multiple of 512 stays as it is.",
        "`return sum(-(-request // 512) * 512 for request in requests)`",
    ],
)

# -- 1.8


def reserved_bytes(count, size):
    block = -(-size // 512) * 512
    blocks_in_segment = 2**21 // block
    segments = -(-count // blocks_in_segment)
    return segments * 2**21


def straddling(count, size):
    block = -(-size // 512) * 512
    return -(-count * block // 2**21) * 2**21


def one_segment_each(count, size):
    return count * 2**21


def all_in_one(count, size):
    return 2**21


def only_allocated(count, size):
    return count * -(-size // 512) * 512


def draw_equal_requests(rng):
    just_fitting = 2**21 // rng.randint(2, 9) - rng.choice((3, 400, 5_000))
    with_a_rest = rng.randint(250_000, 1_000_000)
    return {"count": rng.randint(2, 40), "size": rng.choice((just_fitting, with_a_rest))}


RESERVED_BYTES = Exercise(
    id="1.8",
    title="What the allocator reserves",
    notebook="01_tensors",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=3,
    minutes=8,
    unit="B",
    answer=reserved_bytes,
    cases=[
        {"count": 1, "size": 2},
        {"count": 5, "size": 1_000_000},
        {"count": 3, "size": 699_000},
        {"count": 19, "size": 300_000},
        {"count": 4, "size": 524_288},
    ],
    draw=draw_equal_requests,
    case_text="{count} × {size} B",
    mistakes=[
        Mistake(
            "straddling",
            "You filled segments to the last byte. A tensor lies within one segment: what is left at the "
            "end of one is not joined to the next.",
            straddling,
            see="01-allocator",
        ),
        Mistake(
            "size-not-rounded",
            "You packed tensors of {size} B. Each takes a block, a multiple of 512 B, and blocks must fit.",
            Edit("-(-size // 512) * 512", "size"),
            see="01-allocator",
        ),
        Mistake(
            "one-segment-each",
            "You gave every tensor a segment of its own. Small tensors share one until the next block does "
            "not fit.",
            one_segment_each,
            see="01-allocator-predict",
        ),
        Mistake(
            "all-in-one",
            "You reserved one segment whatever the number. When the next block does not fit, another 2 MiB "
            "are reserved.",
            all_in_one,
            see="01-allocator-predict",
        ),
        Mistake(
            "only-allocated",
            "That is what is allocated, the blocks. Memory is reserved from the driver in segments of 2 MiB.",
            only_allocated,
            see="01-allocator",
        ),
        Mistake(
            "partly-filled-dropped",
            "You counted full segments only. One that is partly filled is reserved as well.",
            Edit("-(-count // blocks_in_segment)", "count // blocks_in_segment"),
            see="01-allocator",
        ),
        Mistake(
            "segments-for-bytes",
            "That is the number of segments; each has 2 MiB = 2,097,152 B.",
            Edit("segments * 2**21", "segments"),
            see="01-allocator",
        ),
        Mistake(
            "mega-for-mebi",
            "You took a segment as 2,000,000 B. It has 2 MiB = 2,097,152 B.",
            [Edit("2**21 // block", "2_000_000 // block"), Edit("segments * 2**21", "segments * 2_000_000")],
            see="01-allocator",
        ),
        Mistake(
            "always-one-more",
            "Where the blocks fill their segments to the last one, yours reserves a segment more: round up, and leave a whole number as it is.",
            Edit("-(-count // blocks_in_segment)", "(count // blocks_in_segment + 1)"),
            see="01-allocator",
        ),
        Mistake(
            "segments-of-one",
            "You took segments of 1 MiB. Small tensors come from segments of 2 MiB.",
            [Edit("2**21 // block", "2**20 // block"), Edit("segments * 2**21", "segments * 2**20")],
            see="01-allocator",
        ),
        Mistake(
            "segments-of-twenty",
            "You took segments of 20 MiB. Those are for requests above 1 MiB; small tensors come from segments of 2 MiB.",
            [
                Edit("2**21 // block", "20 * 2**20 // block"),
                Edit("segments * 2**21", "segments * 20 * 2**20"),
            ],
            see="01-allocator",
        ),
    ],
    hints=[
        "First the block of one tensor, as in 1.7. Then: how many such blocks fit into 2 MiB = 2**21 B?",
        "`2**21 // block` fit into a segment. `count` of them need that many segments, rounded up.",
        "`segments = -(-count // (2**21 // block))`; return `segments * 2**21`.",
    ],
)

# -- 1.9

WHICH_DEVICE = Exercise(
    id="1.9",
    title="What is where",
    notebook="01_tensors",
    kind="choice",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=1,
    answer="c",
    options={
        "a": "It runs, and `y` is on the GPU.",
        "b": "An error: the model is still on the CPU.",
        "c": "An error: `x` is still on the CPU.",
        "d": "It runs, and `y` is on the CPU: torch moves what is in the wrong place.",
    },
    mistakes=[
        Mistake(
            "tensor-moved-in-place",
            "`x.to(device)` returns a copy on the GPU, and this line throws it away: `x` has not moved. "
            "Write `x = x.to(device)`.",
            "a",
            see="01-place-run",
        ),
        Mistake(
            "module-not-moved",
            "A module is different from a tensor: `model.to(device)` moves its parameters in place. Look "
            "at the line below it.",
            "b",
            see="01-place-claim",
        ),
        Mistake(
            "moved-by-itself",
            "torch moves nothing by itself, but for a CPU tensor without axes. Operands in two places are "
            "an error.",
            "d",
            see="01-place-words",
        ),
    ],
    hints=[
        "Which of the two `.to(device)` calls changes the thing that it is called on?",
        "A module moves its parameters; a tensor returns a copy.",
        "The copy of `x` is not kept, so `model(x)` gets a CPU tensor.",
    ],
)

# -- 1.10


def copy_seconds(parameters, bits, bandwidth_gb):
    return parameters * bits / 8 / (bandwidth_gb * 10**9)


def draw_copy(rng):
    return {
        "parameters": rng.randint(10**6, 10**10),
        "bits": rng.choice((4, 8, 32, 64)),
        "bandwidth_gb": rng.choice((3, 6, 12, 25, 55, 64, 900)),
    }


COPY_SECONDS = Exercise(
    id="1.10",
    title="Seconds on the link",
    notebook="01_tensors",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="s",
    answer=copy_seconds,
    cases=[
        {"parameters": 7_000_000_000, "bits": 16, "bandwidth_gb": 25},
        {"parameters": 7_000_000_000, "bits": 4, "bandwidth_gb": 3350},
        {"parameters": 124_000_000, "bits": 32, "bandwidth_gb": 12},
    ],
    draw=draw_copy,
    tolerance=1e-6,
    case_text="{parameters} parameters of {bits} bits at {bandwidth_gb} GB/s",
    mistakes=[
        Mistake(
            "bits-for-bytes",
            "Eight times too long, as if each parameter had {bits} bytes and not bits, or a GB/s were a Gbit/s.",
            Edit(" / 8", ""),
            see="01-bytes",
        ),
        Mistake(
            "gib-for-gb",
            "You took GB/s as 2^30 bytes a second. Bandwidths are in GB, 10^9 bytes.",
            Edit("10**9", "2**30"),
            see="01-link",
        ),
        Mistake(
            "bytes-per-parameter-forgotten",
            "You sent one byte for each parameter; it has {bits} bits.",
            Edit(" * bits / 8", ""),
            see="01-bytes",
        ),
        Mistake(
            "upside-down",
            "You divided the bandwidth by the bytes: that is how many copies a second make. Seconds are "
            "bytes over B/s.",
            Edit(
                "parameters * bits / 8 / (bandwidth_gb * 10**9)",
                "bandwidth_gb * 10**9 / (parameters * bits / 8)",
            ),
            see="01-link",
        ),
        Mistake(
            "giga-forgotten",
            "The bandwidth is in GB/s: 10^9 bytes a second each.",
            Edit("(bandwidth_gb * 10**9)", "bandwidth_gb"),
            see="01-link",
        ),
        Mistake(
            "twice-the-bytes",
            "Twice too long: you sent the weights there and back, or halved the bandwidth, or counted "
            "gradients too. Only the weights are copied, once, at the rate given.",
            Edit("parameters *", "2 * parameters *"),
            see="01-link",
        ),
        Mistake(
            "twice-the-rate",
            "Half the time: you doubled the bandwidth. It is what goes one way, and the copy goes one way.",
            Edit("(bandwidth_gb * 10**9)", "(2 * bandwidth_gb * 10**9)"),
            see="01-bytes",
        ),
        Mistake(
            "whole-bytes",
            "You cut bits / 8 to whole bytes: a value of {bits} bits then takes none.",
            Edit("parameters * bits / 8", "parameters * (bits // 8)"),
            see="01-bytes",
        ),
        Mistake(
            "always-bf16",
            "You gave each parameter two bytes, as in BF16. This one has {bits} bits.",
            Edit(" * bits / 8", " * 2"),
            see="01-bytes",
        ),
        Mistake(
            "milliseconds",
            "A thousand times too long: that counts milliseconds, or it takes the GB/s as MB/s.",
            Edit("10**9", "10**6"),
            see="01-bytes",
        ),
        Mistake(
            "whole-seconds",
            "You cut the seconds to whole numbers: divide with `/`, not `//`.",
            Edit("8 / (", "8 // ("),
            see="01-bytes",
        ),
    ],
    hints=[
        "An amount over a rate is a time: bytes over bytes per second.",
        "The bytes are parameters × bits / 8; the rate is bandwidth_gb × 10^9 B/s.",
        "`return parameters * bits / 8 / (bandwidth_gb * 10**9)`",
    ],
)

# -- 1.11


def step_bytes(rows, widths):
    P = sum(a * b for a, b in zip(widths[:-1], widths[1:], strict=True))
    states = 4 * P + 4 * P + 2 * 4 * P
    kept = 4 * rows * sum(widths[:-1])
    return states + kept


def draw_network(rng):
    return {
        "rows": rng.choice((3, 5, 7, 19)),
        "widths": [rng.randint(2, 40) for _ in range(rng.randint(2, 5))],
    }


STEP_BYTES = Exercise(
    id="1.11",
    title="Every tensor of a training step",
    notebook="01_tensors",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=3,
    minutes=8,
    unit="B",
    answer=step_bytes,
    cases=[
        {"rows": 32, "widths": [64, 128, 10]},
        {"rows": 3, "widths": [5, 7]},
        {"rows": 11, "widths": [2, 13, 3, 17]},
    ],
    draw=draw_network,
    case_text="{rows} rows, widths {widths}",
    mistakes=[
        Mistake(
            "output-kept",
            "You keep the output of the last layer, too. Its product needs its input for the backward, not "
            "its output.",
            Edit("sum(widths[:-1])", "sum(widths)"),
            see="01-step-kept",
        ),
        Mistake(
            "input-not-kept",
            "You left out the input: the first layer's weight gradient needs it.",
            Edit("sum(widths[:-1])", "sum(widths[1:-1])"),
            see="01-step-kept",
        ),
        Mistake(
            "outputs-for-inputs",
            "You keep what every layer puts out. A layer's weight gradient needs what went into it: the "
            "input, not the last output.",
            Edit("sum(widths[:-1])", "sum(widths[1:])"),
            see="01-step-kept",
        ),
        Mistake(
            "relu-twice",
            "You count each hidden activation twice, before and after the ReLU. ReLU keeps its output, and "
            "that is the very tensor the next layer keeps.",
            Edit("sum(widths[:-1])", "(widths[0] + 2 * sum(widths[1:-1]))"),
            see="01-step-kept",
        ),
        Mistake(
            "three-arrays",
            "You have 12 B for each weight. There are four FP32 values for each: the weight, its gradient "
            "and two moments.",
            Edit("4 * P + 4 * P", "4 * P"),
            see="01-step",
        ),
        Mistake(
            "one-row",
            "You keep the activations of one row; there are {rows}.",
            Edit("4 * rows *", "4 *"),
            see="01-step",
        ),
        Mistake(
            "states-only",
            "That is weights, gradients and moments: 16 B a parameter. The input and the hidden "
            "activations are tensors, too.",
            Edit("states + kept", "states"),
            see="01-step",
        ),
        Mistake(
            "states-per-row",
            "You have weights, gradients or moments for every row. Rows share them; only activations grow "
            "with the rows.",
            Edit("states + kept", "rows * states + kept"),
            see="01-step",
        ),
        Mistake(
            "no-moments",
            "You have weights and gradients, 8 B a parameter. AdamW's two moments are missing.",
            Edit(" + 2 * 4 * P", ""),
            see="01-step-kept",
        ),
        Mistake(
            "weights-alone",
            "Of the model you have the weights alone, 4 B a parameter. Training adds a gradient and two moments for each.",
            Edit("4 * P + 4 * P + 2 * 4 * P", "4 * P"),
            see="01-step-kept",
        ),
        Mistake(
            "elements-for-bytes",
            "That is the number of values; each has four bytes in FP32.",
            Edit("return states + kept", "return (states + kept) // 4"),
            see="01-step-kept",
        ),
        Mistake(
            "half-activations",
            "You gave the activations two bytes a value. They are FP32 here, like the weights.",
            Edit("4 * rows *", "2 * rows *"),
            see="01-step-kept",
        ),
        Mistake(
            "with-biases",
            "You counted a bias for every output. These layers have none.",
            Edit("sum(a * b for", "sum((a + 1) * b for"),
            see="01-step-kept",
        ),
        Mistake(
            "step-counters",
            "You counted AdamW's step counters, 4 B for every layer. They are to be left out here.",
            Edit("return states + kept", "return states + kept + 4 * (len(widths) - 1)"),
            see="01-step-kept",
        ),
        Mistake(
            "last-layer-left-out",
            "The last layer's weights are missing: {widths} are one layer fewer than widths.",
            Edit("zip(widths[:-1], widths[1:], strict=True)", "zip(widths[:-2], widths[1:-1], strict=True)"),
            see="01-step-kept",
        ),
    ],
    hints=[
        "Two kinds of tensors: those with one value for each weight, and those with one for each row.",
        "16 B for each weight (weight, gradient, two moments). For each row, FP32 values of the input and "
        "of every hidden width.",
        "`P` sums the products of neighbouring widths; return `16 * P + 4 * rows * sum(widths[:-1])`.",
    ],
)

# -- 1.12

WHICH_BUDGET = Exercise(
    id="1.12",
    title="Which budget changed, and why",
    notebook="01_tensors",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=2,
    answer="c",
    options={
        "a": "Storage fell, because a clone is a view and takes no bytes of its own.",
        "b": "Data movement fell, because each batch's last states are now read only once.",
        "c": (
            "Storage fell, because each batch's whole storage dies with its last other tensor; the copies "
            "add a little data movement."
        ),
        "d": "Arithmetic fell, because autograd no longer computes on the other positions.",
    },
    mistakes=[
        Mistake(
            "clone-as-view",
            "It is the other way about: the slice was the view. A clone owns bytes, few of them, and so "
            "the large storage can be freed.",
            "a",
            see="01-keep",
        ),
        Mistake(
            "copy-as-saving",
            "A copy reads and writes: it adds data movement, a little. What ran out was memory that is held.",
            "b",
            see="01-keep",
        ),
        Mistake(
            "fewer-flops",
            "No arithmetic changed: the model computed every position before the list got its entry, and "
            "still does.",
            "d",
            see="01-keep",
        ),
    ],
    hints=[
        "What grew with every batch until memory ran out?",
        "A view keeps its whole storage alive. What does a clone keep alive?",
        "Held bytes fell by about the number of positions; the price is a small copy for each batch.",
    ],
)

EXERCISES = [
    QUERIES_BYTES,
    RANK,
    CALCULATOR,
    UNIQUE_BYTES,
    BYTES_REACHED,
    LAST_STATES,
    ALLOCATED_BYTES,
    RESERVED_BYTES,
    WHICH_DEVICE,
    COPY_SECONDS,
    STEP_BYTES,
    WHICH_BUDGET,
]
