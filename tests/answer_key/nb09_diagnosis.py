"""Answers, hints and known mistakes of notebooks/09_diagnosis.ipynb."""

from lecture_lib.exercises.key import Edit, Exercise, Mistake

NOTEBOOK = "09_diagnosis"
GIGA, TERA = 10**9, 10**12
DIGITS = 1e-9  # of a ratio, stated in the prompts

# -- recall

INTENSITY = Exercise(
    id="9.1",
    title="One row's intensity",
    notebook=NOTEBOOK,
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="b",
    options={"a": "295 FLOP/B", "b": "about 1 FLOP/B", "c": "about 4096 FLOP/B"},
    mistakes=[
        Mistake(
            "the-ridge",
            "295 FLOP/B is what an H100 needs before arithmetic is the limit; the product has its own intensity.",
            "a",
        ),
        Mistake(
            "the-width",
            "Each weight is two bytes and serves one multiply and one add, however many there are.",
            "c",
        ),
    ],
    hints=[
        "How many FLOPs does one weight serve, and how many bytes is it?",
        "A multiply and an add; two bytes.",
        "2 FLOP for 2 B, and the inputs and outputs hardly count.",
    ],
)

STATES = Exercise(
    id="9.2",
    title="What accumulation leaves as it was",
    notebook=NOTEBOOK,
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="c",
    options={
        "a": "saved activations",
        "b": "temporary buffers of the loss",
        "c": "the optimizer's moments",
    },
    mistakes=[
        Mistake(
            "activations", "Only one microbatch's graph is alive at a time, so these shrink with it.", "a"
        ),
        Mistake("temporaries", "The loss works on one microbatch's logits, so its buffers shrink too.", "b"),
    ],
    hints=[
        "Which of them has a row for each token?",
        "The other belongs to the parameters, however many tokens there are.",
        "Moments are as large as the model, in every microbatch.",
    ],
)

RECOMPUTE = Exercise(
    id="9.3",
    title="What full recomputation costs",
    notebook=NOTEBOOK,
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="a",
    options={
        "a": "at most a third more FLOPs",
        "b": "twice the FLOPs",
        "c": "no FLOPs: it trades bytes for bytes",
    },
    mistakes=[
        Mistake(
            "double",
            "The forward alone runs again, and it is a third of a step: 4 forwards in place of 3.",
            "b",
        ),
        Mistake(
            "free", "What was not kept is computed again: the forward's products run a second time.", "c"
        ),
    ],
    hints=[
        "What share of a step is its forward?",
        "A step is three forwards: one, and a backward of two.",
        "4/3 of the FLOPs.",
    ],
)

# -- name the budget


def limiting_budget(parameters, bytes_per_parameter, activations, memory, tokens, traffic, peak, bandwidth):
    stored = parameters * bytes_per_parameter + activations
    if stored > memory:
        return "storage", stored / memory
    arithmetic = 6 * parameters * tokens / peak
    moving = traffic / bandwidth
    if arithmetic >= moving:
        return "arithmetic", arithmetic / moving
    return "bandwidth", moving / arithmetic


def draw_log(rng):
    parameters = rng.randint(10, 2000) * 10**6
    each = rng.choice((8, 12, 16, 20))
    activations = rng.randint(1, 400) * 10**8
    share = rng.choice((50, 70, 90, 130, 210))  # of the memory, in percent
    peak, bandwidth = rng.choice((121, 312, 494, 989)) * TERA, rng.choice((300, 1555, 2039, 3350)) * GIGA
    beside = rng.choice((15, 40, 70, 100, 130, 260, 900))  # traffic's time, in percent of the arithmetic's
    # at 100 a multiple of the peak, so that the tie is exact
    tokens = peak // TERA * rng.randint(1, 9) if beside == 100 else rng.randint(50, 9000)
    traffic = 6 * parameters * tokens * bandwidth // peak * beside // 100
    return {
        "parameters": parameters,
        "bytes_per_parameter": each,
        "activations": activations,
        "memory": (parameters * each + activations) * 100 // share,
        "tokens": tokens,
        "traffic": traffic,
        "peak": peak,
        "bandwidth": bandwidth,
    }


