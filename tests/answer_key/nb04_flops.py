"""Answers, hints and known mistakes of notebooks/04_flops.ipynb."""

import random

from lecture_lib.exercises.key import Edit, Exercise, Mistake

SMALL = (2, 3, 5, 7, 11, 13, 17, 19)


def draw_layer(rng):
    M, d_in, d_out = rng.sample(SMALL, 3)
    return {"M": M, "d_in": d_in, "d_out": d_out}


LAYERS = [
    {"M": 3, "d_in": 5, "d_out": 7},
    {"M": 11, "d_in": 2, "d_out": 13},
    {"M": 512, "d_in": 4096, "d_out": 1000},
]
LAYER_TEXT = "M={M}, d_in={d_in}, d_out={d_out}"


# -- recall

X_BYTES = Exercise(
    id="4.1",
    title="What an input weighs",
    notebook="04_flops",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="MB",
    answer="4.194304 MB",
    mistakes=[
        Mistake("as-fp32", "You gave each value four bytes; BF16 has two.", "8.39 MB"),
        Mistake(
            "bits-for-bytes",
            "That is the number of bits, 16 for each value; eight of them are a byte.",
            "67.1 MB",
        ),
        Mistake("elements-only", "That is the number of elements; each takes two bytes in BF16.", "2.10 MB"),
        Mistake("mib-for-mb", "It is 4 MiB (2^20 bytes each); a megabyte is 10^6 bytes.", "4.00 MB"),
        Mistake("one-row", "That is one of the 512 rows.", "8192 B", see=""),
        Mistake(
            "sizes-added", "You added the sizes. Every row has 4096 values: multiply.", "0.009216 MB", see=""
        ),
        Mistake(
            "fp32-mib", "Two slips: BF16 has two bytes, and a megabyte is 10⁶ bytes, not 2²⁰.", "8 MB", see=""
        ),
        Mistake(
            "elements-mib",
            "Two slips: each of the 2 million values takes two bytes, and a megabyte is 10⁶ bytes, not 2²⁰.",
            "2 MB",
            see="",
        ),
    ],
    hints=[
        "Logical bytes are elements times bytes per element.",
        "512 × 4096 elements; BF16 has 16 bits, two bytes.",
        "512 × 4096 × 2 bytes, divided by 10^6.",
    ],
)

TRANSPOSE_BYTES = Exercise(
    id="4.2",
    title="What a transpose weighs",
    notebook="04_flops",
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="a",
    options={
        "a": "0 B: both names share one storage",
        "b": "67.1 MB: a transpose is a second matrix",
        "c": "33.6 MB: half of the entries move",
    },
    mistakes=[
        Mistake(
            "transpose-copies", "`W.T` swaps the strides and reads the same storage: nothing is copied.", "b"
        ),
        Mistake("half-moves", "No entry moves at all: `W.T` swaps the strides of the same storage.", "c"),
    ],
    hints=[
        "Does `W.T` have a storage of its own?",
        "Think of its strides: (1, 4096) where W has (4096, 1).",
        "A transpose is a view: same storage, other strides.",
    ],
)

ROW_KEEPS = Exercise(
    id="4.3",
    title="What one row keeps alive",
    notebook="04_flops",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="MB",
    answer="4 MB",
    mistakes=[
        Mistake(
            "row-only",
            "The row is a view: it keeps the whole storage of X, not its own 4,000 bytes.",
            "0.004 MB",
        ),
        Mistake("freed", "`del X` removes the name; the row still needs the storage.", "0 MB"),
        Mistake("eight-bytes", "You gave each value eight bytes; FP32 has four.", "8 MB"),
        Mistake("elements", "That is the number of values; each takes four bytes in FP32.", "1 MB", see=""),
        Mistake("as-bf16", "You gave each value two bytes; FP32 has four.", "2 MB", see=""),
        Mistake("bits-for-bytes", "That is the number of bits; eight of them are a byte.", "32 MB", see=""),
        Mistake(
            "row-elements",
            "That is the number of the row's values. The row keeps the whole storage of X alive, in bytes.",
            "1000 B",
            see="",
        ),
    ],
    hints=[
        "A row of a tensor is a view of it.",
        "A view keeps the whole storage, however little of it it shows.",
        "1000 × 1000 values of four bytes.",
    ],
)


# -- one product


def additions(M, d_in, d_out):
    return M * d_out * (d_in - 1)


ADDITIONS = Exercise(
    id="4.4",
    title="The missing row: additions",
    notebook="04_flops",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="FLOP",
    answer=additions,
    cases=LAYERS,
    draw=draw_layer,
    case_text=LAYER_TEXT,
    mistakes=[
        Mistake(
            "an-addition-for-every-term",
            "A sum of {d_in} terms takes {d_in} − 1 additions: the first term is added to nothing.",
            Edit("(d_in - 1)", "d_in"),
            see="04-forward",
        ),
        Mistake(
            "sums-over-outputs",
            "Each output is a sum over d_in, and there are M·d_out of them; you summed over d_out.",
            [Edit("d_out *", "d_in *"), Edit("(d_in - 1)", "(d_out - 1)")],
            see="04-forward",
        ),
        Mistake(
            "one-row-only",
            "That is one row of Y; X has M = {M} rows, and each has its own outputs.",
            Edit("M * ", ""),
            see="04-forward",
        ),
        Mistake(
            "total-instead",
            "That is the ledger's total; the row holds the additions alone.",
            Edit("(d_in - 1)", "(2 * d_in - 1)"),
            see="04-count-by-hand",
        ),
        Mistake(
            "one-less-in-all",
            "You took one addition off in all. Each of the M·d_out sums saves one.",
            Edit("M * d_out * (d_in - 1)", "M * d_out * d_in - 1"),
            see="04-forward",
        ),
        Mistake(
            "sums-over-rows",
            "You summed over the rows. Each output is a sum over d_in.",
            Edit("M * d_out * (d_in - 1)", "d_in * d_out * (M - 1)"),
            see="04-forward",
        ),
        Mistake(
            "two-less",
            "You took two additions off each sum; only the first term is added to nothing.",
            Edit("d_in - 1", "d_in - 2"),
            see="04-forward",
        ),
        Mistake(
            "one-more",
            "A sum of {d_in} terms takes {d_in} − 1 additions, not {d_in} + 1.",
            Edit("d_in - 1", "d_in + 1"),
            see="04-forward",
        ),
        Mistake(
            "one-output",
            "That is one output; there are M·d_out of them.",
            Edit("M * d_out * (d_in - 1)", "d_in - 1"),
            see="04-forward",
        ),
        Mistake(
            "like-inputs",
            "You counted the entries of X. Each of the M·d_out outputs takes d_in − 1 additions.",
            Edit("M * d_out * (d_in - 1)", "M * d_in"),
            see="04-forward",
        ),
        Mistake(
            "twice",
            "Twice too many: each output has d_in − 1 additions, and the multiplications have their own row.",
            Edit("return M", "return 2 * M"),
            see="04-forward",
        ),
        Mistake(
            "half",
            "Half of it: an addition is a FLOP of its own.",
            Edit("(d_in - 1)", "(d_in - 1) / 2"),
            see="04-forward",
        ),
    ],
    hints=[
        "Take one output: how many `+` signs stand in a sum of d_in products?",
        "d_in − 1 for each output, and Y has M·d_out outputs.",
        "Write it as outputs times additions per output: M * d_out * (…).",
    ],
)


def contraction_flops(pattern, sizes):
    from math import prod

    inputs, output = pattern.split("->")
    kept = output.split()
    summed = set(inputs.replace(",", " ").split()) - set(kept)
    outputs = prod(sizes[axis] for axis in kept)
    terms = prod(sizes[axis] for axis in summed)
    return outputs * (2 * terms - 1)


def every_operand_axis(pattern, sizes):
    from math import prod

    inputs, output = pattern.split("->")
    return 2 * prod(sizes[axis] for axis in inputs.replace(",", " ").split())


