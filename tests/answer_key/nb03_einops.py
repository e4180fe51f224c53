"""Answers, hints and known mistakes of notebooks/03_einops.ipynb."""

import random

from lecture_lib.exercises.key import Edit, Exercise, Mistake

SMALL = (2, 3, 5, 7, 11, 13)


def numbers(rng, *shape):
    """Small whole numbers, so that every order of summation gives the same bits."""
    if len(shape) == 1:
        return [rng.choice((-4, -3, -2, -1, 1, 2, 3, 4)) for _ in range(shape[0])]
    return [numbers(rng, *shape[1:]) for _ in range(shape[0])]


def tensor(rng, *shape):
    return {"array": numbers(rng, *shape), "dtype": "float64"}


# -- recall

STATES = Exercise(
    id="3.1",
    title="What a model's training state weighs",
    notebook="03_einops",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="GB",
    answer="36 GB",
    mistakes=[
        Mistake("moments-left-out", "AdamW's two moments are missing: 4 bytes a parameter, twice.", "12 GB"),
        Mistake(
            "eight-bytes",
            "That is 8 bytes a parameter: either one moment of two, or both of them in BF16; they are FP32, "
            "4 bytes each.",
            "24 GB",
        ),
        Mistake("all-fp32", "Weights and gradients are BF16 here: 2 bytes each, not 4.", "48 GB"),
        Mistake("gib-for-gb", "33.5 is the number of GiB (2^30 bytes each); a GB has 10^9.", "33.5 GB"),
        Mistake("weights-only", "That is the weights alone, 2 bytes each.", "6 GB", see=""),
        Mistake("no-gradients", "The gradients are missing: 2 bytes for each parameter.", "30 GB", see=""),
        Mistake("bits-for-bytes", "That is the number of bits; eight of them are a byte.", "288 GB", see=""),
        Mistake(
            "seven-billion", "That is for 7 billion parameters; this model has 3 billion.", "84 GB", see=""
        ),
        Mistake(
            "two-missing",
            "That is 6 bytes a parameter: the gradients and one of the two moments are missing.",
            "18 GB",
            see="",
        ),
    ],
    hints=[
        "Four rows: weights, gradients, and AdamW's two moments.",
        "2 + 2 + 4 + 4 bytes for each parameter.",
        "12 bytes times 3 billion, in units of 10^9 bytes.",
    ],
)

EXPANDED = Exercise(
    id="3.2",
    title="What is behind an expanded row",
    notebook="03_einops",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="B",
    answer="3072 B",
    mistakes=[
        Mistake(
            "logical-bytes",
            "These are the logical bytes. All 1,024 rows read one storage, over and over: a stride of 0.",
            "3145728 B",
        ),
        Mistake(
            "nothing",
            "Expanding adds nothing, but the 768 values themselves are still behind it.",
            "0 B",
        ),
        Mistake("elements", "That is the number of values; each takes four bytes in FP32.", "768 B"),
        Mistake("as-bf16", "You gave each value two bytes; FP32 has four.", "1536 B", see=""),
        Mistake(
            "rows-for-columns",
            "You weighed 1,024 values. The row that is repeated has 768.",
            "4096 B",
            see="",
        ),
        Mistake(
            "expanded-elements",
            "That is the number of values that `rows` shows. Behind them are 768, of four bytes each.",
            "786432 B",
            see="",
        ),
    ],
    hints=[
        "Does `expand` make new values, or a new way to read the old ones?",
        "The new axis has stride 0: every row is the same 768 values.",
        "768 values of four bytes.",
    ],
)

STRIDES = Exercise(
    id="3.3",
    title="The strides of three axes",
    notebook="03_einops",
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="a",
    options={
        "a": "(240, 48, 1)",
        "b": "(1, 2, 10)",
        "c": "(5, 48, 1)",
        "d": "(960, 192, 4)",
    },
    mistakes=[
        Mistake(
            "first-axis-fastest",
            "That lets the first axis run fastest. In torch the last one does: its neighbours are adjacent.",
            "b",
        ),
        Mistake(
            "sizes",
            "These are sizes of the axes behind. A stride is the product of all sizes behind: 5 × 48 for "
            "the first axis.",
            "c",
        ),
        Mistake("in-bytes", "These are bytes; torch gives strides in elements.", "d"),
    ],
    hints=[
        "How many elements lie between two neighbours on the last axis?",
        "One step on an axis passes over all elements of the axes behind it.",
        "1 for the last, 48 for the middle one, and 5 · 48 for the first.",
    ],
)


# -- a contraction


def draw_values(rng):
    batch, query, key, dim = rng.sample((2, 3, 4, 5, 7), 4)
    return {"A": tensor(rng, batch, query, key), "V": tensor(rng, batch, key, dim)}


VALUES = Exercise(
    id="3.4",
    title="The missing row: weighted values",
    notebook="03_einops",
    kind="driver",
    driver="einops",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    answer="batch query key, batch key dim -> batch query dim",
    cases=[draw_values(random.Random(31)), draw_values(random.Random(32))],
    draw=draw_values,
    mistakes=[
        Mistake(
            "key-kept",
            "You kept `key`, so nothing is summed: a query's output adds up what all keys contribute.",
            Edit("-> batch query dim", "-> batch query key dim"),
            see="03-scores",
        ),
        Mistake(
            "key-named-twice",
            "The keys of A and the positions of V are one axis, and you gave it two names. Each is then "
            "summed alone, and no error says so.",
            Edit("batch key dim", "batch position dim"),
            see="03-typo",
        ),
        Mistake(
            "batch-summed",
            "`batch` is missing after the arrow, so the examples are added up.",
            Edit("-> batch query dim", "-> query dim"),
            see="03-scores",
        ),
        Mistake(
            "queries-summed",
            "`query` is missing after the arrow, so all queries are added up; each has an output of its own.",
            Edit("-> batch query dim", "-> batch dim"),
            see="03-scores",
        ),
        Mistake(
            "transposed",
            "The sums are right and two axes are swapped: the result is (batch, query, dim).",
            Edit("-> batch query dim", "-> batch dim query"),
            see="03-scores",
        ),
    ],
    hints=[
        "Which axis do A and V share besides the batch, and does the output still have it?",
        "A is batch query key, V is batch key dim. Only what stands after the arrow is left.",
        "'batch query key, batch key dim -> …': drop the shared name that is to be summed.",
    ],
)