LIMITING = Exercise(
    id="9.4",
    title="Name the limiting budget",
    notebook=NOTEBOOK,
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    tolerance=DIGITS,
    answer=limiting_budget,
    cases=[
        {  # the states fit, the activations do not
            "parameters": 3 * GIGA,
            "bytes_per_parameter": 16,
            "activations": 50 * GIGA,
            "memory": 80 * GIGA,
            "tokens": 8192,
            "traffic": 900 * GIGA,
            "peak": 989 * TERA,
            "bandwidth": 3350 * GIGA,
        },
        {
            "parameters": GIGA,
            "bytes_per_parameter": 16,
            "activations": 20 * GIGA,
            "memory": 80 * GIGA,
            "tokens": 4096,
            "traffic": 40 * GIGA,
            "peak": 312 * TERA,
            "bandwidth": 2039 * GIGA,
        },
        {
            "parameters": GIGA,
            "bytes_per_parameter": 12,
            "activations": 3 * GIGA,
            "memory": 40 * GIGA,
            "tokens": 256,
            "traffic": 44 * GIGA,
            "peak": 312 * TERA,
            "bandwidth": 1555 * GIGA,
        },
        {  # the states alone are too much
            "parameters": 7 * GIGA,
            "bytes_per_parameter": 12,
            "activations": 11 * GIGA,
            "memory": 80 * GIGA,
            "tokens": 4096,
            "traffic": 170 * GIGA,
            "peak": 989 * TERA,
            "bandwidth": 3350 * GIGA,
        },
        {  # the memory is full to the last byte, and the two times are equal
            "parameters": GIGA,
            "bytes_per_parameter": 16,
            "activations": 8 * GIGA,
            "memory": 24 * GIGA,
            "tokens": 1000,
            "traffic": 20 * GIGA,
            "peak": 300 * TERA,
            "bandwidth": 1000 * GIGA,
        },
        {  # the forward's FLOPs alone would leave it to bandwidth
            "parameters": 500 * 10**6,
            "bytes_per_parameter": 20,
            "activations": GIGA,
            "memory": 24 * GIGA,
            "tokens": 1000,
            "traffic": 5 * GIGA,
            "peak": 121 * TERA,
            "bandwidth": 300 * GIGA,
        },
    ],
    draw=draw_log,
    case_text=(
        "{parameters} parameters of {bytes_per_parameter} B, {activations} B activations in {memory} B; "
        "{tokens} tokens, {traffic} B moved; {peak} FLOP/s, {bandwidth} B/s"
    ),
    mistakes=[
        Mistake(
            "states-alone",
            "You stored the model states alone. The activations are held beside them.",
            Edit(" + activations", ""),
            see="09-fit-ledger",
        ),
        Mistake(
            "time-before-storage",
            "You named the slower of the two times. A step that does not fit has no time: storage comes first.",
            Edit("stored > memory", "stored < 0"),
            see="09-order",
        ),
        Mistake(
            "forward-only",
            "Your arithmetic is 2·P·T, the forward alone. A training step takes 6·P·T.",
            Edit("6 *", "2 *"),
            see="09-order",
        ),
        Mistake(
            "upside-down",
            "The budget is right and the factor is below 1: say how many times the limiting one is the other.",
            [
                Edit("stored / memory", "memory / stored"),
                Edit('"arithmetic", arithmetic / moving', '"arithmetic", moving / arithmetic'),
                Edit('"bandwidth", moving / arithmetic', '"bandwidth", arithmetic / moving'),
            ],
            see="09-order",
        ),
        Mistake(
            "quicker-of-two",
            "You named the budget that is done first. The step waits for the other one.",
            Edit("arithmetic >= moving", "arithmetic < moving"),
            see="09-order",
        ),
        Mistake(
            "tie-to-bandwidth",
            "Where the two times are equal you named bandwidth. A tie is arithmetic's.",
            Edit("arithmetic >= moving", "arithmetic > moving"),
            see="09-order",
        ),
        Mistake(
            "one-token",
            "Your arithmetic is 6·P, one token's. The step has {tokens} of them: 6·P·T.",
            Edit("6 * parameters * tokens", "6 * parameters"),
            see="09-order",
        ),
    ],
    hints=[
        "Does it fit? Only then ask what sets the time.",
        "Stored: P · bytes_per_parameter + activations, over memory. Then 6·P·T/peak beside traffic/bandwidth.",
        'if stored > memory: return "storage", stored / memory. Else the larger time\'s name, and larger / smaller.',
    ],
)

# -- what fits


def what_fits(weights, gradients, moments, activations, boundary, layers, microbatches, memory):
    states = weights + gradients + moments
    totals = {
        "sgd": states - moments + activations,
        "accumulate": states + activations / microbatches,
        "checkpoint": states + layers * boundary + activations / layers,
    }
    return [name for name, total in totals.items() if total <= memory]


def draw_memory(rng):
    weights = rng.randint(20, 400) * 10**7
    gradients, moments = weights * rng.choice((1, 2)), weights * rng.choice((2, 4))
    layers, boundary = rng.choice((12, 24, 36, 40)), rng.randint(1, 12) * 10**7
    activations, microbatches = layers * boundary * rng.randint(4, 17), rng.choice((2, 4, 8))
    states = weights + gradients + moments
    totals = [
        states - moments + activations,
        states + activations // microbatches,
        states + layers * boundary + activations // layers,
    ]
    return {
        "weights": weights,
        "gradients": gradients,
        "moments": moments,
        "activations": activations,
        "boundary": boundary,
        "layers": layers,
        "microbatches": microbatches,
        "memory": rng.choice(totals) * rng.choice((93, 97, 104, 110)) // 100,
    }