def last_summed_axis(pattern, sizes):
    from math import prod

    inputs, output = pattern.split("->")
    kept = output.split()
    summed = [axis for axis in inputs.split(",")[0].split() if axis not in kept]
    outputs = prod(sizes[axis] for axis in kept)
    terms = sizes[summed[-1]] if summed else 1
    return outputs * (2 * terms - 1)


PATTERNS = (
    ("row d_in, d_in d_out -> row d_out", "row d_in d_out"),
    ("batch query dim, batch key dim -> batch query key", "batch query key dim"),
    ("batch position d_in, batch position d_out -> d_in d_out", "batch position d_in d_out"),
    ("row, column -> row column", "row column"),
    ("batch query head dim, batch key head dim -> batch head query key", "batch query key head dim"),
    ("batch head query dim, d_out head dim -> batch query d_out", "batch head query dim d_out"),
)


def draw_contraction(rng):
    pattern, axes = rng.choice(PATTERNS)
    names = axes.split()
    return {"pattern": pattern, "sizes": dict(zip(names, rng.sample(SMALL, len(names)), strict=True))}


CONTRACTION = Exercise(
    id="4.5",
    title="Count a contraction from its pattern",
    notebook="04_flops",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=8,
    unit="FLOP",
    answer=contraction_flops,
    cases=[
        {"pattern": "row d_in, d_in d_out -> row d_out", "sizes": {"row": 3, "d_in": 5, "d_out": 7}},
        {
            "pattern": "batch query dim, batch key dim -> batch query key",
            "sizes": {"batch": 2, "query": 3, "key": 5, "dim": 7},
        },
        {
            "pattern": "batch position d_in, batch position d_out -> d_in d_out",
            "sizes": {"batch": 2, "position": 11, "d_in": 3, "d_out": 5},
        },
        {"pattern": "row, column -> row column", "sizes": {"row": 3, "column": 7}},
    ],
    draw=draw_contraction,
    case_text="{pattern} {sizes}",
    mistakes=[
        Mistake(
            "fma-as-one",
            "You counted each multiply and its add as one; they are two FLOPs.",
            Edit("2 * terms - 1", "terms"),
            see="04-forward",
        ),
        Mistake(
            "leading-count",
            "That is the leading count; the first term of each sum needs no addition.",
            Edit("2 * terms - 1", "2 * terms"),
            see="04-count-by-hand",
        ),
        Mistake(
            "outputs-only",
            "You counted the outputs; each of them is a sum over the axes that the output does not name.",
            Edit("outputs * (2 * terms - 1)", "outputs"),
            see="04-pattern",
        ),
        Mistake(
            "shared-axis-twice",
            "An axis that both inputs name is one axis: its size enters once.",
            every_operand_axis,
            see="04-pattern",
        ),
        Mistake(
            "one-summed-axis",
            "Every axis missing from the output is summed; you took only one of them.",
            last_summed_axis,
            see="04-pattern",
        ),
        Mistake(
            "additions-alone",
            "You counted the additions alone. For each there is a multiplication too, and one more.",
            Edit("2 * terms - 1", "terms - 1 + 0 * 2 if terms > 1 else 0"),
            see="04-forward",
        ),
        Mistake(
            "one-less-in-all",
            "You took one addition off in all. Each output saves one.",
            Edit("outputs * (2 * terms - 1)", "outputs * 2 * terms - 1"),
            see="04-forward",
        ),
        Mistake(
            "empty-sum",
            "Where nothing is summed, the sum has one term: one multiplication and no addition.",
            Edit(
                "terms = prod(sizes[axis] for axis in summed)",
                "terms = prod(sizes[axis] for axis in summed) if summed else 0",
            ),
            see="04-forward",
        ),
        Mistake(
            "sizes-added",
            "You added the sizes of the summed axes. The sum has a term for every combination: multiply.",
            Edit("terms = prod(", "terms = sum("),
            see="04-forward",
        ),
        Mistake(
            "each-output-alone",
            "That is one output's FLOPs. There are as many outputs as the sizes after the arrow multiply to.",
            Edit("return outputs * ", "return "),
            see="04-forward",
        ),
        Mistake(
            "first-input-saved",
            "You took the size of the first input off. It is each output that saves an addition.",
            Edit(
                "outputs * (2 * terms - 1)",
                'outputs * 2 * terms - prod(sizes[axis] for axis in pattern.partition(",")[0].split())',
            ),
            see="04-forward",
        ),
        Mistake(
            "shared-axes-alone",
            "You took the axes that both inputs name as summed. An axis after the arrow is kept, whoever names it, and one that is missing there is summed.",
            Edit(
                'summed = set(inputs.replace(",", " ").split()) - set(kept)',
                'summed = set.intersection(*(set(part.split()) for part in inputs.split(",")))',
            ),
            see="04-forward",
        ),
    ],
    hints=[
        "Which axis names stand before the arrow and not after it? Those are summed.",
        "Outputs: the product of the sizes after the arrow. Terms of each sum: the product of the sizes "
        "of the summed axes (1 if there are none).",
        "outputs * (2 * terms - 1), with terms over set(names before) - set(names after).",
    ],
)

LEAST_TIME = Exercise(
    id="4.6",
    title="From work to seconds",
    notebook="04_flops",
    kind="quantity",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="ms",
    answer="1.1112 ms",
    mistakes=[
        Mistake(
            "fma-as-one",
            "Half the time: a multiply and its add are two FLOPs, and the rate is the dense peak, not a sparse one.",
            "0.5556 ms",
            see="04-forward",
        ),
        Mistake(
            "whole-step",
            "That is forward and backward; the question asks for the forward product alone.",
            "3.333 ms",
            see="04-rate",
        ),
        Mistake(
            "seconds",
            "The digits are right; a thousandth of that, in ms, is 1.11 and not 1,111 or 0.00111.",
            "0.0011112 ms",
        ),
        Mistake(
            "rate-over-work", "That is FLOP/s divided by FLOP: 1/s, not seconds.", "900 ms", see="04-rate"
        ),
        Mistake(
            "in-bytes",
            "You took twice the time: FLOPs count operations, not the bytes of the operands.",
            "2.222 ms",
            see="04-forward",
        ),
        Mistake(
            "in-bits",
            "That is eight times the time, as with the shapes of the text above; these are smaller. Nor do bits enter: FLOPs count operations.",
            "8.889 ms",
            see="04-forward",
        ),
        Mistake("one-digit", "Rounded to one digit; three are asked for.", "1 ms", see="04-forward"),
        Mistake(
            "step-in-bytes",
            "Two slips: the question asks for the forward product alone, and FLOPs count operations, not bytes.",
            "6.667 ms",
            see="04-forward",
        ),
        Mistake(
            "half-and-seconds",
            "Two slips: a multiply and its add are two FLOPs, and what you have is in milliseconds.",
            "555.6 ms",
            see="04-forward",
        ),
    ],
    hints=[
        "Seconds are FLOP divided by FLOP/s. What is the FLOP count of the product?",
        "2 × 8192 × 4096 × 16384 = 1.0995 × 10^12 FLOP.",
        "1.0995 × 10^12 FLOP / (989.5 × 10^12 FLOP/s), in milliseconds.",
    ],
)


# -- the backward pass


def weight_gradient_flops(M, d_in, d_out):
    return d_in * d_out * (2 * M - 1)