# -- attention


def grouped_attention(Q, K, V):
    from einops import einsum, rearrange

    Q = rearrange(Q, "batch (kv group) query dim -> batch kv group query dim", kv=K.shape[1])
    S = einsum(Q, K, "batch kv group query dim, batch kv key dim -> batch kv group query key")
    A = (S / Q.shape[-1] ** 0.5).softmax(dim=-1)
    out = einsum(A, V, "batch kv group query key, batch kv key dim -> batch kv group query dim")
    return rearrange(out, "batch kv group query dim -> batch (kv group) query dim")


def masked_as_well(Q, K, V):
    import torch

    share = Q.shape[1] // K.shape[1]
    K, V = K.repeat_interleave(share, dim=1), V.repeat_interleave(share, dim=1)
    return torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=True)


def grouped_case(rng, batch, kv, group, query, key, dim):
    return {
        "Q": tensor(rng, batch, kv * group, query, dim),
        "K": tensor(rng, batch, kv, key, dim),
        "V": tensor(rng, batch, kv, key, dim),
    }


def draw_grouped(rng):
    kv, group = rng.choice(((2, 3), (3, 2), (2, 4), (4, 2), (3, 4)))
    batch, query, key, dim = rng.sample((1, 2, 3, 4, 5), 4)
    return grouped_case(rng, batch, kv, group, query, key + 1, dim + 1)


GROUPED = Exercise(
    id="3.5",
    title="Query heads that share a key",
    notebook="03_einops",
    kind="function",
    level="core",
    difficulty="demanding",
    points=3,
    minutes=10,
    answer=grouped_attention,
    cases=[
        grouped_case(random.Random(51), 2, 3, 2, 1, 5, 4),
        grouped_case(random.Random(52), 1, 2, 3, 4, 3, 5),
        grouped_case(random.Random(53), 3, 1, 2, 2, 4, 3),
    ],
    draw=draw_grouped,
    mistakes=[
        Mistake(
            "heads-interleaved",
            "Your neighbours have different keys: head h uses KV head h mod kv. Neighbours share one, "
            "head h uses h // group, which is `(kv group)`.",
            [
                Edit("(kv group) query dim ->", "(group kv) query dim ->"),
                Edit("-> batch (kv group)", "-> batch (group kv)"),
            ],
            see="03-split",
        ),
        Mistake(
            "scale-forgotten",
            "You did not divide the scores by √dim before the softmax.",
            Edit("(S / Q.shape[-1] ** 0.5)", "S"),
            see="03-scale",
        ),
        Mistake(
            "scale-not-rooted",
            "You divided by dim; the spread of the scores is its square root.",
            Edit(" ** 0.5", ""),
            see="03-scale",
        ),
        Mistake(
            "softmax-over-queries",
            "Your softmax runs over the queries. A query's weights on all keys add up to 1: it runs over key.",
            Edit("dim=-1", "dim=-2"),
            see="03-parts",
        ),
        Mistake(
            "no-softmax",
            "You weighted the values by the scores themselves; a softmax over the keys belongs between.",
            Edit(".softmax(dim=-1)", ""),
            see="03-parts",
        ),
        Mistake(
            "masked",
            "You masked later keys; here every query sees all keys.",
            masked_as_well,
            see="03-ex5-prompt",
        ),
        Mistake(
            "heads-not-merged",
            "The values are right and the heads are still two axes; merge them as you split them, "
            "`(kv group)`.",
            Edit('rearrange(out, "batch kv group query dim -> batch (kv group) query dim")', "out"),
            see="03-split",
        ),
        Mistake(
            "multiplied-by-the-scale",
            "You multiplied the scores by √dim; they are divided by it.",
            Edit("S / Q.shape[-1] ** 0.5", "S * Q.shape[-1] ** 0.5"),
            see="03-split",
        ),
        Mistake(
            "scaled-by-keys",
            "You divided by the root of the number of keys. It is dim that the scores sum over.",
            Edit("S / Q.shape[-1] ** 0.5", "S / K.shape[2] ** 0.5"),
            see="03-split",
        ),
        Mistake(
            "one-kv-head",
            "All your query heads use KV head 0. Each group has its own.",
            Edit("    S = einsum", "    K, V = K[:, :1].expand_as(K), V[:, :1].expand_as(V)\n    S = einsum"),
            see="03-split",
        ),
        Mistake(
            "interleaved-unscaled",
            "Two slips: neighbours share a KV head, `(kv group)`, and the scores are divided by √dim.",
            [
                Edit(
                    '"batch (kv group) query dim -> batch kv group query dim"',
                    '"batch (group kv) query dim -> batch kv group query dim"',
                ),
                Edit(
                    'batch kv group query dim -> batch (kv group) query dim")\n',
                    'batch kv group query dim -> batch (group kv) query dim")\n',
                ),
                Edit("S / Q.shape[-1] ** 0.5", "S"),
            ],
            see="03-split",
        ),
        Mistake(
            "queries-unscaled",
            "Two slips: the softmax runs over the keys, and the scores are divided by √dim before it.",
            [Edit("softmax(dim=-1)", "softmax(dim=-2)"), Edit("S / Q.shape[-1] ** 0.5", "S")],
            see="03-split",
        ),
    ],
    equivalent=[
        "Q = rearrange(Q, 'batch (kv group) query dim -> batch kv group query dim', kv=V.shape[1])"
        "  # K and V have the same heads",
        "A = (S / K.shape[-1] ** 0.5).softmax(dim=-1)  # Q, K and V have the same dim",
        "A = (S / V.shape[-1] ** 0.5).softmax(dim=-1)  # Q, K and V have the same dim",
    ],
    hints=[
        "Split Q's head axis into the head it shares and its place in the group; then K has one of the two.",
        "rearrange(Q, 'batch (kv group) query dim -> batch kv group query dim', kv=K.shape[1]). Scores keep "
        "both kv and group; so do the weighted values. Between them, √dim and a softmax over key.",
        "einsum(Q, K, 'batch kv group query dim, batch kv key dim -> batch kv group query key'), scale, "
        "softmax(dim=-1), einsum with V in the same way, and merge '(kv group)' at the end.",
    ],
)