FITS = Exercise(
    id="9.5",
    title="Which of three interventions fits",
    notebook=NOTEBOOK,
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    answer=what_fits,
    cases=[
        {
            "weights": 4 * GIGA,
            "gradients": 6 * GIGA,
            "moments": 16 * GIGA,
            "activations": 60 * GIGA,
            "boundary": GIGA // 2,
            "layers": 30,
            "microbatches": 8,
            "memory": 34 * GIGA,
        },
        {  # accumulation fills the memory to the byte
            "weights": 3 * GIGA,
            "gradients": 7 * GIGA,
            "moments": 11 * GIGA,
            "activations": 60 * GIGA,
            "boundary": GIGA // 4,
            "layers": 20,
            "microbatches": 4,
            "memory": 36 * GIGA,
        },
        {  # and here misses by a byte
            "weights": 3 * GIGA,
            "gradients": 7 * GIGA,
            "moments": 11 * GIGA,
            "activations": 60 * GIGA,
            "boundary": GIGA // 4,
            "layers": 20,
            "microbatches": 4,
            "memory": 36 * GIGA - 1,
        },
        {
            "weights": 3 * GIGA,
            "gradients": 7 * GIGA,
            "moments": 11 * GIGA,
            "activations": 60 * GIGA,
            "boundary": GIGA // 4,
            "layers": 20,
            "microbatches": 4,
            "memory": 29 * GIGA - 1,
        },
        {
            "weights": 3 * GIGA,
            "gradients": 7 * GIGA,
            "moments": 11 * GIGA,
            "activations": 60 * GIGA,
            "boundary": GIGA // 4,
            "layers": 20,
            "microbatches": 4,
            "memory": 70 * GIGA - 1,
        },
        {  # the boundaries fit, the layer in work does not
            "weights": 1 * GIGA,
            "gradients": 2 * GIGA,
            "moments": 4 * GIGA,
            "activations": 36 * GIGA,
            "boundary": GIGA,
            "layers": 12,
            "microbatches": 3,
            "memory": 20 * GIGA,
        },
        {  # not even one boundary fits beside the states and the layer in work
            "weights": 1 * GIGA,
            "gradients": 2 * GIGA,
            "moments": 4 * GIGA,
            "activations": 36 * GIGA,
            "boundary": GIGA,
            "layers": 12,
            "microbatches": 3,
            "memory": 10 * GIGA + GIGA // 2,
        },
        {
            "weights": 6 * GIGA,
            "gradients": 5 * GIGA,
            "moments": 24 * GIGA,
            "activations": 20 * GIGA,
            "boundary": GIGA // 4,
            "layers": 10,
            "microbatches": 4,
            "memory": 35 * GIGA,
        },
    ],
    draw=draw_memory,
    case_text=(
        "states {weights} + {gradients} + {moments} B, activations {activations} B, {layers} boundaries of "
        "{boundary} B, {microbatches} microbatches, memory {memory} B"
    ),
    mistakes=[
        Mistake(
            "no-gradients",
            "The gradients are missing: they are held beside weights and moments.",
            Edit("weights + gradients + moments", "weights + moments"),
            see="09-fit-ledger",
        ),
        Mistake(
            "all-divided",
            "You divided the states by the microbatches too. Only activations shrink with a microbatch.",
            Edit("states + activations / microbatches", "(states + activations) / microbatches"),
            see="09-fit-choose",
        ),
        Mistake(
            "boundaries-free",
            "Checkpointing keeps each layer's input: {layers} boundaries of {boundary} B are missing.",
            Edit(" + layers * boundary", ""),
            see="09-fit-choose",
        ),
        Mistake(
            "layer-in-work",
            "While a layer's backward runs, its activations are there again: one layer's share is missing.",
            Edit(" + activations / layers", ""),
            see="09-fit-choose",
        ),
        Mistake(
            "one-boundary",
            "You kept one boundary; each of the {layers} layers keeps its input.",
            Edit("layers * boundary", "boundary"),
            see="09-fit-choose",
        ),
        Mistake(
            "moments-stay",
            "SGD keeps no moments; you left them in.",
            Edit("states - moments + activations", "states + activations"),
            see="09-fit-wrong",
        ),
    ],
    hints=[
        "Write the three totals first; compare each with the memory.",
        "Without moments: weights + gradients + activations. Accumulated: all states + activations/K.",
        "Checkpointed: all states + layers · boundary + activations/layers. Keep the names whose total <= memory.",
    ],
)

# -- decoding