WEIGHT_GRADIENT = Exercise(
    id="4.7",
    title="The missing row: the weight gradient",
    notebook="04_flops",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="FLOP",
    answer=weight_gradient_flops,
    cases=LAYERS,
    draw=draw_layer,
    case_text=LAYER_TEXT,
    mistakes=[
        Mistake(
            "forward-count",
            "That is the forward product's exact count. dW = Xᵀ·G has d_in·d_out outputs, and each sums "
            "over the M rows.",
            [Edit("d_in * d_out", "M * d_out"), Edit("2 * M - 1", "2 * d_in - 1")],
            see="04-three-products",
        ),
        Mistake(
            "input-gradient-count",
            "That is dX = G·Wᵀ, which sums over d_out. dW sums over the M rows.",
            [Edit("d_in * d_out", "M * d_in"), Edit("2 * M - 1", "2 * d_out - 1")],
            see="04-three-products",
        ),
        Mistake(
            "leading-count",
            "That is the leading count; the exact one saves an addition for each of the d_in·d_out = "
            "{d_in}·{d_out} outputs.",
            Edit("2 * M - 1", "2 * M"),
            see="04-three-products",
        ),
        Mistake(
            "fma-as-one",
            "You counted each multiply and its add as one; they are two FLOPs.",
            Edit("2 * M - 1", "M"),
            see="04-forward",
        ),
        Mistake(
            "whole-step",
            "That is the whole step's leading count. The row holds dW = Xᵀ·G alone.",
            Edit("d_in * d_out * (2 * M - 1)", "6 * M * d_in * d_out"),
            see="04-three-products",
        ),
        Mistake(
            "one-less-in-all",
            "You took one addition off in all. Each of the d_in·d_out sums saves one.",
            Edit("d_in * d_out * (2 * M - 1)", "d_in * d_out * 2 * M - 1"),
            see="04-three-products",
        ),
        Mistake(
            "a-product-less",
            "You took a multiplication off each sum as well; only an addition is saved.",
            Edit("(2 * M - 1)", "2 * (M - 1)"),
            see="04-three-products",
        ),
        Mistake(
            "one-more",
            "A sum of {M} products takes {M} − 1 additions, which makes 2M − 1 and not 2M + 1.",
            Edit("2 * M - 1", "2 * M + 1"),
            see="04-three-products",
        ),
        Mistake(
            "additions-alone",
            "You counted the additions alone; each product is a multiplication too.",
            Edit("(2 * M - 1)", "(M - 1)"),
            see="04-three-products",
        ),
        Mistake(
            "both-gradients",
            "You have both backward products. The row holds the weight gradient alone.",
            Edit(
                "return d_in * d_out * (2 * M - 1)",
                "return d_in * d_out * (2 * M - 1) + M * d_in * (2 * d_out - 1)",
            ),
            see="04-three-products",
        ),
        Mistake(
            "outputs-only",
            "You counted one product for each output of Y. dW has d_in·d_out entries, each a sum over M rows.",
            Edit("d_in * d_out * (2 * M - 1)", "M * d_out"),
            see="04-three-products",
        ),
        Mistake(
            "twice-the-forward",
            "That is twice the forward's exact count, the backward of thumb. dW alone has d_in·d_out entries, each a sum over M rows.",
            Edit("d_in * d_out * (2 * M - 1)", "2 * M * d_out * (2 * d_in - 1)"),
            see="04-three-products",
        ),
    ],
    hints=[
        "What is the shape of dW, and over which axis does each of its entries sum?",
        "d_in·d_out entries, each a sum of M products: M multiplications and M − 1 additions.",
        "d_in * d_out * (2 * M - 1).",
    ],
)


def layer_backward(X, W, b, G):
    Z = X @ W + b
    D = G * (Z > 0)
    dX = D @ W.T
    dW = X.T @ D
    db = D.sum(0)
    return dX, dW, db


def matrix(rng, *shape):
    """Small whole numbers, so that every order of summation gives the same bits."""
    if len(shape) == 1:
        return [rng.choice((-4, -3, -2, -1, 1, 2, 3, 4)) for _ in range(shape[0])]
    return [matrix(rng, *shape[1:]) for _ in range(shape[0])]


def tensor(rng, *shape):
    return {"array": matrix(rng, *shape), "dtype": "float64"}


def backward_case(rng, M, d_in, d_out):
    bias = [
        value + 0.5 for value in matrix(rng, d_out)
    ]  # halves, so that Z is never 0, where ReLU has no slope
    return {
        "X": tensor(rng, M, d_in),
        "W": tensor(rng, d_in, d_out),
        "b": {"array": bias, "dtype": "float64"},
        "G": tensor(rng, M, d_out),
    }


def draw_backward(rng):
    return backward_case(rng, *rng.sample((2, 3, 4, 5, 6), 3))


BACKWARD = Exercise(
    id="4.8",
    title="Through a ReLU by hand",
    notebook="04_flops",
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=10,
    answer=layer_backward,
    cases=[
        # Seeds with a Z of −0.5 and one of 0.5, so that a ReLU cut at another place shows.
        backward_case(random.Random(17), 2, 3, 5),
        backward_case(random.Random(24), 3, 3, 3),
        backward_case(random.Random(4), 5, 4, 2),
    ],
    draw=draw_backward,
    mistakes=[
        Mistake(
            "relu-ignored",
            "You passed G through as if there were no ReLU: where Z is negative, Y does not move with "
            "it, and nothing comes back.",
            Edit("G * (Z > 0)", "G"),
            see="04-backward-derivation",
        ),
        Mistake(
            "weight-not-transposed",
            "dX needs Wᵀ: entry (m, i) sums over j, W's second axis. `@ W` has fitting shapes only where"
            " d_in = d_out, "
            "and is wrong there too.",
            Edit("D @ W.T", "D @ W"),
            see="04-backward-derivation",
        ),
        Mistake(
            "swapped",
            "The products are there, in another order: return dX, then dW, then db.",
            Edit("return dX, dW", "return dW, dX"),
            see="04-ex8-prompt",
        ),
        Mistake(
            "mean-over-rows",
            "dW and db are sums over the rows of X, not means. If the loss is a mean, G already holds "
            "the 1/M.",
            [Edit("X.T @ D", "X.T @ D / len(X)"), Edit("D.sum(0)", "D.mean(0)")],
            see="04-backward-derivation",
        ),
        Mistake(
            "weight-mean",
            "Your dW is the mean over the rows of X; it is their sum, as your db is.",
            Edit("X.T @ D", "X.T @ D / len(X)"),
            see="04-backward-derivation",
        ),
        Mistake(
            "bias-mean",
            "Your db is the mean over the rows of X; it is their sum, as your dW is.",
            Edit("D.sum(0)", "D.mean(0)"),
            see="04-backward-derivation",
        ),
        Mistake(
            "bias-over-outputs",
            "db has one entry for each output, and sums over the rows; you summed over the outputs.",
            Edit("D.sum(0)", "D.sum(1)"),
            see="04-backward-derivation",
        ),
        Mistake(
            "upstream-ignored",
            "Your gradients are the same whatever G is: the chain rule multiplies by G = ∂L/∂Y.",
            Edit("G * (Z > 0)", "0 * G + (Z > 0)"),
            see="04-backward-derivation",
        ),
        Mistake(
            "weight-gradient-transposed",
            "Your dW is transposed: it has shape (d_out, d_in), and W is (d_in, d_out).",
            Edit("X.T @ D", "D.T @ X"),
            see="04-backward-derivation",
        ),
        Mistake(
            "mask-without-bias",
            "Your mask leaves the bias out: it is Z = X·W + b that is compared with 0.",
            Edit("Z = X @ W + b", "Z = X @ W"),
            see="04-backward-derivation",
        ),
        Mistake(
            "mask-on-weights-forgotten",
            "dX is right; dW and db took G as it came. All three start from G where Z is positive and 0 elsewhere.",
            [Edit("dW = X.T @ D", "dW = X.T @ G"), Edit("db = D.sum(0)", "db = G.sum(0)")],
            see="04-backward-derivation",
        ),
        Mistake(
            "bias-unmasked",
            "db is the sum of G as it came. It, too, starts from G where Z is positive and 0 elsewhere.",
            Edit("db = D.sum(0)", "db = G.sum(0)"),
            see="04-backward-derivation",
        ),
        Mistake(
            "weight-unmasked",
            "dW took G as it came. It, too, starts from G where Z is positive and 0 elsewhere.",
            Edit("dW = X.T @ D", "dW = X.T @ G"),
            see="04-backward-derivation",
        ),
        Mistake(
            "mask-of-g",
            "You masked where G is negative. The ReLU looks at Z.",
            Edit("(Z > 0)", "(G > 0)"),
            see="04-backward-derivation",
        ),
        Mistake(
            "times-y",
            "You multiplied G by Y. The ReLU's slope is 1 where Z is positive, whatever Y is there.",
            Edit("G * (Z > 0)", "G * Z.clamp(min=0)"),
            see="04-backward-derivation",
        ),
        Mistake(
            "mask-inverted",
            "Your mask is upside down: G passes where Z is positive.",
            Edit("Z > 0", "Z < 0"),
            see="04-backward-derivation",
        ),
        Mistake(
            "unmasked-mean",
            "Two slips: nothing comes back where Z is negative, and db is a sum over the rows, no mean.",
            [Edit("G * (Z > 0)", "G"), Edit("D.sum(0)", "D.mean(0)")],
            see="04-backward-derivation",
        ),
        Mistake(
            "unmasked-transposed",
            "Two slips: nothing comes back where Z is negative, and dW has W's shape, (d_in, d_out).",
            [Edit("G * (Z > 0)", "G"), Edit("X.T @ D", "D.T @ X")],
            see="04-backward-derivation",
        ),
        Mistake(
            "mask-without-bias-swapped",
            "Two slips: the mask leaves the bias out, and dX comes first.",
            [Edit("Z = X @ W + b", "Z = X @ W"), Edit("return dX, dW, db", "return dW, dX, db")],
            see="04-backward-derivation",
        ),
    ],
    equivalent=["D = G * (Z >= 0)  # Z is never 0 here"],
    hints=[
        "Go back through the ReLU first: what is ∂L/∂Z where Z > 0, and where Z < 0? It then takes G's "
        "place in both products.",
        "D = G where Z > 0, and 0 elsewhere. Z[m, j] = … + b[j]: b[j] is used in every row.",
        "D = G * (X @ W + b > 0); dX = D @ W.T; dW is Xᵀ times D; db adds D over its rows.",
    ],
)