# -- splitting and reducing


def unpack_case(rng, part, head, dim, batch, position):
    return {
        "X": tensor(rng, batch, position, part * head * dim),
        "operation": "rearrange",
        "part": part,
        "head": head,
    }


def draw_unpack(rng):
    head, dim, batch, position = rng.sample((2, 3, 4, 5), 4)
    return unpack_case(rng, rng.choice((2, 3)), head, dim, batch, position)


UNPACK = Exercise(
    id="3.6",
    title="Unpack a fused projection",
    notebook="03_einops",
    kind="driver",
    driver="einops",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=5,
    answer="batch position (part head dim) -> part batch head position dim",
    cases=[
        unpack_case(random.Random(61), 3, 2, 5, 1, 4),
        unpack_case(random.Random(62), 2, 4, 3, 2, 5),
    ],
    draw=draw_unpack,
    mistakes=[
        Mistake(
            "head-by-head",
            "You read the features head by head, each with its own Q, K and V, as GPT-NeoX packs them. "
            "Here all heads of Q come first.",
            Edit("(part head dim)", "(head part dim)"),
            see="03-split",
        ),
        Mistake(
            "dim-before-head",
            "Within a part you read the heads as the fastest axis. A head's features lie together: its dim "
            "is written last.",
            Edit("(part head dim)", "(part dim head)"),
            see="03-split",
        ),
        Mistake(
            "position-before-head",
            "The split is right; the result has the heads before the positions.",
            Edit("batch head position dim", "batch position head dim"),
            see="03-split",
        ),
        Mistake(
            "parts-not-first",
            "The split is right; the parts come first in the result, so that it unpacks into Q, K and V.",
            Edit("-> part batch head", "-> batch part head"),
            see="03-split",
        ),
    ],
    hints=[
        "Write the packed axis in brackets, from what changes slowest to what changes fastest.",
        "All of Q, then all of K, then all of V: part is slowest. Within one, head after head.",
        "'batch position (part head dim) -> …', with the five axes of the result in the order asked for.",
    ],
)


def masked_mean(x, mask):
    from einops import einsum, reduce

    real = mask.to(x.dtype)
    total = einsum(x, real, "batch position feature, batch position -> batch feature")
    count = reduce(real, "batch position -> batch 1", "sum")
    return total / count


def mask_ignored(x, mask):
    return x.mean(dim=1)


def masked_case(rng, batch, position, feature):
    """Every example has real positions and padded ones, and no two examples as many."""
    lengths = rng.sample(range(1, position), batch)
    starts = [(position - length) * (example % 2) for example, length in enumerate(lengths)]
    mask = [
        [start <= place < start + length for place in range(position)]  # padded behind, or before
        for start, length in zip(starts, lengths, strict=True)
    ]
    return {"x": tensor(rng, batch, position, feature), "mask": {"array": mask, "dtype": "bool"}}


def draw_masked(rng):
    batch = rng.choice((2, 3))
    return masked_case(rng, batch, rng.choice((5, 6, 7)), rng.choice((4, 8)))


MASKED = Exercise(
    id="3.7",
    title="A mean that leaves the padding out",
    notebook="03_einops",
    kind="function",
    level="core",
    difficulty="steady",
    points=2,
    minutes=6,
    answer=masked_mean,
    cases=[masked_case(random.Random(71), 2, 5, 3), masked_case(random.Random(72), 3, 7, 4)],
    draw=draw_masked,
    mistakes=[
        Mistake(
            "divided-by-all-positions",
            "You left the padding out of the sum and counted it in the division: divide by the number of "
            "real positions.",
            Edit('reduce(real, "batch position -> batch 1", "sum")', "x.shape[1]"),
            see="03-pool",
        ),
        Mistake(
            "padding-summed",
            "You divided by the number of real positions, and still added up the padding.",
            Edit(
                'einsum(x, real, "batch position feature, batch position -> batch feature")',
                "x.sum(dim=1)",
            ),
            see="03-pool",
        ),
        Mistake(
            "mask-ignored",
            "That is the mean over all positions, padding and all.",
            mask_ignored,
            see="03-pool",
        ),
        Mistake(
            "one-count-for-all",
            "You divided by the real positions of the whole batch; each example has its own number.",
            Edit("-> batch 1", "-> 1 1"),
            see="03-pool",
        ),
        Mistake(
            "mask-upside-down",
            "You averaged the padding: the mask is True where a position is real.",
            Edit("mask.to(x.dtype)", "(~mask).to(x.dtype)"),
            see="03-ex7-prompt",
        ),
        Mistake(
            "sum-not-mean",
            "That is the sum over the real positions; a mean divides it by their number.",
            Edit("total / count", "total"),
            see="03-pool",
        ),
        Mistake(
            "batch-averaged",
            "You summed over the batch as well: `batch` has to stand after the arrow.",
            [Edit("-> batch feature", "-> feature"), Edit("-> batch 1", "-> 1")],
            see="03-scores",
        ),
        Mistake(
            "inverted-sum",
            "Two slips: that is the sum over the padding. The mask is True where a position is real, and a mean divides by their number.",
            [Edit("real = mask.to(x.dtype)", "real = (~mask).to(x.dtype)"), Edit("total / count", "total")],
            see="03-pool",
        ),
        Mistake(
            "inverted-numerator",
            "You added up the padding and divided by the number of real positions: the mask is upside down in the sum.",
            Edit("einsum(x, real,", "einsum(x, 1 - real,"),
            see="03-pool",
        ),
        Mistake(
            "one-more",
            "You divided by one more than the number of real positions.",
            Edit("total / count", "total / (count + 1)"),
            see="03-pool",
        ),
        Mistake(
            "first-positions",
            "You averaged the first positions, as many as are real. The real ones may stand elsewhere: use the mask itself.",
            Edit(
                "    total = einsum",
                "    real = real.sort(dim=1, descending=True).values\n    total = einsum",
            ),
            see="03-pool",
        ),
    ],
    hints=[
        "Two things depend on the mask: what is added up, and by what it is divided.",
        "The sum is a contraction of x with the mask as numbers; the count is a reduction of the mask alone, "
        "for each example.",
        "einsum(x, real, 'batch position feature, batch position -> batch feature') over reduce(real, "
        "'batch position -> batch 1', 'sum'), with real = mask.to(x.dtype).",
    ],
)