def sequences_to_ridge(parameters, element_bytes, cache_bytes, attention_flops, peak, bandwidth):
    gain = (2 * parameters + attention_flops) * bandwidth - cache_bytes * peak
    if gain <= 0:
        return None
    return -(-element_bytes * parameters * peak // gain)


def draw_decode(rng):
    if rng.random() < 0.2:  # a toy device: the division comes out even, so the two times tie
        parameters, cache = rng.randint(2, 9), rng.randint(5, 9)
        return {
            "parameters": parameters,
            "element_bytes": rng.choice((1, 2, 4)),
            "cache_bytes": cache,
            "attention_flops": 4 * cache - 2 * parameters + rng.choice((1, 2, 4)),
            "peak": 4,
            "bandwidth": 1,
        }
    parameters, each = rng.randint(100, 9000) * 10**6, rng.choice((1, 2, 4))
    peak, bandwidth = rng.choice((312, 494, 989, 1979)) * TERA, rng.choice((1555, 2039, 3350, 4800)) * GIGA
    most = 2 * parameters * bandwidth // peak  # a cache that just keeps the ridge out of reach
    cache = most * rng.choice((5, 20, 50, 80, 102, 140, 300)) // 100
    return {
        "parameters": parameters,
        "element_bytes": each,
        "cache_bytes": cache,
        "attention_flops": cache * rng.choice((2, 4, 8)),
        "peak": peak,
        "bandwidth": bandwidth,
    }


CONCURRENCY = Exercise(
    id="9.6",
    title="Sequences to the ridge, caches included",
    notebook=NOTEBOOK,
    kind="function",
    level="core",
    difficulty="demanding",
    points=3,
    minutes=8,
    answer=sequences_to_ridge,
    cases=[
        {  # 512 tokens of an 8B model: 15 GB of weights, 67 MB of cache, never
            "parameters": 7_504_924_672,
            "element_bytes": 2,
            "cache_bytes": 67_108_864,
            "attention_flops": 268_435_456,
            "peak": 989 * TERA,
            "bandwidth": 3350 * GIGA,
        },
        {
            "parameters": 7 * GIGA,
            "element_bytes": 2,
            "cache_bytes": 16 * 10**6,
            "attention_flops": 64 * 10**6,
            "peak": 989 * TERA,
            "bandwidth": 3350 * GIGA,
        },
        {
            "parameters": 3 * GIGA,
            "element_bytes": 1,
            "cache_bytes": 20 * 10**6,
            "attention_flops": 160 * 10**6,
            "peak": 312 * TERA,
            "bandwidth": 2039 * GIGA,
        },
        {  # a toy device: each sequence's FLOPs just pay for its bytes, and nothing is left for the weights
            "parameters": 5,
            "element_bytes": 2,
            "cache_bytes": 3,
            "attention_flops": 2,
            "peak": 4,
            "bandwidth": 1,
        },
        {  # and here one is left
            "parameters": 5,
            "element_bytes": 2,
            "cache_bytes": 3,
            "attention_flops": 3,
            "peak": 4,
            "bandwidth": 1,
        },
        {  # only attention's own FLOPs bring the ridge into reach
            "parameters": 1_010 * 10**6,
            "element_bytes": 4,
            "cache_bytes": 10 * 10**6,
            "attention_flops": 80 * 10**6,
            "peak": 312 * TERA,
            "bandwidth": 1555 * GIGA,
        },
    ],
    draw=draw_decode,
    case_text=(
        "{parameters} parameters of {element_bytes} B, a cache of {cache_bytes} B and {attention_flops} FLOP a "
        "sequence, {peak} FLOP/s, {bandwidth} B/s"
    ),
    mistakes=[
        Mistake(
            "no-cache",
            "You left the caches out of the traffic. Every sequence brings {cache_bytes} B of its own.",
            Edit(" - cache_bytes * peak", ""),
            see="09-decode-limit",
        ),
        Mistake(
            "no-attention",
            "You counted the weights' FLOPs alone; attention adds {attention_flops} for each sequence.",
            Edit("(2 * parameters + attention_flops)", "2 * parameters"),
            see="09-decode-ledger",
        ),
        Mistake(
            "fma-as-one",
            "Each weight serves a multiply and an add, two FLOPs; you counted one.",
            Edit("2 * parameters", "parameters"),
            see="09-decode-ledger",
        ),
        Mistake(
            "training-flops",
            "6·P for each token is a training step's. Decoding is a forward alone: 2·P.",
            Edit("2 * parameters", "6 * parameters"),
            see="09-decode-ledger",
        ),
        Mistake(
            "one-too-few",
            "You rounded down: at that number bandwidth is still the limit.",
            Edit(
                "-(-element_bytes * parameters * peak // gain)", "element_bytes * parameters * peak // gain"
            ),
            see="09-decode-limit",
        ),
        Mistake(
            "tie-to-bandwidth",
            "Where the two times come out equal you took one sequence more. A tie is arithmetic's.",
            Edit(
                "-(-element_bytes * parameters * peak // gain)",
                "element_bytes * parameters * peak // gain + 1",
            ),
            see="09-decode-limit",
        ),
        Mistake(
            "not-whole",
            "That is the quotient itself, a float. Sequences are whole: round it up, with `//` alone.",
            Edit("-(-element_bytes * parameters * peak // gain)", "element_bytes * parameters * peak / gain"),
            see="09-decode-limit",
        ),
        Mistake(
            "elements-for-bytes",
            "You moved one byte for each parameter; here it is {element_bytes}.",
            Edit("-element_bytes * parameters", "-parameters"),
            see="09-decode-ledger",
        ),
        Mistake(
            "never-is-an-answer",
            "Where each sequence adds more bytes than its FLOPs pay for, no number is enough: return None.",
            Edit("return None", "return 0"),
            see="09-decode-limit",
        ),
    ],
    hints=[
        "Write FLOPs and bytes of b sequences: what is multiplied by b, and what is not?",
        "b·(2P + A) FLOPs; s·P + b·c bytes. Ask for FLOPs/peak >= bytes/bandwidth and solve for b.",
        "b·((2P + A)·bandwidth − c·peak) >= s·P·peak. The bracket may be 0 or negative: None. Round up in whole numbers.",
    ],
)

# -- long contexts


def attention_context(parameters, layers, heads, head_dim, share_percent):
    each_token = 6 * layers * heads * head_dim
    return -(-6 * parameters * share_percent // (100 * each_token))


ATTENTION_CONTEXT = Exercise(
    id="9.7",
    title="Where attention is no longer small",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=6,
    unit="token",
    answer=attention_context,
    cases=[
        {
            "parameters": 8_030_261_248,
            "layers": 32,
            "heads": 32,
            "head_dim": 128,
            "share_percent": 100,
        },
        {"parameters": 124 * 10**6, "layers": 12, "heads": 12, "head_dim": 64, "share_percent": 10},
        {"parameters": 3_210 * 10**6, "layers": 28, "heads": 24, "head_dim": 128, "share_percent": 35},
    ],
    draw=lambda rng: {
        "parameters": rng.randint(50, 70_000) * 10**6,
        "layers": rng.choice((12, 24, 28, 36, 80)),
        "heads": rng.choice((12, 14, 20, 25, 40)),
        "head_dim": rng.choice((64, 80, 96, 128)),
        "share_percent": rng.randint(5, 250),
    },
    case_text="{parameters} parameters, {layers} layers, {heads} heads of {head_dim}, {share_percent}%",
    mistakes=[
        Mistake(
            "full-attention",
            "You counted all S² pairs. Causal attention needs half of them, so it takes twice the context.",
            Edit("6 * layers * heads", "12 * layers * heads"),
            see="09-long-ledger",
        ),
        Mistake(
            "forward-attention",
            "You counted attention's forward alone; its backward is twice as much.",
            Edit("6 * layers * heads", "2 * layers * heads"),
            see="09-long-ledger",
        ),
        Mistake(
            "one-head",
            "Each of the {heads} query heads takes products of its own.",
            Edit("layers * heads * head_dim", "layers * head_dim"),
            see="09-long-ledger",
        ),
        Mistake(
            "one-layer",
            "That is one layer's attention; there are {layers}.",
            Edit("layers * heads", "heads"),
            see="09-long-ledger",
        ),
        Mistake(
            "rounded-down",
            "At that context the share is not reached yet: round up.",
            Edit(
                "-(-6 * parameters * share_percent // (100 * each_token))",
                "6 * parameters * share_percent // (100 * each_token)",
            ),
            see="09-long-ledger",
        ),
        Mistake(
            "rounded-to-nearest",
            "You rounded to the nearest whole number. Where that is down, the share is not reached yet: round up.",
            Edit(
                "-(-6 * parameters * share_percent // (100 * each_token))",
                "round(6 * parameters * share_percent / (100 * each_token))",
            ),
            see="09-long-ledger",
        ),
        Mistake(
            "not-whole",
            "That is the quotient itself. A sequence has a whole number of tokens: round it up.",
            Edit(
                "-(-6 * parameters * share_percent // (100 * each_token))",
                "6 * parameters * share_percent / (100 * each_token)",
            ),
            see="09-long-ledger",
        ),
        Mistake(
            "percent",
            "A percent is a hundredth; your share is a hundred times too large.",
            Edit("(100 * each_token)", "each_token"),
            see="09-long-ledger",
        ),
    ],
    hints=[
        "What does one token spend on attention if its sequence has S tokens?",
        "Causal, forward and backward: 6·layers·heads·head_dim·S. The products with weights: 6·P.",
        "S = share · P / (layers · heads · head_dim), rounded up in whole numbers.",
    ],
)

# -- microbatches


def step_traffic(rows, d_in, d_out, microbatches, element_bytes):
    m = rows // microbatches
    weight = d_in * d_out
    product = m * d_in + weight + m * d_out
    sums = 3 * weight * (microbatches - 1)
    return element_bytes * (microbatches * 3 * product + sums)


def draw_microbatches(rng):
    K = rng.choice((2, 3, 4, 6, 8))
    return {
        "rows": K * rng.choice((1, 2, 5, 7, 11)),
        "d_in": rng.choice((3, 13, 17, 640)),
        "d_out": rng.choice((5, 19, 23, 512)),
        "microbatches": K,
        "element_bytes": rng.choice((2, 4, 8)),
    }


TRAFFIC = Exercise(
    id="9.9",
    title="What K microbatches move",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=7,
    unit="B",
    answer=step_traffic,
    cases=[
        {"rows": 12, "d_in": 5, "d_out": 7, "microbatches": 4, "element_bytes": 4},
        {"rows": 11, "d_in": 3, "d_out": 13, "microbatches": 1, "element_bytes": 2},
        {"rows": 128, "d_in": 1536, "d_out": 640, "microbatches": 16, "element_bytes": 4},
    ],
    draw=draw_microbatches,
    case_text="{rows} rows, {d_in} → {d_out}, K = {microbatches}, {element_bytes} B a value",
    mistakes=[
        Mistake(
            "whole-batch-each-time",
            "Each microbatch has rows/K rows; you gave every one of them all {rows}.",
            Edit("rows // microbatches", "rows"),
            see="09-micro-ledger",
        ),
        Mistake(
            "no-sums",
            "3·(K − 1) passes over W are missing: the gradient sums (two read, one written), or the products' own "
            "W matrices, moved anew in each of the {microbatches} microbatches.",
            Edit("* 3 * product + sums", "* 3 * product"),
            see="09-micro-ledger",
        ),
        Mistake(
            "first-is-added-too",
            "The first microbatch's gradient is added to nothing: K − 1 sums.",
            Edit("(microbatches - 1)", "microbatches"),
            see="09-micro-ledger",
        ),
        Mistake(
            "sum-of-two",
            "You moved two matrices for each sum. It reads the sum and the new gradient, and writes the sum: three.",
            Edit("sums = 3 *", "sums = 2 *"),
            see="09-micro-ledger",
        ),
        Mistake(
            "two-products",
            "You counted two products in each microbatch; forward, dX and dW are three.",
            Edit("* 3 * product", "* 2 * product"),
            see="09-micro-ledger",
        ),
        Mistake(
            "forward-only",
            "That is one product in each microbatch; forward, dX and dW are three.",
            Edit("* 3 * product", "* product"),
            see="09-micro-ledger",
        ),
        Mistake(
            "elements",
            "That is the number of values; each has {element_bytes} bytes.",
            Edit("element_bytes * (", "("),
            see="09-micro-ledger",
        ),
    ],
    hints=[
        "First one microbatch of rows/K rows: which three products, and what does each move?",
        "Each moves m·d_in + d_in·d_out + m·d_out values, whichever of the three is the output.",
        "K · 3 · that, and 3·d_in·d_out·(K − 1) for the sums; times the bytes of a value.",
    ],
)

# -- a wrong calculator


def step_time(parts, peak, bandwidth):
    return sum(max(flops / peak, moved / bandwidth) for flops, moved in parts)


def draw_parts(rng):
    peak, bandwidth = rng.choice((121, 312, 989)) * TERA, rng.choice((300, 1555, 3350)) * GIGA
    parts = []
    for number in range(rng.randint(3, 5)):
        balance = rng.choice((20, 35, 50, 65)) if number % 2 else rng.choice((140, 220, 300))
        seconds = rng.randint(1, 90) / 10**4
        parts.append([int(peak * seconds), int(bandwidth * seconds * balance / 100)])
    return {"parts": parts, "peak": peak, "bandwidth": bandwidth}


CALCULATOR = Exercise(
    id="9.11",
    title="What is wrong in this calculator: a step's time",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=5,
    unit="s",
    tolerance=DIGITS,
    answer=step_time,
    cases=[
        {
            "parts": [[2 * TERA, 4 * GIGA], [20 * GIGA, 9 * GIGA]],
            "peak": 312 * TERA,
            "bandwidth": 1555 * GIGA,
        },
        {
            "parts": [[9 * TERA, 2 * GIGA], [0, 26 * GIGA], [4 * TERA, 30 * GIGA]],
            "peak": 989 * TERA,
            "bandwidth": 3350 * GIGA,
        },
        {
            "parts": [[TERA, 5 * GIGA], [3 * TERA, GIGA], [10 * GIGA, 2 * GIGA]],
            "peak": 121 * TERA,
            "bandwidth": 300 * GIGA,
        },
    ],
    draw=draw_parts,
    case_text="{parts} at {peak} FLOP/s and {bandwidth} B/s",
    mistakes=[
        Mistake(
            "whole-step",
            "Still the totals: one part's arithmetic cannot hide another's traffic, for they run one after the other.",
            Edit(
                "sum(max(flops / peak, moved / bandwidth) for flops, moved in parts)",
                "max(sum(p[0] for p in parts) / peak, sum(p[1] for p in parts) / bandwidth)",
            ),
            see="09-one-time",
        ),
        Mistake(
            "added",
            "You added arithmetic and traffic. Within a part they overlap: its bound is the larger.",
            Edit("max(flops / peak, moved / bandwidth)", "flops / peak + moved / bandwidth"),
            see="09-one-time",
        ),
        Mistake(
            "arithmetic-alone",
            "You took the arithmetic of every part; where its traffic takes longer, that counts.",
            Edit("max(flops / peak, moved / bandwidth)", "flops / peak"),
            see="09-one-time",
        ),
        Mistake(
            "traffic-alone",
            "You took the traffic of every part; where its arithmetic takes longer, that counts.",
            Edit("max(flops / peak, moved / bandwidth)", "moved / bandwidth"),
            see="09-one-time",
        ),
        Mistake(
            "half-the-flops",
            "You took half the FLOPs. They are FLOPs already, a multiply and an add as two, and so is the peak.",
            Edit("flops / peak", "flops / 2 / peak"),
            see="09-one-time",
        ),
        Mistake(
            "quicker",
            "You took the smaller of the two times; a part is done when both are.",
            Edit("max(", "min("),
            see="09-one-time",
        ),
        Mistake(
            "longest-part",
            "That is the longest part; a step is all of them, one after the other.",
            Edit("return sum(", "return max("),
            see="09-one-time",
        ),
    ],
    hints=[
        "Can the update's traffic be hidden behind the forward's arithmetic?",
        "No: it starts when the forward is over. So each part has a bound of its own.",
        "The sum over parts of max(flops/peak, moved/bandwidth).",
    ],
)

# -- the first change


def first_change(parts, changes, peak, bandwidth):
    times = [max(flops / peak, moved / bandwidth) for flops, moved in parts]
    best = ["none", 1.0]
    for name, i, work, traffic in changes:
        flops, moved = parts[i]
        after = sum(times) - times[i] + max(work * flops / peak, traffic * moved / bandwidth)
        if after / sum(times) < best[1]:
            best = [name, after / sum(times)]
    return best


def by_share_removed(parts, changes, peak, bandwidth):
    times = [max(flops / peak, moved / bandwidth) for flops, moved in parts]
    name, i, work, traffic = min(changes, key=lambda change: change[2] * change[3])
    flops, moved = parts[i]
    after = sum(times) - times[i] + max(work * flops / peak, traffic * moved / bandwidth)
    return [name, after / sum(times)]


def piled_up(parts, changes, peak, bandwidth):
    now = [list(part) for part in parts]
    before = sum(max(flops / peak, moved / bandwidth) for flops, moved in parts)
    best = ["none", 1.0]
    for name, i, work, traffic in changes:
        now[i] = [work * now[i][0], traffic * now[i][1]]
        after = sum(max(flops / peak, moved / bandwidth) for flops, moved in now)
        if after / before < best[1]:
            best = [name, after / before]
    return best


def draw_changes(rng):
    peak, bandwidth = rng.choice((121, 312, 989)) * TERA, rng.choice((300, 1555, 3350)) * GIGA
    seconds = [rng.randint(10, 90) / 10**4 for _ in range(3)]
    balance = [rng.choice((15, 40, 180, 310)) for _ in range(3)]
    parts = [[int(peak * s), int(bandwidth * s * b / 100)] for s, b in zip(seconds, balance, strict=True)]
    factors = [(0.5, 1.0), (1.0, 0.5), (0.25, 1.0), (1.0, 0.25), (1.33, 0.5), (0.75, 0.75)]
    names = ["fuse", "narrower format", "larger batch", "keep activations", "skip masked pairs"]
    chosen = zip(rng.sample(names, 3), rng.sample(range(3), 3), rng.sample(factors, 3), strict=True)
    changes = [[name, i, *pair] for name, i, pair in chosen]
    if rng.random() < 0.25:  # two that do the same
        changes[2][1:] = changes[1][1:]
    drawn = {"parts": parts, "changes": changes, "peak": peak, "bandwidth": bandwidth}
    # Where a change leaves the time as it is, another order of adding may round it below: such a case is no question.
    return drawn if first_change(**drawn)[0] == by_replacing(**drawn) else draw_changes(rng)


def by_replacing(parts, changes, peak, bandwidth):
    times = [max(flops / peak, moved / bandwidth) for flops, moved in parts]
    best, least = "none", sum(times)
    for name, i, work, traffic in changes:
        flops, moved = parts[i]
        part = max(work * flops / peak, traffic * moved / bandwidth)
        after = sum([*times[:i], part, *times[i + 1 :]])
        if after < least:
            best, least = name, after
    return best


CHANGE = Exercise(
    id="9.12",
    title="The first change, and what it is worth",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=3,
    minutes=10,
    tolerance=DIGITS,
    answer=first_change,
    cases=[
        {  # the deepest cut is of the arithmetic of a part that waits for bytes
            "parts": [[2 * TERA, 4 * GIGA], [100 * GIGA, 9 * GIGA], [TERA, GIGA]],
            "changes": [
                ["fewer FLOPs", 1, 0.1, 1.0],
                ["half the bytes", 1, 1.0, 0.5],
                ["skip masked pairs", 2, 0.5, 1.0],
            ],
            "peak": 312 * TERA,
            "bandwidth": 1555 * GIGA,
        },
        {
            "parts": [[9 * TERA, 2 * GIGA], [TERA, 26 * GIGA], [4 * TERA, 30 * GIGA]],
            "changes": [["checkpoint", 0, 1.33, 0.5], ["fuse", 1, 1.0, 0.5], ["larger batch", 2, 1.0, 0.25]],
            "peak": 989 * TERA,
            "bandwidth": 3350 * GIGA,
        },
        {
            "parts": [[6 * TERA, 2 * GIGA], [TERA, 3 * GIGA]],
            "changes": [["skip masked pairs", 0, 0.6, 1.0], ["fuse", 1, 1.0, 0.5]],
            "peak": 312 * TERA,
            "bandwidth": 1555 * GIGA,
        },
        {  # nothing that is offered moves the limit
            "parts": [[3 * TERA, GIGA], [10 * GIGA, 2 * GIGA]],
            "changes": [["narrower format", 0, 1.0, 0.5], ["skip masked pairs", 1, 0.25, 1.0]],
            "peak": 121 * TERA,
            "bandwidth": 300 * GIGA,
        },
        {  # two leave the same time, for the part waits for bytes; the earlier is wanted
            "parts": [[3 * TERA, GIGA], [10 * GIGA, 6 * GIGA]],
            "changes": [
                ["larger batch", 0, 0.9, 1.0],
                ["fuse", 1, 1.0, 0.5],
                ["narrower format", 1, 0.75, 0.5],
            ],
            "peak": 121 * TERA,
            "bandwidth": 300 * GIGA,
        },
    ],
    draw=draw_changes,
    case_text="parts {parts}, changes {changes}, {peak} FLOP/s, {bandwidth} B/s",
    mistakes=[
        Mistake(
            "deepest-cut",
            "You took the change with the smallest factors. What counts is the time of the whole step after it.",
            by_share_removed,
            see="09-rule",
        ),
        Mistake(
            "part-alone",
            "You judged each change by its own part. The others' time stays, so the step gains less.",
            [
                Edit("sum(times) - times[i] + max(", "max("),
                Edit("if after / sum(times) < best[1]", "if after / times[i] < best[1]"),
                Edit("[name, after / sum(times)]", "[name, after / times[i]]"),
            ],
            see="09-rule",
        ),
        Mistake(
            "before-over-after",
            "The change is right; the factor is before over after. It is asked as after over before, below 1.",
            Edit("    return best", "    return [best[0], 1 / best[1]]"),
            see="09-rule",
        ),
        Mistake(
            "share-saved",
            "The change is right; the number is the share saved. Return what is left of the time: 1 minus that.",
            Edit("    return best", "    return [best[0], 1 - best[1]]"),
            see="09-rule",
        ),
        Mistake(
            "piled-up",
            "You made each change on top of those before it. Each is judged alone, on the step as it was.",
            piled_up,
            see="09-rule",
        ),
        Mistake(
            "later-of-equals",
            "Where two changes leave the same time you took the later; the earlier is wanted.",
            Edit(
                "if after / sum(times) < best[1]",
                "if after / sum(times) <= best[1] and after < sum(times)",
            ),
            see="09-rule",
        ),
        Mistake(
            "limit-stays",
            "After the change you kept the part's old limit. A part that loses bytes may then wait for arithmetic.",
            [
                Edit(
                    "max(work * flops / peak, traffic * moved / bandwidth)",
                    "times[i] * (work if flops / peak > moved / bandwidth else traffic)",
                ),
            ],
            see="09-rule",
        ),
    ],
    hints=[
        "Write a function for the time of a list of parts; a change gives another list.",
        "Time after: all parts' times, less the changed part's, plus max(work·F/peak, traffic·Q/bandwidth).",
        'Start from ["none", 1.0] and keep the change whose after/before is smallest.',
    ],
)

# -- does the saved memory pay


def better_configuration(states, activations, kept, sequences, memory, seconds, overhead):
    found = None
    for name, held, work in (("keep", activations, 1), ("checkpoint", kept, 4 / 3)):
        for K in range(1, sequences + 1):
            if sequences % K == 0 and states + held / K <= memory:
                time = work * seconds + K * overhead
                if found is None or time < found[2]:
                    found = [name, K, time]
    return found


def draw_configuration(rng):
    states, activations = rng.randint(2, 40) * GIGA, rng.randint(20, 300) * GIGA
    kept = activations // rng.choice((4, 6, 9, 12))
    sequences = rng.choice((4, 6, 8, 12, 16))
    K = rng.choice([k for k in range(1, sequences + 1) if sequences % k == 0])
    memory = states - -rng.choice((activations, kept)) // K + rng.choice((0, GIGA))  # at 0 full to the byte
    return {
        "states": states,
        "activations": activations,
        "kept": kept,
        "sequences": sequences,
        "memory": memory,
        "seconds": rng.randint(5, 60) / 20,
        "overhead": rng.choice((1, 3, 10, 30, 80)) / 100,
    }


PAYS = Exercise(
    id="9.10",
    title="Does the saved memory pay?",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=3,
    minutes=10,
    tolerance=DIGITS,
    answer=better_configuration,
    cases=[
        {  # microbatches cost little: keep
            "states": 16 * GIGA,
            "activations": 80 * GIGA,
            "kept": 10 * GIGA,
            "sequences": 8,
            "memory": 38 * GIGA,
            "seconds": 1.5,
            "overhead": 0.04,
        },
        {  # they cost much: checkpoint
            "states": 16 * GIGA,
            "activations": 80 * GIGA,
            "kept": 10 * GIGA,
            "sequences": 8,
            "memory": 27 * GIGA,
            "seconds": 1.5,
            "overhead": 0.1,
        },
        {  # one sequence does not fit: only checkpointing runs at all
            "states": 16 * GIGA,
            "activations": 120 * GIGA,
            "kept": 12 * GIGA,
            "sequences": 6,
            "memory": 20 * GIGA,
            "seconds": 2.0,
            "overhead": 0.05,
        },
        {  # four microbatches would fit, but six sequences do not divide into four
            "states": 16 * GIGA,
            "activations": 60 * GIGA,
            "kept": 50 * GIGA,
            "sequences": 6,
            "memory": 32 * GIGA,
            "seconds": 2.0,
            "overhead": 0.25,
        },
        {  # microbatches cost nothing
            "states": 16 * GIGA,
            "activations": 60 * GIGA,
            "kept": 8 * GIGA,
            "sequences": 12,
            "memory": 37 * GIGA,
            "seconds": 0.75,
            "overhead": 0.0,
        },
        {  # nothing fits
            "states": 30 * GIGA,
            "activations": 120 * GIGA,
            "kept": 12 * GIGA,
            "sequences": 3,
            "memory": 32 * GIGA,
            "seconds": 2.0,
            "overhead": 0.05,
        },
    ],
    draw=draw_configuration,
    equivalent=["for K in range(1, sequences + 2):  # K = sequences + 1 never divides the sequences"],
    case_text=(
        "states {states} B, activations {activations} B or {kept} B checkpointed, {sequences} sequences in "
        "{memory} B; {seconds} s, {overhead} s a microbatch"
    ),
    mistakes=[
        Mistake(
            "recompute-free",
            "Checkpointing came for nothing. It runs the forward again, which is a third of the step.",
            Edit("4 / 3", "1"),
            see="09-recompute-grid",
        ),
        Mistake(
            "recompute-free-smaller-k",
            "Checkpointing came for nothing, so it won wherever it allows a smaller K. It runs the forward again, a "
            "third of the step.",
            [Edit("4 / 3", "1"), Edit("time < found[2]", "(time, K) < (found[2], found[1])")],
            see="09-recompute-grid",
        ),
        Mistake(
            "recompute-everything",
            "Checkpointing took twice the step. The forward alone runs again, which is a third of it: 4/3.",
            Edit("4 / 3", "2"),
            see="09-recompute-grid",
        ),
        Mistake(
            "full-is-too-much",
            "What fills the memory to the last byte fits: compare with <=.",
            Edit("<= memory", "< memory"),
            see="09-recompute-single",
        ),
        Mistake(
            "states-divided",
            "You divided the states by K. Every microbatch needs all of them.",
            Edit("states + held / K", "(states + held) / K"),
            see="09-fit-choose",
        ),
        Mistake(
            "microbatches-free",
            "Each microbatch adds {overhead} s; you left that out.",
            Edit(" + K * overhead", ""),
            see="09-micro-read",
        ),
        Mistake(
            "uneven",
            "{sequences} sequences do not divide into that many equal microbatches.",
            Edit("sequences % K == 0 and ", ""),
            see="09-recompute-single",
        ),
        Mistake(
            "checkpoint-because-it-fits",
            "You checkpoint wherever that fits. Without it a larger K may fit too, and take less time.",
            Edit('(("keep", activations, 1), ("checkpoint", kept, 4 / 3))', '(("checkpoint", kept, 4 / 3),)'),
            see="09-recompute-read",
        ),
        Mistake(
            "never-checkpoint",
            "You never checkpoint. Where a single sequence does not fit, K has nothing left to divide.",
            Edit('(("keep", activations, 1), ("checkpoint", kept, 4 / 3))', '(("keep", activations, 1),)'),
            see="09-recompute-single",
        ),
    ],
    hints=[
        "List every (name, K) with K dividing the sequences; which of them fit?",
        "Held: states + activations/K, or states + kept/K. Time: seconds + K·overhead, or 4/3·seconds + K·overhead.",
        "Of those that fit take the least time; if none fits, None.",
    ],
)

FUSED_BUDGET = Exercise(
    id="9.8",
    title="Fused attention: which budgets changed, and which way?",
    notebook=NOTEBOOK,
    kind="choice",
    level="stretch",
    difficulty="demanding",
    points=1,
    minutes=3,
    answer="c",
    options={
        "a": "Arithmetic falls: fused attention does fewer products, and so it is faster.",
        "b": "Storage alone falls; the scores still travel to memory and back.",
        "c": "Storage and data movement fall; arithmetic rises, for the backward forms the scores again.",
        "d": "All three fall: scores are neither computed, moved nor stored.",
    },
    mistakes=[
        Mistake(
            "fewer-products",
            "Its backward has five products where the eager one has four. It is faster with more FLOPs.",
            "a",
            see="09-long-fused",
        ),
        Mistake(
            "still-travel",
            "The scores stay on chip, tile by tile: they are neither written to memory nor read from it.",
            "b",
            see="09-long-fused",
        ),
        Mistake(
            "not-computed",
            "The scores are computed, and in the backward once more; what is spared is keeping them.",
            "d",
            see="09-long-fused",
        ),
    ],
    hints=[
        "Three questions: are the scores computed, are they moved, are they kept?",
        "Computed, twice even; neither moved nor kept.",
        "So two budgets fall and one rises.",
    ],
)

EXERCISES = [
    INTENSITY,
    STATES,
    RECOMPUTE,
    LIMITING,
    FITS,
    CONCURRENCY,
    ATTENTION_CONTEXT,
    FUSED_BUDGET,
    TRAFFIC,
    PAYS,
    CALCULATOR,
    CHANGE,
]