def draw_named(rng):
    batch, position, d_in, d_out = rng.sample((2, 3, 4, 5), 4)
    return {"X": tensor(rng, batch, position, d_in), "G": tensor(rng, batch, position, d_out)}


NAMED = Exercise(
    id="4.9",
    title="dW with a batch and a position axis",
    notebook="04_flops",
    kind="driver",
    driver="einops",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=5,
    answer="batch position d_in, batch position d_out -> d_in d_out",
    cases=[draw_named(random.Random(4)), draw_named(random.Random(5))],
    draw=draw_named,
    mistakes=[
        Mistake(
            "batch-kept",
            "You kept the batch axis: that is one dW for each example. W is shared by all of them, so "
            "their gradients add.",
            Edit("-> d_in d_out", "-> batch d_in d_out"),
            see="04-backward-derivation",
        ),
        Mistake(
            "position-kept",
            "You kept the position axis: that is one dW for each position. W is shared by all of them, "
            "so their gradients add.",
            Edit("-> d_in d_out", "-> position d_in d_out"),
            see="04-backward-derivation",
        ),
        Mistake(
            "transposed",
            "The sums are right and the axes are swapped: dW has W's shape, d_in first.",
            Edit("-> d_in d_out", "-> d_out d_in"),
            see="04-backward-derivation",
        ),
        Mistake(
            "rows-not-summed",
            "You kept both row axes, so nothing is summed: dW sums over every row of X, batch and "
            "position alike.",
            Edit("-> d_in d_out", "-> batch position d_in d_out"),
            see="04-backward-derivation",
        ),
    ],
    hints=[
        "Name X's axes and G's axes, and give the same name to what they share.",
        "W is used by every example and every position: dW sums over both, so neither name stands after "
        "the arrow.",
        "'batch position d_in, batch position d_out -> …': what is left is W's shape.",
    ],
)


def network_step_flops(M, widths):
    flops = 0
    for layer in range(len(widths) - 1):
        d_in, d_out = widths[layer], widths[layer + 1]
        flops += M * d_out * (2 * d_in - 1)
        flops += d_in * d_out * (2 * M - 1)
        if layer > 0:
            flops += M * d_in * (2 * d_out - 1)
    return flops


def draw_network(rng):
    M, *widths = rng.sample(SMALL, rng.choice((4, 5, 6)))
    return {"M": M, "widths": widths}


NETWORK = Exercise(
    id="4.10",
    title="A step of a whole network",
    notebook="04_flops",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=3,
    minutes=10,
    unit="FLOP",
    answer=network_step_flops,
    cases=[
        {"M": 3, "widths": [5, 7]},
        {"M": 3, "widths": [5, 7, 2]},
        {"M": 13, "widths": [2, 11, 3, 5]},
    ],
    draw=draw_network,
    case_text="M={M}, widths={widths}",
    mistakes=[
        Mistake(
            "boundary-counted",
            "The data need no gradient: the first layer has no dX product.",
            Edit("if layer > 0:", "if True:"),
            see="04-boundary",
        ),
        Mistake(
            "no-input-gradients",
            "Only the first layer can skip dX: every later one hands it on to the layer below.",
            Edit("if layer > 0:", "if False:"),
            see="04-boundary",
        ),
        Mistake(
            "skipped-at-the-top",
            "You skipped dX at the last layer. The one nobody needs is the first layer's: its input is "
            "the data.",
            Edit("if layer > 0:", "if layer < len(widths) - 2:"),
            see="04-boundary",
        ),
        Mistake(
            "no-forward",
            "The forward products are missing: what you have is the backward pass alone.",
            Edit("flops += M * d_out * (2 * d_in - 1)", "flops += 0"),
            see="04-three-products",
        ),
        Mistake(
            "no-weight-gradients",
            "The weight gradients dW = Xᵀ·G are missing: d_in·d_out·(2M − 1) for every layer.",
            Edit("flops += d_in * d_out * (2 * M - 1)", "flops += 0"),
            see="04-three-products",
        ),
        Mistake(
            "forward-count-three-times",
            "You gave dW and dX the forward's exact count. The three agree only to leading order: each "
            "sums over another axis.",
            [
                Edit("d_in * d_out * (2 * M - 1)", "M * d_out * (2 * d_in - 1)"),
                Edit("M * d_in * (2 * d_out - 1)", "M * d_out * (2 * d_in - 1)"),
            ],
            see="04-three-products",
        ),
        Mistake(
            "forward-only",
            "That is the forward pass alone. The backward adds dW for every layer, and dX for every one but the first.",
            [
                Edit("        flops += d_in * d_out * (2 * M - 1)\n", ""),
                Edit("            flops += M * d_in * (2 * d_out - 1)", "            pass"),
            ],
            see="04-boundary",
        ),
        Mistake(
            "leading-count",
            "That is the leading count. Exactly, each result of each product saves an addition.",
            [
                Edit("(2 * d_in - 1)", "2 * d_in"),
                Edit("(2 * M - 1)", "2 * M"),
                Edit("(2 * d_out - 1)", "2 * d_out"),
            ],
            see="04-boundary",
        ),
        Mistake(
            "six-m-p",
            "Two slips: that is 6·M·P. The exact count saves an addition for each result, and the first layer has no dX.",
            [
                Edit("(2 * d_in - 1)", "2 * d_in"),
                Edit("(2 * M - 1)", "2 * M"),
                Edit("(2 * d_out - 1)", "2 * d_out"),
                Edit("layer > 0", "layer >= 0"),
            ],
            see="04-boundary",
        ),
        Mistake(
            "weight-gradient-skipped",
            "You skipped dW of the first layer. It is dX that nobody needs there.",
            [
                Edit(
                    "        flops += d_in * d_out * (2 * M - 1)\n        if layer > 0:\n            flops += M * d_in * (2 * d_out - 1)",
                    "        flops += M * d_in * (2 * d_out - 1)\n        if layer > 0:\n            flops += d_in * d_out * (2 * M - 1)",
                )
            ],
            see="04-boundary",
        ),
        Mistake(
            "last-layer-left-out",
            "The last layer is missing: {widths} are one layer fewer than widths.",
            Edit("len(widths) - 1", "len(widths) - 2"),
            see="04-boundary",
        ),
        Mistake(
            "first-layer-left-out",
            "You left out the first layer altogether. It has a forward and a dW; only its dX is not needed.",
            Edit("range(len(widths) - 1)", "range(1, len(widths) - 1)"),
            see="04-boundary",
        ),
        Mistake(
            "leading-without-dx",
            "Two slips: the exact count saves an addition for each result, and every layer but the first has a dX.",
            [
                Edit("(2 * d_in - 1)", "2 * d_in"),
                Edit("(2 * M - 1)", "2 * M"),
                Edit("            flops += M * d_in * (2 * d_out - 1)", "            pass"),
            ],
            see="04-boundary",
        ),
        Mistake(
            "leading-forward",
            "Two slips: that is the forward alone, and its leading count.",
            [
                Edit("(2 * d_in - 1)", "2 * d_in"),
                Edit("        flops += d_in * d_out * (2 * M - 1)\n", ""),
                Edit("            flops += M * d_in * (2 * d_out - 1)", "            pass"),
            ],
            see="04-boundary",
        ),
    ],
    hints=[
        "Write the three exact counts of one layer side by side; then ask which layer needs which.",
        "Every layer has a forward and a dW; every layer but the first has a dX.",
        "forward M·d_out·(2·d_in − 1), dW d_in·d_out·(2·M − 1), dX M·d_in·(2·d_out − 1): loop over "
        "neighbouring widths, dX only from the second layer on.",
    ],
)