# -- the silent typo


def mended_attention(Q, K, V):
    from einops import einsum

    S = einsum(Q, K, "batch query dim, batch key dim -> batch query key")
    A = (S / Q.shape[-1] ** 0.5).softmax(dim=-1)
    return einsum(A, V, "batch query key, batch key dim -> batch query dim")


def attention_case(rng, batch, query, key, dim):
    return {
        "Q": tensor(rng, batch, query, dim),
        "K": tensor(rng, batch, key, dim),
        "V": tensor(rng, batch, key, dim),
    }


def draw_typo(rng):
    return attention_case(rng, *rng.sample((2, 3, 4, 5), 4))


BATCH_TYPO = Edit("batch key dim -> batch query key", "bach key dim -> batch query key")
KEY_TYPO = Edit("batch key dim -> batch query dim", "batch keys dim -> batch query dim")

MENDED = Exercise(
    id="3.8",
    title="Find the two silent typos",
    notebook="03_einops",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=5,
    answer=mended_attention,
    cases=[attention_case(random.Random(81), 2, 3, 4, 5), attention_case(random.Random(82), 3, 2, 5, 4)],
    draw=draw_typo,
    mistakes=[
        Mistake(
            "batch-still-misspelt",
            "One is mended. The scores still meet the keys of all examples together: in the first pattern a "
            "name stands only once.",
            BATCH_TYPO,
            see="03-typo-batch",
        ),
        Mistake(
            "key-still-misspelt",
            "In the last pattern the keys have two names, and each is summed alone. The weights of a query add "
            "up to 1, so each gets the plain sum of V, whatever the scores are.",
            KEY_TYPO,
            see="03-typo",
        ),
        Mistake(
            "softmax-over-queries",
            "The softmax ran over the keys, the last axis, and does no longer.",
            Edit("dim=-1", "dim=-2"),
            see="03-parts",
        ),
        Mistake(
            "scale-lost",
            "The names are right; the division by √dim got lost.",
            Edit("(S / Q.shape[-1] ** 0.5)", "S"),
            see="03-scale",
        ),
        Mistake(
            "scale-not-rooted",
            "The names are right; the scores are to be divided by √dim, not by dim.",
            Edit("** 0.5", "** 1.0"),
            see="03-typo-batch",
        ),
        Mistake(
            "dim-misspelt",
            "A new slip: in the first pattern `dim` stands once in each operand under two names, and each is summed alone.",
            Edit("batch key dim -> batch query key", "batch key dimm -> batch query key"),
            see="03-typo-batch",
        ),
        Mistake(
            "batch-and-scale",
            "Two slips: in the first pattern `batch` is still misspelt, and the division by √dim got lost.",
            [
                Edit("batch key dim -> batch query key", "bach key dim -> batch query key"),
                Edit("S / Q.shape[-1] ** 0.5", "S"),
            ],
            see="03-typo-batch",
        ),
        Mistake(
            "key-and-softmax",
            "Two slips: in the last pattern `key` is still misspelt, and the softmax no longer runs over the keys.",
            [
                Edit("batch key dim -> batch query dim", "batch keys dim -> batch query dim"),
                Edit("softmax(dim=-1)", "softmax(dim=-2)"),
            ],
            see="03-typo-batch",
        ),
    ],
    equivalent=[
        "A = (S / K.shape[-1] ** 0.5).softmax(dim=-1)  # Q, K and V have the same dim",
        "A = (S / V.shape[-1] ** 0.5).softmax(dim=-1)  # Q, K and V have the same dim",
    ],
    hints=[
        "Count how often each name stands in its pattern. Which one stands once?",
        "`bach` and `keys`.",
        "K's first axis is batch, and V's second is key.",
    ],
)


def lonely_axes(pattern):
    names = pattern.replace(",", " ").replace("->", " ").split()
    return sorted(name for name in names if names.count(name) == 1)


def summed_axes(pattern):
    inputs, output = pattern.split("->")
    return sorted(set(inputs.replace(",", " ").split()) - set(output.split()))


def in_one_input(pattern):
    names = pattern.split("->")[0].replace(",", " ").split()
    return sorted(name for name in names if names.count(name) == 1)


TEMPLATES = (
    "batch query dim, batch key dim -> batch query key",
    "batch head query key, batch head key dim -> batch head query dim",
    "row d_in, d_in d_out -> row d_out",
    "batch position d_in, batch position d_out -> d_in d_out",
    "token width, expert width depth -> token expert depth",
)


def draw_lonely(rng):
    inputs, output = rng.choice(TEMPLATES).split("->")
    left, right = (part.split() for part in inputs.split(","))
    for _ in range(rng.choice((0, 1, 1, 2))):
        side = rng.choice((left, right))
        place = rng.randrange(len(side))
        name = side[place]
        side[place] = rng.choice((name + name[-1], name[:-1], name + "s"))
    return {"pattern": f"{' '.join(left)}, {' '.join(right)} -> {output.strip()}"}