FROZEN = Exercise(
    id="4.11",
    title="Freeze the first layer: which budget changes?",
    notebook="04_flops",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="c",
    options={
        "a": "Arithmetic alone: 4·M·P becomes 2·M·P. X is still kept, as in every forward pass.",
        "b": "Storage alone: X need not be kept. The products are the same.",
        "c": "Both: 4·M·P becomes 2·M·P since dW is not computed, and X is not kept since only dW needs it.",
        "d": "Arithmetic alone: 6·M·P becomes 4·M·P, since the boundary skips dX.",
    },
    mistakes=[
        Mistake(
            "x-still-kept",
            "X is kept for dW and for nothing else: without dW, autograd lets it go.",
            "a",
            see="04-saved",
        ),
        Mistake("same-products", "Without dW one product goes: 4·M·P becomes 2·M·P.", "b", see="04-boundary"),
        Mistake(
            "boundary-again",
            "The first layer never computed dX: it starts from 4·M·P. Freezing takes dW away too.",
            "d",
            see="04-boundary",
        ),
    ],
    hints=[
        "Which of the three products does the first layer compute before it is frozen, and which after?",
        "Before: forward and dW. After: forward alone. What was kept for dW?",
        "dW = Xᵀ·G is the only product that needs X again.",
    ],
)


# -- a training run


def run_row(parameters, dataset_tokens, epochs):
    return 6 * parameters * dataset_tokens * epochs


def draw_run_row(rng):
    return {
        "parameters": rng.randint(11, 700) * 10**8 + 10**6 * rng.randint(1, 9),
        "dataset_tokens": rng.randint(3, 900) * 10**9,
        "epochs": rng.choice((1, 2, 3, 5, 7)),
    }


RUN_ROW = Exercise(
    id="4.12",
    title="The missing row: books, four times",
    notebook="04_flops",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="FLOP",
    answer=run_row,
    cases=[
        {"parameters": 7 * 10**9, "dataset_tokens": 25 * 10**9, "epochs": 4},
        {"parameters": 13 * 10**8, "dataset_tokens": 300 * 10**9, "epochs": 1},
        {"parameters": 70 * 10**9, "dataset_tokens": 11 * 10**9, "epochs": 3},
    ],
    draw=draw_run_row,
    case_text="P={parameters}, tokens={dataset_tokens}, epochs={epochs}",
    mistakes=[
        Mistake(
            "repeats-left-out",
            "T counts every token processed: {epochs} passes over the data cost {epochs} times as much.",
            Edit(" * epochs", ""),
            see="04-training",
        ),
        Mistake(
            "forward-only",
            "2·P·T is the forward pass alone; dX and dW cost as much again, each.",
            Edit("6", "2"),
            see="04-training",
        ),
        Mistake(
            "backward-only",
            "4·P·T is the backward pass alone; the forward adds 2·P·T.",
            Edit("6", "4"),
            see="04-training",
        ),
        Mistake(
            "fma-as-one",
            "You counted each multiply and its add as one; they are two FLOPs.",
            Edit("6", "3"),
            see="04-forward",
        ),
        Mistake(
            "with-recomputation",
            "8·P·T includes a second forward, which only a run that recomputes its activations pays.",
            Edit("6", "8"),
            see="04-recompute",
        ),
        Mistake(
            "one-pass-too-few",
            "You counted one pass too few: the first one is a pass, too.",
            Edit("* epochs", "* (epochs - 1)"),
            see="04-training",
        ),
        Mistake(
            "one-pass-too-many",
            "You counted one pass too many: {epochs} passes read the data {epochs} times.",
            Edit("* epochs", "* (epochs + 1)"),
            see="04-training",
        ),
    ],
    hints=[
        "How many tokens does the model process in all?",
        "Three products, two FLOPs for each parameter and token in each of them.",
        "6 times parameters times all tokens processed; repeats count.",
    ],
)


def training_days(parameters, tokens, devices, peak, utilization):
    flops = 6 * parameters * tokens
    rate = devices * utilization * peak
    return flops / rate / 86400


def draw_days(rng):
    return {
        "parameters": rng.randint(5, 4000) * 10**8,
        "tokens": rng.randint(2, 160) * 10**11,
        "devices": rng.choice((8, 64, 256, 1024, 2048, 6144)),
        "peak": rng.choice((125, 312, 362, 989)) * 10**12,
        "utilization": rng.randint(21, 62) / 100,
    }


DAYS = Exercise(
    id="4.13",
    title="How many days will it train?",
    notebook="04_flops",
    kind="function",
    level="core",
    difficulty="steady",
    points=2,
    minutes=6,
    unit="day",
    tolerance=1e-6,
    answer=training_days,
    cases=[
        {
            "parameters": 70 * 10**9,
            "tokens": 15 * 10**12,
            "devices": 1024,
            "peak": 9895 * 10**11,
            "utilization": 0.5,
        },
        {
            "parameters": 8 * 10**9,
            "tokens": 2 * 10**12,
            "devices": 256,
            "peak": 312 * 10**12,
            "utilization": 0.4,
        },
        {"parameters": 124 * 10**6, "tokens": 10**10, "devices": 8, "peak": 125 * 10**12, "utilization": 0.3},
    ],
    draw=draw_days,
    case_text=(
        "P={parameters:.3g}, T={tokens:.3g}, {devices} devices of {peak:.4g} FLOP/s, utilization "
        "{utilization}"
    ),
    mistakes=[
        Mistake(
            "device-days",
            "That is device-days, as if one device did it all; {devices} devices work at once.",
            Edit("devices * utilization * peak", "utilization * peak"),
            see="04-days",
        ),
        Mistake(
            "peak-assumed",
            "You assumed the peak rate; at utilization {utilization} the devices reach only that share "
            "of it.",
            Edit("devices * utilization * peak", "devices * peak"),
            see="04-days",
        ),
        Mistake(
            "utilization-upside-down",
            "A lower utilization must make the run longer; yours makes it shorter.",
            Edit("devices * utilization * peak", "devices / utilization * peak"),
            see="04-days",
        ),
        Mistake(
            "forward-only",
            "2·P·T is the forward pass alone; training takes 6·P·T.",
            Edit("6 *", "2 *"),
            see="04-training",
        ),
        Mistake(
            "with-recomputation",
            "8·P·T includes a second forward, which only a run that recomputes its activations pays.",
            Edit("6 *", "8 *"),
            see="04-recompute",
        ),
        Mistake(
            "seconds-for-days",
            "That is seconds; a day has 86,400 of them.",
            Edit(" / 86400", ""),
            see="04-days",
        ),
        Mistake(
            "hours-for-days", "That is hours; you divided by 3,600.", Edit("86400", "3600"), see="04-days"
        ),
        Mistake(
            "backward-only",
            "4·P·T is the backward pass alone; training takes 6·P·T.",
            Edit("6 * parameters", "4 * parameters"),
            see="04-days",
        ),
        Mistake(
            "minutes-for-days",
            "That is 60 times the days: a day has 24 · 60 minutes of 60 seconds.",
            Edit("/ 86400", "/ 1440"),
            see="04-days",
        ),
        Mistake(
            "sixty-for-twenty-four",
            "You took 60 hours for a day; it has 24.",
            Edit("/ 86400", "/ 216000"),
            see="04-days",
        ),
        Mistake(
            "sparse-peak",
            "Half the days: either a multiply and its add count as one FLOP, or the peak was doubled. They are two "
            "FLOPs, and the peak given is the dense one already.",
            Edit("utilization * peak", "utilization * peak * 2"),
            see="04-days",
        ),
        Mistake(
            "percent",
            "You took the utilization as a percentage; it is given as a share.",
            Edit("utilization * peak", "utilization / 100 * peak"),
            see="04-days",
        ),
        Mistake(
            "peak-in-tera",
            "You took the peak as TFLOP/s; it is given in FLOP/s.",
            Edit("utilization * peak", "utilization * peak * 10**12"),
            see="04-days",
        ),
    ],
    hints=[
        "Days are work divided by rate. What is the work, and what is the rate of all devices together?",
        "Work 6·P·T; rate devices × utilization × peak, in FLOP/s.",
        "6 * parameters * tokens / (devices * utilization * peak) is seconds; there are 86,400 in a day.",
    ],
)