LONELY = Exercise(
    id="3.9",
    title="A guard against the silent typo",
    notebook="03_einops",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=6,
    answer=lonely_axes,
    cases=[
        {"pattern": "batch query dim, batch key dimm -> batch query key"},
        {"pattern": "batch head query key, batch head key dim -> batch head query dim"},
        {"pattern": "row d_1, d_2 column -> row column"},
        {"pattern": "batch position d_in, bach position d_out -> d_in d_out"},
    ],
    draw=draw_lonely,
    case_text="{pattern}",
    mistakes=[
        Mistake(
            "all-summed-axes",
            "You listed every axis that is summed. One that both inputs name is summed on purpose; a lonely "
            "one stands once in the whole pattern.",
            summed_axes,
            see="03-typo",
        ),
        Mistake(
            "output-forgotten",
            "You looked at the inputs alone. A name that stands in one input and after the arrow is kept, "
            "and stands twice.",
            in_one_input,
            see="03-typo",
        ),
        Mistake(
            "letters-not-names",
            "You searched the text, where `dim` is also found within `dimm`; compare whole names.",
            Edit("names.count(name)", "pattern.count(name)"),
            see="03-ex9-prompt",
        ),
        Mistake(
            "comma-sticks",
            "A comma sticks to a name, so that `dim,` and `dim` count as two names.",
            Edit('.replace(",", " ")', ""),
            see="03-ex9-prompt",
        ),
        Mistake(
            "unsorted",
            "The names are right; they are wanted in alphabetical order.",
            Edit("sorted(", "list("),
            see="03-ex9-prompt",
        ),
        Mistake(
            "arrow-counted",
            "You counted the arrow `->` as a name.",
            Edit('.replace("->", " ")', ""),
            see="03-typo",
        ),
        Mistake(
            "backwards",
            "The names are right, and in the order from z to a.",
            Edit("== 1)", "== 1)[::-1]"),
            see="03-typo",
        ),
        Mistake(
            "twice-for-once",
            "You listed the names that stand twice. The lonely ones stand once.",
            Edit("== 1", "== 2"),
            see="03-typo",
        ),
        Mistake(
            "first-input-alone",
            "You listed the lonely names of the first input alone. The second's count as well.",
            Edit(
                "if names.count(name) == 1",
                'if names.count(name) == 1 and name in pattern.partition(",")[0].split()',
            ),
            see="03-typo",
        ),
        Mistake(
            "letters-only",
            "You took names apart at underscores and digits; `d_in` is one name.",
            Edit(
                'pattern.replace(",", " ").replace("->", " ").split()',
                '"".join(c if c.isalpha() else " " for c in pattern).split()',
            ),
            see="03-typo",
        ),
    ],
    hints=[
        "Make one list of all names of the pattern, inputs and output together.",
        "Replace the comma and the arrow by a space, then split. Which names does the list hold once?",
        "sorted(name for name in names if names.count(name) == 1).",
    ],
)


# -- view or copy


def merge_bytes(shape, strides, axis, element_bytes):
    from math import prod

    if strides[axis] == shape[axis + 1] * strides[axis + 1]:
        return 0
    return prod(shape) * element_bytes


def whole_contiguous(shape, strides, axis, element_bytes):
    from math import prod

    for place in range(len(shape)):
        if strides[place] != prod(shape[place + 1 :]):
            return prod(shape) * element_bytes
    return 0


def draw_merge(rng):
    """A contiguous storage read in another order of axes; in half of the cases the two lie together."""
    count = rng.choice((3, 4))
    sizes = rng.sample(SMALL[:5], count)
    axis = rng.randrange(count - 1)
    order = rng.sample(range(count), count)  # slowest first
    if rng.random() < 0.5:
        order.remove(axis + 1)
        order.insert(order.index(axis) + 1, axis + 1)
    strides, step = [0] * count, 1
    for place in reversed(order):
        strides[place], step = step, step * sizes[place]
    return {"shape": sizes, "strides": strides, "axis": axis, "element_bytes": rng.choice((1, 2, 4, 8))}


MERGE = Exercise(
    id="3.10",
    title="The missing row: a merge",
    notebook="03_einops",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=3,
    minutes=7,
    unit="B",
    answer=merge_bytes,
    cases=[
        {"shape": [2, 5, 3], "strides": [15, 3, 1], "axis": 1, "element_bytes": 2},
        {"shape": [5, 2, 3], "strides": [3, 15, 1], "axis": 0, "element_bytes": 4},
        {"shape": [7, 2, 3], "strides": [3, 21, 1], "axis": 1, "element_bytes": 1},
        {"shape": [5, 2, 3, 7], "strides": [7, 105, 35, 1], "axis": 1, "element_bytes": 8},
        {"shape": [2, 3, 5], "strides": [1, 10, 2], "axis": 1, "element_bytes": 1},
        {"shape": [5, 3, 2], "strides": [10, 2, 1], "axis": 0, "element_bytes": 2},
        {"shape": [2, 3, 5], "strides": [30, 10, 1], "axis": 1, "element_bytes": 2},
    ],
    draw=draw_merge,
    case_text="shape {shape}, strides {strides}, axis {axis}, {element_bytes} B a value",
    mistakes=[
        Mistake(
            "always-a-view",
            "No copy anywhere. That holds for splitting and for moving axes; a merge needs one stride for "
            "both.",
            Edit("prod(shape) * element_bytes", "0"),
            see="03-view",
        ),
        Mistake(
            "always-a-copy",
            "A merge that only rewrites strides copies nothing: compare the two axes' strides.",
            Edit("return 0", "return prod(shape) * element_bytes"),
            see="03-view",
        ),
        Mistake(
            "contiguous-only",
            "The whole tensor need not be contiguous: only the two axes that are merged have to lie together.",
            whole_contiguous,
            see="03-view",
        ),
        Mistake(
            "wrong-size",
            "You multiplied by the size of the outer axis. One step there passes over the whole inner axis: "
            "shape[axis + 1] steps.",
            Edit("shape[axis + 1] * strides", "shape[axis] * strides"),
            see="03-view",
        ),
        Mistake(
            "order-only",
            "A larger stride outside is not enough: it must be exactly the inner size times the inner stride.",
            Edit("strides[axis] == shape[axis + 1] * strides[axis + 1]", "strides[axis] > strides[axis + 1]"),
            see="03-view",
        ),
        Mistake(
            "read-and-written",
            "You counted the bytes read as well; asked for are the bytes of the new storage.",
            Edit("prod(shape) * element_bytes", "2 * prod(shape) * element_bytes"),
            see="03-ex10-prompt",
        ),
        Mistake(
            "elements-for-bytes",
            "That is the number of values copied; each has {element_bytes} bytes.",
            Edit("prod(shape) * element_bytes", "prod(shape)"),
            see="03-view",
        ),
        Mistake(
            "bits-for-bytes",
            "That is in bits; `element_bytes` counts bytes already.",
            Edit("* element_bytes", "* element_bytes * 8"),
            see="03-view",
        ),
        Mistake(
            "always-fp32",
            "You gave every value four bytes. Here it has {element_bytes}.",
            Edit("* element_bytes", "* 4"),
            see="03-view",
        ),
        Mistake(
            "merged-axes-alone",
            "You copied the two merged axes alone. The copy holds the whole tensor.",
            Edit("prod(shape)", "shape[axis] * shape[axis + 1]"),
            see="03-view",
        ),
        Mistake(
            "condition-inverted",
            "It is the other way about: where the outer stride is the inner size times the inner stride, nothing is copied.",
            Edit("== shape", "!= shape"),
            see="03-view",
        ),
        Mistake(
            "axis-before",
            "You looked at the axis before: `axis` and `axis + 1` are merged.",
            Edit("    if strides", "    axis = max(axis - 1, 0)\n    if strides"),
            see="03-view",
        ),
    ],
    hints=[
        "When can one stride walk through both axes? Compare the outer stride with what the inner axis "
        "spans.",
        "strides[axis] has to equal shape[axis + 1] · strides[axis + 1]; then nothing is copied.",
        "Return 0 then, and else all elements times their bytes.",
    ],
)

COPIES = Exercise(
    id="3.11",
    title="Which one copies?",
    notebook="03_einops",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=2,
    answer="c",
    options={
        "a": '`rearrange(x, "batch position (head dim) -> batch head position dim", head=8)`',
        "b": '`rearrange(x, "batch position feature -> (batch position) feature")`',
        "c": '`rearrange(x, "batch position feature -> (position batch) feature")`',
        "d": '`repeat(x, "batch position feature -> batch group position feature", group=4)`',
    },
    mistakes=[
        Mistake(
            "split-copies",
            "Splitting an axis and moving the parts only writes new strides, whatever the layout.",
            "a",
            see="03-view",
        ),
        Mistake(
            "merge-in-order-copies",
            "Merging two axes in the order in which they lie is a view: batch's stride is position's size "
            "times its stride.",
            "b",
            see="03-view",
        ),
        Mistake(
            "repeat-copies",
            "An axis of its own is repeated with a stride of 0, without a copy; merged into another axis it "
            "would be copied.",
            "d",
            see="03-repeat",
        ),
    ],
    hints=[
        "Which of the four needs a stride that does not exist?",
        "Splits, moved axes and new axes need no copy. Merging needs the outer stride to be the inner size "
        "times the inner stride.",
        "With position outside, a step must be batch's size times batch's stride; it is 1 feature row.",
    ],
)


# -- cost


def scores_bytes(batch, head, query, key, dim, bits):
    return batch * head * query * key * bits // 8


def draw_scores(rng):
    batch, head, query, key, dim = rng.sample(SMALL, 5)
    return {
        "batch": batch,
        "head": head,
        "query": query,
        "key": 2 * key,
        "dim": dim,
        "bits": rng.choice((4, 8, 16, 32)),
    }


SCORES_ROW = Exercise(
    id="3.12",
    title="The missing row: the scores",
    notebook="03_einops",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="B",
    answer=scores_bytes,
    cases=[
        {"batch": 2, "head": 3, "query": 5, "key": 7, "dim": 11, "bits": 16},
        {"batch": 3, "head": 7, "query": 2, "key": 13, "dim": 5, "bits": 32},
        {"batch": 1, "head": 32, "query": 4096, "key": 1000, "dim": 128, "bits": 4},
    ],
    draw=draw_scores,
    case_text="batch={batch}, head={head}, query={query}, key={key}, dim={dim}, {bits} bits",
    mistakes=[
        Mistake(
            "dim-kept",
            "You gave each score {dim} values. `dim` does not stand after the arrow: it is summed.",
            Edit("* query * key", "* query * key * dim"),
            see="03-scores",
        ),
        Mistake(
            "one-head",
            "That is one of the {head} heads; each has scores of its own.",
            Edit("* head ", ""),
            see="03-cost",
        ),
        Mistake(
            "square",
            "Queries and keys need not be as many: {query} × {key}, no square.",
            Edit("query * key", "query * query"),
            see="03-cost",
        ),
        Mistake(
            "bits-for-bytes",
            "That is the number of bits; eight of them are a byte.",
            Edit(" // 8", ""),
            see="03-cost",
        ),
        Mistake(
            "total-instead",
            "That is the total. The blank row holds the scores alone.",
            Edit(
                "batch * head * query * key * bits",
                "batch * head * (query * key + query * dim + key * dim) * bits",
            ),
            see="03-scores",
        ),
        Mistake(
            "flops",
            "That is the FLOPs of the contraction. Asked for are the bytes of its result.",
            Edit("* key * bits // 8", "* key * dim * 2"),
            see="03-scores",
        ),
        Mistake(
            "elements-only",
            "That is the number of scores. Each takes {bits} bits.",
            Edit(" * bits // 8", ""),
            see="03-scores",
        ),
        Mistake(
            "read-as-well",
            "You counted the scores twice; they are written once.",
            Edit("return batch", "return 2 * batch"),
            see="03-scores",
        ),
        Mistake(
            "always-bf16",
            "You gave each score two bytes, as in BF16. Here it has {bits} bits.",
            Edit("* bits // 8", "* 2"),
            see="03-scores",
        ),
        Mistake(
            "dim-for-key",
            "You took dim where key belongs: a query has a score for every key.",
            Edit("* key * bits", "* dim * bits"),
            see="03-scores",
        ),
        Mistake(
            "whole-bytes",
            "You cut bits / 8 to whole bytes before you multiplied: a score of {bits} bits then takes none.",
            Edit("* bits // 8", "* (bits // 8)"),
            see="03-scores",
        ),
    ],
    hints=[
        "Read the scores' axes after the arrow of the pattern.",
        "batch · head · query · key values, of bits / 8 bytes each.",
        "batch * head * query * key * bits // 8; dim is not in it.",
    ],
)


def intensity(pattern, sizes, bits):
    from math import prod

    inputs, output = pattern.split("->")
    left, right = inputs.split(",")
    axes = set(left.split() + right.split())
    flops = 2 * prod(sizes[axis] for axis in axes)
    values = sum(prod(sizes[axis] for axis in part.split()) for part in (left, right, output))
    return flops / (values * bits / 8)