# -- where 6PT fails


def multiplying_parameters(parameters, vocab_size, hidden_size, positions, tied):
    lookups = positions * hidden_size
    if not tied:
        lookups += vocab_size * hidden_size
    return parameters - lookups


def without_head(parameters, vocab_size, hidden_size, positions, tied):
    tables = 1 if tied else 2
    return parameters - (positions + tables * vocab_size) * hidden_size


def draw_multiplying(rng):
    hidden_size = 64 * rng.randint(4, 64)
    vocab_size = rng.randint(10_000, 160_000)
    positions = rng.choice((512, 1024, 2048))
    return {
        "parameters": 2 * vocab_size * hidden_size + rng.randint(10**8, 10**10),
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "positions": positions,
        "tied": rng.choice((True, False)),
    }


MULTIPLYING = Exercise(
    id="4.14",
    title="Which parameters multiply a token?",
    notebook="04_flops",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=5,
    unit="parameter",
    answer=multiplying_parameters,
    cases=[
        {"parameters": 124439808, "vocab_size": 50257, "hidden_size": 768, "positions": 1024, "tied": True},
        {"parameters": 8030261248, "vocab_size": 128256, "hidden_size": 4096, "positions": 0, "tied": False},
        {"parameters": 200000000, "vocab_size": 30000, "hidden_size": 1024, "positions": 512, "tied": False},
    ],
    draw=draw_multiplying,
    case_text=(
        "P={parameters}, vocabulary {vocab_size}, hidden {hidden_size}, positions {positions}, tied={tied}"
    ),
    mistakes=[
        Mistake(
            "lookups-counted",
            "You counted every parameter. A token reads one row of a lookup table and multiplies nothing"
            " by it.",
            Edit("parameters - lookups", "parameters"),
            see="04-embeddings",
        ),
        Mistake(
            "head-left-out",
            "You left the output head out. It multiplies every token by vocab_size · hidden_size "
            "weights, also where it "
            "shares them with the embedding.",
            without_head,
            see="04-embeddings",
        ),
        Mistake(
            "tied-table-left-out",
            "A tied table is a lookup at the input and a product at the output: it stays in.",
            [Edit("if not tied:", "if True:")],
            see="04-embeddings",
        ),
        Mistake(
            "positions-counted",
            "The table of learned positions is a lookup as well: {positions} × {hidden_size} weights "
            "that multiply nothing.",
            Edit("lookups = positions * hidden_size", "lookups = 0"),
            see="04-embeddings",
        ),
        Mistake(
            "tied-reversed",
            "It is the other way about: a tied table is multiplied at the output and stays in; an untied model has a table that is only looked up.",
            Edit("if not tied:", "if tied:"),
            see="04-embeddings",
        ),
        Mistake(
            "reversed-without-positions",
            "Two slips: a tied table stays in and an untied one is only looked up, and the table of positions is a lookup as well.",
            [Edit("if not tied:", "if tied:"), Edit("positions * hidden_size", "0")],
            see="04-embeddings",
        ),
        Mistake(
            "always-and-no-positions",
            "Two slips: a tied table is multiplied at the output and stays in, and the table of positions is a lookup as well.",
            [Edit("if not tied:", "if True:"), Edit("positions * hidden_size", "0")],
            see="04-embeddings",
        ),
        Mistake(
            "rows-not-weights",
            "You took off the number of rows of the token table. Each row has {hidden_size} weights.",
            Edit("vocab_size * hidden_size", "vocab_size"),
            see="04-embeddings",
        ),
        Mistake(
            "positions-not-weights",
            "You took off the number of positions. Each is a row of {hidden_size} weights.",
            Edit("positions * hidden_size", "positions"),
            see="04-embeddings",
        ),
        Mistake(
            "both-tables-out",
            "You took both tables off. The head's is multiplied by every token and stays in.",
            Edit("lookups += vocab", "lookups += 2 * vocab"),
            see="04-embeddings",
        ),
        Mistake(
            "untied-table-stays",
            "The untied token table is only looked up: it multiplies nothing and comes off.",
            Edit("lookups += vocab_size * hidden_size", "pass"),
            see="04-embeddings",
        ),
        Mistake(
            "tied-table-added",
            "You counted a tied table once more. `parameters` has it once, and it multiplies once.",
            Edit(
                "    return parameters",
                "    if tied:\n        lookups -= vocab_size * hidden_size\n    return parameters",
            ),
            see="04-embeddings",
        ),
        Mistake(
            "positions-added",
            "You added the table of positions. `parameters` has it already, and it comes off.",
            Edit("positions * hidden_size", "-positions * hidden_size"),
            see="04-embeddings",
        ),
        Mistake(
            "six-times",
            "You multiplied by 6. Asked for is the P of 6·P·T.",
            Edit("return parameters - lookups", "return 6 * (parameters - lookups)"),
            see="04-embeddings",
        ),
    ],
    hints=[
        "For each table of weights ask: is a row of it copied, or is it multiplied by the token's vector?",
        "Copied: the positions, and the input embedding. Multiplied: the head. What if the last two are "
        "one table?",
        "Subtract positions · hidden_size, and vocab_size · hidden_size unless tied.",
    ],
)


def attention_flops(layers, heads, head_dim, sequence, sequences, causal):
    forward = 4 * head_dim * sequence * sequence * heads * layers * sequences
    if causal:
        forward //= 2
    return 3 * forward


def exact_triangle(layers, heads, head_dim, sequence, sequences, causal):
    pairs = sequence * (sequence + 1) // 2 if causal else sequence * sequence
    return 3 * 4 * head_dim * pairs * heads * layers * sequences


def draw_attention(rng):
    return {
        "layers": rng.choice((2, 3, 12, 28, 32, 48)),
        "heads": rng.choice((5, 8, 12, 40)),
        "head_dim": rng.choice((48, 64, 96, 128)),
        "sequence": rng.choice((3, 77, 1024, 8192, 131072)),
        "sequences": rng.randint(2, 9),
        "causal": rng.random() < 0.7,
    }