def intensity_axes_twice(pattern, sizes, bits):
    from math import prod

    inputs, output = pattern.split("->")
    left, right = inputs.split(",")
    flops = 2 * prod(sizes[axis] for axis in left.split() + right.split())
    values = sum(prod(sizes[axis] for axis in part.split()) for part in (left, right, output))
    return flops / (values * bits / 8)


def intensity_exact(pattern, sizes, bits):
    from math import prod

    inputs, output = pattern.split("->")
    left, right = inputs.split(",")
    outputs = prod(sizes[axis] for axis in output.split())
    terms = prod(sizes[axis] for axis in set(left.split() + right.split()) - set(output.split()))
    values = sum(prod(sizes[axis] for axis in part.split()) for part in (left, right, output))
    return outputs * (2 * terms - 1) / (values * bits / 8)


def intensity_of_outputs(pattern, sizes, bits):
    from math import prod

    inputs, output = pattern.split("->")
    left, right = inputs.split(",")
    flops = 2 * prod(sizes[axis] for axis in output.split())
    values = sum(prod(sizes[axis] for axis in part.split()) for part in (left, right, output))
    return flops / (values * bits / 8)


PATTERNS = (
    ("row d_in, d_in d_out -> row d_out", "row d_in d_out"),
    ("batch query dim, batch key dim -> batch query key", "batch query key dim"),
    ("batch position d_in, batch position d_out -> d_in d_out", "batch position d_in d_out"),
    ("batch head query key, batch head key dim -> batch query head dim", "batch head query key dim"),
    ("token expert, expert width -> token width", "token expert width"),
)


def draw_intensity(rng):
    pattern, axes = rng.choice(PATTERNS)
    names = axes.split()
    sizes = dict(zip(names, rng.sample(SMALL, len(names)), strict=True))
    return {"pattern": pattern, "sizes": sizes, "bits": rng.choice((8, 16, 32, 64))}


INTENSITY = Exercise(
    id="3.13",
    title="Intensity from a pattern",
    notebook="03_einops",
    kind="function",
    level="core",
    difficulty="steady",
    points=2,
    minutes=6,
    unit="FLOP/B",
    tolerance=1e-9,
    answer=intensity,
    cases=[
        {
            "pattern": "row d_in, d_in d_out -> row d_out",
            "sizes": {"row": 3, "d_in": 5, "d_out": 7},
            "bits": 16,
        },
        {
            "pattern": "batch query dim, batch key dim -> batch query key",
            "sizes": {"batch": 2, "query": 3, "key": 5, "dim": 7},
            "bits": 32,
        },
        {
            "pattern": "batch position d_in, batch position d_out -> d_in d_out",
            "sizes": {"batch": 2, "position": 11, "d_in": 3, "d_out": 5},
            "bits": 8,
        },
    ],
    draw=draw_intensity,
    case_text="{pattern} {sizes}, {bits} bits",
    mistakes=[
        Mistake(
            "fma-as-one",
            "Your FLOPs are half of what they should be: a multiply and its add are two.",
            Edit("2 * prod", "prod"),
            see="03-cost",
        ),
        Mistake(
            "bits-for-bytes",
            "You divided by bits; intensity is FLOPs for each byte, and eight bits are one.",
            Edit(" / 8", ""),
            see="03-cost",
        ),
        Mistake(
            "values-for-bytes",
            "You divided by the number of values; each of them takes {bits} / 8 bytes.",
            Edit(" * bits / 8", ""),
            see="03-cost",
        ),
        Mistake(
            "output-not-written",
            "You counted the two inputs; the output is written too.",
            Edit("(left, right, output)", "(left, right)"),
            see="03-cost",
        ),
        Mistake(
            "shared-axis-twice",
            "An axis that both inputs name is one axis: its size enters the FLOPs once.",
            intensity_axes_twice,
            see="03-cost",
        ),
        Mistake(
            "exact-count",
            "These are the exact FLOPs, an addition less for each output; leading order is asked for: 2 for each "
            "product.",
            intensity_exact,
            see="03-ex13-prompt",
        ),
        Mistake(
            "outputs-only",
            "You counted two FLOPs for each output; each is a sum over the axes that the output drops.",
            intensity_of_outputs,
            see="03-cost",
        ),
        Mistake(
            "upside-down",
            "That is bytes for each FLOP; intensity is FLOPs for each byte.",
            Edit("flops / (values * bits / 8)", "(values * bits / 8) / flops"),
            see="03-cost",
        ),
        Mistake(
            "output-read-too",
            "You counted the output twice; it is written once and not read.",
            Edit("(left, right, output)", "(left, right, output, output)"),
            see="03-cost",
        ),
        Mistake(
            "flops-alone",
            "That is the FLOPs. Intensity divides them by the bytes.",
            Edit("return flops / (values * bits / 8)", "return flops"),
            see="03-cost",
        ),
        Mistake(
            "always-bf16",
            "You gave every value 16 bits. Here it has {bits}.",
            Edit("values * bits / 8", "values * 2"),
            see="03-cost",
        ),
        Mistake(
            "upside-down-fma",
            "Two slips: intensity is FLOPs for each byte, and a multiply and its add are two.",
            [
                Edit("flops = 2 *", "flops ="),
                Edit("flops / (values * bits / 8)", "(values * bits / 8) / flops"),
            ],
            see="03-cost",
        ),
    ],
    hints=[
        "FLOPs need every axis once; bytes need every tensor once, the output among them.",
        "FLOPs: 2 times the product of the sizes of all names, each once. Values: for each of the three "
        "tensors the product of its own sizes.",
        "2 * prod over set(left.split() + right.split()), divided by (values · bits / 8).",
    ],
)


def qkv_bytes(hidden_size, num_attention_heads, num_key_value_heads, head_dim, bits):
    heads = num_attention_heads + 2 * num_key_value_heads
    return heads * head_dim * bits // 8


def three_hidden_sizes(hidden_size, num_attention_heads, num_key_value_heads, head_dim, bits):
    return 3 * hidden_size * bits // 8


DERIVED = Edit("heads * head_dim", "heads * (hidden_size // num_attention_heads)")
NO_VALUES = Edit("2 * num_key_value_heads", "num_key_value_heads")


def draw_qkv(rng):
    kv = rng.choice((1, 2, 4, 8))
    heads = kv * rng.choice((2, 3, 5, 7))
    head_dim = rng.choice((64, 80, 96, 128, 256))
    return {
        "hidden_size": heads * (head_dim + 16 * rng.randint(1, 5)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": head_dim,
        "bits": rng.choice((4, 8, 16, 32)),
    }


CALCULATOR = Exercise(
    id="3.14",
    title="Find what is wrong in this calculator",
    notebook="03_einops",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=6,
    unit="B",
    answer=qkv_bytes,
    cases=[
        {
            "hidden_size": 5120,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "bits": 16,
        },
        {
            "hidden_size": 3072,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "bits": 4,
        },
        {"hidden_size": 35, "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 3, "bits": 32},
    ],
    draw=draw_qkv,
    case_text=(
        "hidden {hidden_size}, {num_attention_heads} heads, {num_key_value_heads} KV heads of {head_dim}, "
        "{bits} bits"
    ),
    mistakes=[
        Mistake(
            "head-dim-derived",
            "The width of a head is still derived. {hidden_size} over {num_attention_heads} heads is not "
            "head_dim = {head_dim}.",
            DERIVED,
            see="03-split",
        ),
        Mistake(
            "values-left-out",
            "Queries and keys are there; the values are not, and they have as many heads as the keys.",
            NO_VALUES,
            see="03-ex14-prompt",
        ),
        Mistake(
            "unchanged",
            "Both faults are still there: a width is derived where it is given, and one of Q, K and V is "
            "missing.",
            [DERIVED, NO_VALUES],
            see="03-ex14-fault",
        ),
        Mistake(
            "three-hidden-sizes",
            "You took the hidden size three times. Q has {num_attention_heads} heads of {head_dim}, K and V have "
            "{num_key_value_heads} each.",
            three_hidden_sizes,
            see="03-ex14-prompt",
        ),
        Mistake(
            "kv-heads-as-query-heads",
            "You gave keys and values all {num_attention_heads} heads; they have {num_key_value_heads}.",
            Edit("2 * num_key_value_heads", "2 * num_attention_heads"),
            see="03-repeat",
        ),
        Mistake(
            "bits-for-bytes",
            "That is the number of bits; eight of them are a byte.",
            Edit(" // 8", ""),
        ),
        Mistake(
            "queries-twice",
            "You counted Q twice. Each of Q, K and V stands once.",
            Edit(
                "num_attention_heads + 2 * num_key_value_heads",
                "2 * (num_attention_heads + num_key_value_heads)",
            ),
            see="03-split",
        ),
        Mistake(
            "two-query-heads",
            "You counted Q twice and one of K and V. It is Q once, K and V once each.",
            Edit(
                "num_attention_heads + 2 * num_key_value_heads",
                "2 * num_attention_heads + num_key_value_heads",
            ),
            see="03-split",
        ),
        Mistake(
            "queries-left-out",
            "K and V are there; Q is missing.",
            Edit("num_attention_heads + 2 *", "2 *"),
            see="03-split",
        ),
        Mistake(
            "hidden-for-queries",
            "You gave Q the hidden size. It has {num_attention_heads} heads of {head_dim}.",
            Edit(
                "return heads * head_dim * bits // 8",
                "return (hidden_size + 2 * num_key_value_heads * head_dim) * bits // 8",
            ),
            see="03-split",
        ),
        Mistake(
            "always-bf16",
            "You gave every value two bytes, as in BF16. Here it has {bits} bits.",
            Edit("* bits // 8", "* 2"),
            see="03-split",
        ),
        Mistake(
            "whole-bytes",
            "You cut bits / 8 to whole bytes before you multiplied: a value of {bits} bits then takes none.",
            Edit("* bits // 8", "* (bits // 8)"),
            see="03-split",
        ),
        Mistake(
            "weights",
            "That is the size of the weights that make Q, K and V, for every input feature. Asked for is one token's Q, K and V.",
            Edit("return heads", "return hidden_size * heads"),
            see="03-split",
        ),
    ],
    hints=[
        "Which of the function's arguments is never used? And which of Q, K and V?",
        "head_dim is given; hidden_size // num_attention_heads need not be the same. V has "
        "num_key_value_heads heads, as K has.",
        "(num_attention_heads + 2 · num_key_value_heads) heads of head_dim values, bits / 8 bytes each.",
    ],
)

BUDGET = Exercise(
    id="3.15",
    title="Which budget changed, and why",
    notebook="03_einops",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=2,
    answer="b",
    options={
        "a": "Arithmetic: with a quarter of the key heads there is a quarter of the dot products.",
        "b": (
            "Storage and data movement: K and V are no longer written out four times over; the dot products "
            "are the same."
        ),
        "c": "None: `repeat` is a view, whatever the pattern.",
        "d": "All three: K and V are a quarter, and everything made from them is.",
    },
    mistakes=[
        Mistake(
            "fewer-products",
            "Each query head still meets every key: the pattern's axes, and with them 2·batch·kv·group·"
            "query·key·dim FLOPs, are the same.",
            "a",
            see="03-cost",
        ),
        Mistake(
            "repeat-is-a-view",
            "An axis of its own is a view; merged into the heads, `(kv group)`, it has no stride and is "
            "copied.",
            "c",
            see="03-repeat",
        ),
        Mistake(
            "everything-shrinks",
            "Scores and outputs keep all query heads, and so do the FLOPs; only K and V are no longer "
            "repeated.",
            "d",
            see="03-cost",
        ),
    ],
    hints=[
        "Compare both patterns' names: does one have an axis that the other lacks?",
        "The names are the same, so the FLOPs are. What did the first one write to memory before?",
        "`(kv group)` makes K four times as large, in a storage of its own, before anything is multiplied.",
    ],
)

EXERCISES = [
    STATES,
    EXPANDED,
    STRIDES,
    VALUES,
    GROUPED,
    UNPACK,
    MASKED,
    MENDED,
    LONELY,
    MERGE,
    COPIES,
    SCORES_ROW,
    INTENSITY,
    CALCULATOR,
    BUDGET,
]