ATTENTION = Exercise(
    id="4.15",
    title="The missing row: attention",
    notebook="04_flops",
    kind="function",
    level="core",
    difficulty="demanding",
    points=3,
    minutes=8,
    unit="FLOP",
    answer=attention_flops,
    cases=[
        {"layers": 32, "heads": 32, "head_dim": 128, "sequence": 8192, "sequences": 1, "causal": True},
        {"layers": 12, "heads": 12, "head_dim": 64, "sequence": 1024, "sequences": 8, "causal": False},
        {"layers": 2, "heads": 5, "head_dim": 7, "sequence": 3, "sequences": 11, "causal": True},
    ],
    draw=draw_attention,
    case_text=(
        "{layers} layers, {heads} heads of {head_dim}, {sequences} sequences of {sequence}, causal={causal}"
    ),
    mistakes=[
        Mistake(
            "causal-as-full",
            "You counted all pairs of a query and a key; a causal mask leaves half of them.",
            Edit("if causal:", "if False:"),
            see="04-attention",
        ),
        Mistake(
            "full-as-causal",
            "You halved the pairs where no mask does: causal is False in that case.",
            Edit("if causal:", "if True:"),
            see="04-attention",
        ),
        Mistake(
            "exact-triangle",
            "That is the exact triangle, s(s+1)/2 pairs. The convention asked for, and the one in print,"
            " is half of s².",
            exact_triangle,
            see="04-ex15-prompt",
        ),
        Mistake(
            "scores-only",
            "Half of it: either Q·Kᵀ alone, and weighting the values is a second product of the same size, or each "
            "multiply and its add as one FLOP.",
            Edit("4 *", "2 *"),
            see="04-attention",
        ),
        Mistake(
            "forward-only",
            "That is the forward pass; each of its products has two more in the backward pass.",
            Edit("3 * forward", "forward"),
            see="04-attention",
        ),
        Mistake(
            "backward-only",
            "That is the backward pass alone; the forward belongs to the row too.",
            Edit("3 * forward", "2 * forward"),
            see="04-attention",
        ),
        Mistake(
            "one-head",
            "That is one of the {heads} heads.",
            Edit(" * heads", ""),
            see="04-attention",
        ),
        Mistake(
            "one-sequence",
            "That is one of the {sequences} sequences.",
            Edit(" * sequences", ""),
            see="04-attention",
        ),
        Mistake(
            "causal-quarter",
            "You halved twice for the causal mask. It leaves half of the pairs.",
            Edit("//= 2", "//= 4"),
            see="04-attention",
        ),
        Mistake(
            "with-recomputation",
            "That has a second forward, which only a run that recomputes its activations pays.",
            Edit("3 * forward", "4 * forward"),
            see="04-attention",
        ),
        Mistake(
            "causal-reversed",
            "You halved where no mask does, and not where one does.",
            Edit("if causal:", "if not causal:"),
            see="04-attention",
        ),
        Mistake(
            "forward-and-full",
            "Two slips: that is the forward pass, and a causal mask leaves half of the pairs.",
            [Edit("if causal:", "if False:"), Edit("3 * forward", "forward")],
            see="04-attention",
        ),
        Mistake(
            "one-long-sequence",
            "You made one long sequence of them. Attention stays within each: sequence² pairs, for every sequence.",
            Edit(
                "sequence * sequence * heads * layers * sequences",
                "(sequence * sequences) ** 2 * heads * layers",
            ),
            see="04-attention",
        ),
    ],
    hints=[
        "How many (query, key) pairs has one sequence? What does one pair cost in one head?",
        "A pair costs a dot product of length head_dim for the score and as much again for the value: "
        "4·head_dim FLOPs. Then heads, layers, sequences, and three for the training step.",
        "3 * 4 * head_dim * pairs * heads * layers * sequences, with pairs = s²/2 if causal, else s².",
    ],
)


def dense_flops_per_token(num_hidden_layers, hidden_size, intermediate_size, vocab_size):
    attention = 6 * 4 * num_hidden_layers * hidden_size**2
    ffn = 6 * 3 * num_hidden_layers * hidden_size * intermediate_size
    head = 6 * vocab_size * hidden_size
    return attention + ffn + head


def draw_dense(rng):
    hidden_size = 64 * rng.randint(6, 96)
    return {
        "num_hidden_layers": rng.randint(4, 80),
        "hidden_size": hidden_size,
        "intermediate_size": 64 * rng.randint(7, 300) + 32,
        "vocab_size": rng.randint(20_000, 200_000),
    }


DENSE_FAULTS = Exercise(
    id="4.16",
    title="What is wrong in this calculator: a dense model",
    notebook="04_flops",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=7,
    unit="FLOP/token",
    answer=dense_flops_per_token,
    cases=[
        {"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 11008, "vocab_size": 32000},
        {"num_hidden_layers": 22, "hidden_size": 2048, "intermediate_size": 5632, "vocab_size": 50432},
        {"num_hidden_layers": 3, "hidden_size": 5, "intermediate_size": 7, "vocab_size": 11},
    ],
    draw=draw_dense,
    case_text=(
        "{num_hidden_layers} layers, hidden {hidden_size}, intermediate {intermediate_size}, vocabulary "
        "{vocab_size}"
    ),
    mistakes=[
        Mistake(
            "ffn-size-ignored",
            "The feed-forward row still takes 4 · hidden_size; `intermediate_size` = {intermediate_size}"
            " is never used there.",
            Edit("* intermediate_size", "* 4 * hidden_size"),
            see="04-ex16-fault",
        ),
        Mistake(
            "head-forward-only",
            "The head's row is still 2 · vocab_size · hidden_size, its forward; training takes three "
            "products.",
            Edit("head = 6 *", "head = 2 *"),
            see="04-three-products",
        ),
        Mistake(
            "unchanged",
            "Both faults are still there: one row uses a size it should not, another counts one product "
            "where training takes three.",
            [Edit("* intermediate_size", "* 4 * hidden_size"), Edit("head = 6 *", "head = 2 *")],
            see="04-ex16-fault",
        ),
        Mistake(
            "ungated-ffn",
            "This model's feed-forward block is gated: three matrices (gate, up, down), not two.",
            Edit("6 * 3 *", "6 * 2 *"),
            see="04-ex16-prompt",
        ),
        Mistake(
            "head-left-out",
            "The output head is missing: 6 · vocab_size · hidden_size.",
            Edit("attention + ffn + head", "attention + ffn"),
            see="04-ex16-fault",
        ),
        Mistake(
            "embedding-counted",
            "You counted the table twice. Looking a token up multiplies nothing; only the head does.",
            Edit("head = 6 *", "head = 12 *"),
            see="04-ex16-fault",
        ),
        Mistake(
            "forward-only",
            "That is the forward pass; training takes three products where it takes one.",
            Edit("return attention + ffn + head", "return (attention + ffn + head) // 3"),
            see="04-ex16-fault",
        ),
        Mistake(
            "three-matrices",
            "You counted three attention matrices. There are four: for queries, keys, values and the output.",
            Edit("6 * 4 *", "6 * 3 *"),
            see="04-ex16-fault",
        ),
        Mistake(
            "four-times-intermediate",
            "`intermediate_size` is the block's width already; it takes no factor of 4.",
            Edit("* intermediate_size", "* 4 * intermediate_size"),
            see="04-ex16-fault",
        ),
        Mistake(
            "intermediate-squared",
            "The matrices are hidden_size × intermediate_size, not intermediate_size squared.",
            Edit("* hidden_size * intermediate_size", "* intermediate_size * intermediate_size"),
            see="04-ex16-fault",
        ),
        Mistake(
            "head-in-every-layer",
            "You counted an output head in every layer. There is one.",
            Edit("head = 6 *", "head = 6 * num_hidden_layers *"),
            see="04-ex16-fault",
        ),
        Mistake(
            "eight-thirds",
            "You took 8/3 of the hidden size, the usual width of a gated block. This model's is given.",
            Edit("* intermediate_size", "* (8 * hidden_size // 3)"),
            see="04-ex16-fault",
        ),
        Mistake(
            "ffn-and-head",
            "Two slips: the block still takes 4 · hidden_size, and the head has three products.",
            [Edit("* intermediate_size", "* 4 * hidden_size"), Edit("head = 6 *", "head = 4 *")],
            see="04-ex16-fault",
        ),
    ],
    hints=[
        "Which of the function's arguments is never used?",
        "Compare the factors in front: 6 is a training step. Which row has another one?",
        "The feed-forward row needs intermediate_size in place of 4 · hidden_size, and the head's row 6 "
        "in place of 2.",
    ],
)


def moe_ffn_flops_per_token(layers, hidden_size, num_experts, experts_per_token, expert_interval):
    one_ffn = 6 * 2 * hidden_size * 4 * hidden_size
    moe_layers = layers // expert_interval
    dense_layers = layers - moe_layers
    return one_ffn * (dense_layers + moe_layers * experts_per_token)


def draw_moe(rng):
    experts_per_token = rng.choice((2, 3, 4, 6))
    return {
        "layers": rng.randint(5, 60),
        "hidden_size": 64 * rng.randint(3, 64),
        "num_experts": experts_per_token * rng.choice((4, 7, 16)),
        "experts_per_token": experts_per_token,
        "expert_interval": rng.choice((2, 3, 4)),
    }


MOE_FAULT = Exercise(
    id="4.17",
    title="What is wrong in this calculator: a mixture of experts",
    notebook="04_flops",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=7,
    unit="FLOP/token",
    answer=moe_ffn_flops_per_token,
    cases=[
        {"layers": 12, "hidden_size": 768, "num_experts": 8, "experts_per_token": 2, "expert_interval": 2},
        {"layers": 13, "hidden_size": 5, "num_experts": 16, "experts_per_token": 4, "expert_interval": 3},
        {"layers": 25, "hidden_size": 1024, "num_experts": 64, "experts_per_token": 6, "expert_interval": 4},
    ],
    draw=draw_moe,
    case_text=(
        "{layers} layers, hidden {hidden_size}, {experts_per_token} of {num_experts} experts, every "
        "{expert_interval} layers"
    ),
    mistakes=[
        Mistake(
            "dense-count",
            "That is the dense model. In an expert layer a token passes through {experts_per_token} "
            "feed-forward blocks.",
            Edit(" * experts_per_token)", ")"),
            see="04-moe",
        ),
        Mistake(
            "all-experts",
            "You counted all {num_experts} experts. A token multiplies the weights of "
            "{experts_per_token} of them; the others "
            "take storage, not arithmetic.",
            Edit("moe_layers * experts_per_token", "moe_layers * num_experts"),
            see="04-moe",
        ),
        Mistake(
            "every-layer-moe",
            "Only one layer in {expert_interval} has experts; the others have one feed-forward block.",
            Edit("dense_layers + moe_layers * experts_per_token", "layers * experts_per_token"),
            see="04-ex17-prompt",
        ),
        Mistake(
            "layers-swapped",
            "One layer in {expert_interval} has experts; you gave experts to all the others instead.",
            Edit(
                "dense_layers + moe_layers * experts_per_token",
                "moe_layers + dense_layers * experts_per_token",
            ),
            see="04-ex17-prompt",
        ),
        Mistake(
            "forward-only",
            "That is the forward pass; training takes three products where it takes one.",
            Edit("6 *", "2 *"),
            see="04-three-products",
        ),
        Mistake(
            "experts-only",
            "You counted the layers with experts alone. The others have a feed-forward block each.",
            Edit("dense_layers + moe", "moe"),
            see="04-moe",
        ),
        Mistake(
            "dense-block-too",
            "You gave every layer its one block and the expert layers their experts on top. There they stand in its place.",
            Edit("dense_layers + moe", "layers + moe"),
            see="04-moe",
        ),
        Mistake(
            "share-of-experts",
            "You took the share of experts that a token passes through. It passes through {experts_per_token} blocks, however many there are.",
            Edit("* experts_per_token", "* experts_per_token / num_experts"),
            see="04-moe",
        ),
        Mistake(
            "broken-layers",
            "You counted {layers}/{expert_interval} expert layers. There are only whole ones: `//`.",
            Edit("layers // expert_interval", "layers / expert_interval"),
            see="04-moe",
        ),
        Mistake(
            "first-layer-expert",
            "You began with an expert layer. The expert layers are numbers {expert_interval}, 2·{expert_interval} …, counted from 1.",
            Edit("layers // expert_interval", "-(-layers // expert_interval)"),
            see="04-moe",
        ),
        Mistake(
            "router-counted",
            "You counted the router, which is to be left out.",
            Edit(
                "return one_ffn * (dense_layers + moe_layers * experts_per_token)",
                "return one_ffn * (dense_layers + moe_layers * experts_per_token) + 6 * moe_layers * hidden_size * num_experts",
            ),
            see="04-moe",
        ),
        Mistake(
            "three-matrices",
            "You counted three matrices, as in a gated block. This one has two.",
            Edit("6 * 2 *", "6 * 3 *"),
            see="04-moe",
        ),
        Mistake(
            "one-matrix",
            "You counted one matrix. A block goes to 4·hidden_size and back: two.",
            Edit("6 * 2 *", "6 *"),
            see="04-moe",
        ),
        Mistake(
            "all-layers-all-experts",
            "Two slips: only one layer in {expert_interval} has experts, and a token passes through {experts_per_token} of them.",
            [Edit("dense_layers + moe_layers * experts_per_token", "layers * num_experts")],
            see="04-moe",
        ),
        Mistake(
            "one-layer-missing",
            "One layer is missing: your count stops before the last.",
            Edit(
                "dense_layers = layers - moe_layers",
                "layers -= 1\n    moe_layers = layers // expert_interval\n    dense_layers = layers - moe_layers",
            ),
            see="04-moe",
        ),
        Mistake(
            "experts-only-forward",
            "Two slips: the layers without experts have a block each, and that is the forward pass alone.",
            [Edit("6 * 2 *", "2 * 2 *"), Edit("dense_layers + moe", "moe")],
            see="04-moe",
        ),
    ],
    hints=[
        "How many feed-forward blocks does a token pass through in an expert layer, and how many in another?",
        "layers // expert_interval layers have experts; a token meets experts_per_token of them there, "
        "one block elsewhere.",
        "6 · 8 · hidden_size² for each block, times (dense layers + expert layers · experts_per_token).",
    ],
)

LONGER = Exercise(
    id="4.18",
    title="Sixteen times the context: which budget changed?",
    notebook="04_flops",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="b",
    options={
        "a": "None: P and T are the same, so 6·P·T is.",
        "b": (
            "Arithmetic: a token's dot products grow with the context, from a seventh of 6·P·T to more than "
            "twice it."
        ),
        "c": "Arithmetic: 6·P·T itself grows sixteenfold, since every sequence has sixteen times the tokens.",
        "d": "Storage of the weights: a longer context needs a larger model.",
    },
    mistakes=[
        Mistake(
            "six-pt-is-all",
            "6·P·T counts products with weights. Queries times keys are products of activations with "
            "activations.",
            "a",
            see="04-attention",
        ),
        Mistake(
            "tokens-grow",
            "T is the same: sixteen times longer sequences, a sixteenth as many of them.",
            "c",
            see="04-attention",
        ),
        Mistake(
            "weights-grow",
            "No weight matrix of this model has the context in its shape.",
            "d",
            see="04-attention",
        ),
    ],
    hints=[
        "Which products in a Transformer hold no weight?",
        "A token's query meets every key before it: s/2 of them on average under a causal mask.",
        "T is the same and P is the same; the pairs of a query and a key are sixteen times as many.",
    ],
)

EXERCISES = [
    X_BYTES,
    TRANSPOSE_BYTES,
    ROW_KEEPS,
    ADDITIONS,
    CONTRACTION,
    LEAST_TIME,
    WEIGHT_GRADIENT,
    BACKWARD,
    NAMED,
    NETWORK,
    FROZEN,
    RUN_ROW,
    DAYS,
    MULTIPLYING,
    ATTENTION,
    DENSE_FAULTS,
    MOE_FAULT,
    LONGER,
]
