"""Answers, hints and known mistakes of notebooks/08_checkpointing.ipynb."""

import random

from lecture_lib.exercises.key import Edit, Exercise, Mistake

SMALL = (2, 3, 5, 7, 11, 13, 17, 19)
NOTEBOOK = "08_checkpointing"

# -- recall

BACKWARD = Exercise(
    id="8.1",
    title="What a backward costs",
    notebook=NOTEBOOK,
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="b",
    options={
        "a": "one forward",
        "b": "two forwards",
        "c": "three forwards",
    },
    mistakes=[
        Mistake(
            "one-product",
            "A linear layer's backward is two products, one for dX and one for dW, each as large as the "
            "forward's.",
            "a",
        ),
        Mistake("whole-step", "Three forwards are the whole step; the question asks for its backward.", "c"),
    ],
    hints=[
        "How many matrix products does Y = X·W need on the way back?",
        "One for dX, one for dW.",
        "Each takes as many FLOPs as the forward's product.",
    ],
)

STATES = Exercise(
    id="8.2",
    title="What AdamW holds",
    notebook=NOTEBOOK,
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="GB",
    answer="12 GB",
    mistakes=[
        Mistake(
            "no-moments", "AdamW keeps two moments of 4 bytes each beside weights and gradients.", "4 GB"
        ),
        Mistake(
            "one-moment",
            "That is 8 bytes a parameter: weights and gradients take 2 each, the two moments 4 each.",
            "8 GB",
        ),
        Mistake(
            "master-copy",
            "That is 16 bytes a parameter, as with an FP32 master copy or all in FP32; this recipe has neither.",
            "16 GB",
        ),
        Mistake("gradients-left-out", "That is without the gradients, 2 bytes a parameter.", "10 GB"),
        Mistake(
            "gradients-and-a-moment",
            "That is weights and one moment; gradients and a second moment are held too.",
            "6 GB",
        ),
        Mistake("bits-for-bytes", "That is in gigabits; a byte has eight bits.", "96 GB"),
    ],
    hints=[
        "Four arrays: weights, gradients, and two moments.",
        "2 + 2 + 4 + 4 bytes a parameter.",
        "12 bytes times 10^9 parameters, in GB.",
    ],
)

INTENSITY = Exercise(
    id="8.3",
    title="Half of the rows",
    notebook=NOTEBOOK,
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="b",
    options={
        "a": "It stays: half of the FLOPs, half of the bytes.",
        "b": "It falls to about a half: the weights are read for half of the rows.",
        "c": "It doubles: fewer bytes have to move.",
    },
    mistakes=[
        Mistake(
            "bytes-halve",
            "Nearly all of the bytes are the weights', 33.6 MB for either number of rows.",
            "a",
        ),
        Mistake("upside-down", "The bytes hardly change, and the FLOPs halve.", "c"),
    ],
    hints=[
        "Which of the three matrices is large?",
        "The weights: 4096² values, against 32 · 4096 for the inputs.",
        "FLOPs are in proportion to the rows; bytes hardly depend on them.",
    ],
)


# -- what autograd saves


def hidden_bytes(M, f, element_bytes):
    gate = activated = up = product = M * f * element_bytes
    return gate + activated + up + product


def draw_hidden(rng):
    M, f = rng.sample(SMALL, 2)
    return {"M": M, "f": f, "element_bytes": rng.choice((2, 4, 8))}


HIDDEN = Exercise(
    id="8.4",
    title="The missing row: between up and down",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=4,
    unit="B",
    answer=hidden_bytes,
    cases=[
        {"M": 100, "f": 176, "element_bytes": 4},
        {"M": 7, "f": 11, "element_bytes": 2},
        {"M": 13, "f": 5, "element_bytes": 8},
    ],
    draw=draw_hidden,
    case_text="M={M}, f={f}, {element_bytes} bytes a value",
    mistakes=[
        Mistake(
            "silu-result-left-out",
            "Three of four. The product's gradient for `up` is silu(gate) times what comes back, so that tensor "
            "is kept too.",
            Edit("gate + activated + up", "gate + up"),
            see="08-block-read",
        ),
        Mistake(
            "layers-outputs-only",
            "Those are `gate` and `up`, as the two layers return them. The product needs silu(gate) as well, and "
            "the last layer its input.",
            Edit("gate + activated + up + product", "gate + up"),
            see="08-block-read",
        ),
        Mistake(
            "one-tensor",
            "That is one tensor of M × f. Go through the four results between the layers, and ask of each who "
            "needs it on the way back.",
            Edit("gate + activated + up + product", "gate"),
            see="08-block-read",
        ),
        Mistake(
            "elements",
            "That is the number of values; each has {element_bytes} bytes.",
            Edit("M * f * element_bytes", "M * f"),
            see="08-activations",
        ),
        Mistake(
            "input-counted",
            "You counted five tensors; the block's input has a row of its own, and is M × D.",
            Edit("gate + activated + up + product", "gate + activated + up + product + product"),
            see="08-ex4-prompt",
        ),
    ],
    hints=[
        "Four results of shape M × f are made between the layers: gate, silu(gate), up and their product. Who "
        "needs each on the way back?",
        "SiLU needs its input; a product needs both factors; a linear layer needs its input.",
        "All four are kept: 4 · M · f values.",
    ],
)


def saved_bytes(operations, M, element_bytes):
    saved = set()
    for number, operation in enumerate(operations):
        name, *widths = operation.split()
        if name in ("linear", "gelu"):
            saved.add((number, int(widths[0])))
        elif name in ("relu", "softmax"):
            saved.add((number + 1, int(widths[0])))
    return element_bytes * M * sum(width for tensor, width in saved if tensor > 0)


def every_result(operations, M, element_bytes):
    return element_bytes * M * sum(int(operation.split()[-1]) for operation in operations)


def every_mention(operations, M, element_bytes):
    total = 0
    for operation in operations:
        name, *widths = operation.split()
        total += 0 if name == "scale" else int(widths[0])
    return element_bytes * M * total


def draw_operations(rng):
    widths = rng.sample(SMALL, rng.randint(3, 5))
    operations = [f"relu {widths[0]}"] if rng.random() < 0.3 else []
    for d_in, d_out in zip(widths, widths[1:], strict=False):
        operations.append(f"linear {d_in} {d_out}")
        chosen = rng.choice(("relu", "gelu", "scale gelu", "relu scale", "scale", "softmax"))
        operations += [f"{name} {d_out}" for name in chosen.split()]
    if rng.random() < 0.5:
        operations.append(f"softmax {widths[-1]}")
    return {"operations": operations, "M": rng.choice((3, 7, 9)), "element_bytes": rng.choice((2, 4, 8))}


def weights_too(operations, M, element_bytes):
    shapes = [operation.split()[1:] for operation in operations if operation.startswith("linear")]
    return saved_bytes(operations, M, element_bytes) + element_bytes * sum(int(a) * int(b) for a, b in shapes)


def every_input(operations, M, element_bytes):
    return element_bytes * M * sum(int(operation.split()[1]) for operation in operations[1:])


def once_a_width(operations, M, element_bytes):
    widths = set()
    for number, operation in enumerate(operations):
        name, *sizes = operation.split()
        if name in ("relu", "softmax") or (number and name in ("linear", "gelu")):
            widths.add(int(sizes[0]))
    return element_bytes * M * sum(widths)


def relu_keeps_both(operations, M, element_bytes):
    saved = set()
    for number, operation in enumerate(operations):
        name, *widths = operation.split()
        if name in ("linear", "gelu", "relu"):
            saved.add((number, int(widths[0])))
        if name in ("relu", "softmax"):
            saved.add((number + 1, int(widths[0])))
    return element_bytes * M * sum(width for tensor, width in saved if tensor > 0)


SAVED = Exercise(
    id="8.5",
    title="Count what autograd saves",
    notebook=NOTEBOOK,
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    unit="B",
    answer=saved_bytes,
    equivalent=["saved.add((number + 1, int(widths[-1])))  # ReLU and softmax keep the width: one number"],
    cases=[
        {"operations": ["linear 5 7", "relu 7", "linear 7 3"], "M": 9, "element_bytes": 4},
        {"operations": ["linear 5 7", "gelu 7", "linear 7 3", "softmax 3"], "M": 3, "element_bytes": 2},
        {
            "operations": [
                "gelu 11",
                "linear 11 2",
                "scale 2",
                "gelu 2",
                "linear 2 13",
                "relu 13",
                "linear 13 3",
                "relu 3",
            ],
            "M": 7,
            "element_bytes": 8,
        },
        {"operations": ["linear 3 5", "scale 5", "linear 5 2", "scale 2"], "M": 11, "element_bytes": 4},
        {"operations": ["linear 5 3", "relu 3", "scale 3", "linear 3 7"], "M": 13, "element_bytes": 2},
        {"operations": ["relu 7", "linear 7 3", "softmax 3", "linear 3 2"], "M": 5, "element_bytes": 4},
    ],
    draw=draw_operations,
    case_text="{operations}, M={M}, {element_bytes} bytes a value",
    mistakes=[
        Mistake(
            "shared-counted-twice",
            "A ReLU's output is the next layer's input: two operations keep one tensor, and its bytes are there "
            "once.",
            [
                Edit("set()", "[]"),
                Edit("saved.add((number, int", "saved.append((number, int"),
                Edit("saved.add((number + 1", "saved.append((number + 1"),
            ],
            see="08-activations-measure",
        ),
        Mistake(
            "networks-input-counted",
            "You counted what the first operation reads. It was there before the step and stays; activations are "
            "what the forward makes.",
            Edit("tensor > 0", "tensor >= 0"),
            see="08-activations-measure",
        ),
        Mistake(
            "relu-keeps-input",
            "You let ReLU and softmax keep their inputs. Both need only their outputs: those say where the slope "
            "is 0, and what it is.",
            Edit("number + 1", "number"),
            see="08-ex5-prompt",
        ),
        Mistake(
            "gelu-keeps-output",
            "You let GELU keep its output. Its slope cannot be read off the output: it keeps its input, and the "
            "next layer the output.",
            [
                Edit('("linear", "gelu")', '("linear",)'),
                Edit('("relu", "softmax")', '("relu", "softmax", "gelu")'),
            ],
            see="08-gelu",
        ),
        Mistake(
            "scale-keeps",
            "Scaling by a constant has a constant slope: it keeps nothing.",
            Edit('("linear", "gelu")', '("linear", "gelu", "scale")'),
            see="08-ex5-prompt",
        ),
        Mistake(
            "added-up",
            "You added up what each operation keeps. Where one's output is the next one's input, that is one tensor, "
            "and what the first operation reads was there before.",
            every_mention,
            see="08-saved",
        ),
        Mistake(
            "inputs-only",
            "You counted inputs alone. A ReLU or softmax at the end keeps its output, which no later operation reads.",
            Edit('("relu", "softmax")', "()"),
            see="08-ex5-prompt",
        ),
        Mistake(
            "every-result",
            "You counted every result once. Some results are kept by nobody, such as what goes into a ReLU.",
            every_result,
            see="08-ex5-prompt",
        ),
        Mistake(
            "one-row",
            "That is one row's; there are M = {M} of them.",
            Edit(" * M", ""),
            see="08-activations",
        ),
        Mistake(
            "elements",
            "That is the number of values; each has {element_bytes} bytes.",
            Edit("element_bytes * M", "M"),
            see="08-activations",
        ),
        Mistake(
            "weights-too",
            "You counted the weights too; they were there before, and are no activations.",
            weights_too,
            see="08-saved-table",
        ),
        Mistake(
            "every-input",
            "You counted what every operation but the first reads; a ReLU, a softmax and a scale do not keep their input.",
            every_input,
            see="08-ex5-prompt",
        ),
        Mistake(
            "once-a-width",
            "You counted each width once; two tensors of one width are two, unless an operation's output is what the next one reads.",
            once_a_width,
            see="08-ex5-prompt",
        ),
        Mistake(
            "relu-keeps-both",
            "You let ReLU keep its input and its output; its output is enough.",
            relu_keeps_both,
            see="08-gelu",
        ),
        Mistake(
            "softmax-keeps-input",
            "You let softmax keep its input; its slope is read off its output, which is what it keeps.",
            [
                Edit('("linear", "gelu")', '("linear", "gelu", "softmax")'),
                Edit('("relu", "softmax")', '("relu",)'),
            ],
            see="08-ex5-prompt",
        ),
    ],
    hints=[
        "Give each tensor a number: operation i reads tensor i and makes tensor i + 1. Which tensors are kept?",
        "Collect (tensor, width) in a set: (i, width) for linear and gelu, (i + 1, width) for relu and softmax.",
        "Leave out tensor 0, add up the widths, and multiply by M and by the bytes of a value.",
    ],
)

GELU_BUDGET = Exercise(
    id="8.6",
    title="GELU for ReLU: which budget changed?",
    notebook=NOTEBOOK,
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=2,
    answer="c",
    options={
        "a": "Arithmetic: twice as many FLOPs, for GELU's longer formula.",
        "b": "None that matters: shapes are the same.",
        "c": "Storage: a second M × D tensor in each layer, GELU's own input.",
        "d": "Storage of the optimizer: GELU's second tensor needs moments.",
    },
    mistakes=[
        Mistake(
            "arithmetic",
            "A few dozen FLOPs for each value, against 2·D for its matrix product: at D = 4096 it is lost in it.",
            "a",
        ),
        Mistake(
            "none",
            "The shapes are the same, but the kept tensors are not: count them for each layer.",
            "b",
            see="08-gelu",
        ),
        Mistake("moments", "Moments belong to parameters. GELU has none.", "d", see="08-gelu"),
    ],
    hints=[
        "What does each of the two keep, and who else keeps it?",
        "ReLU's output is kept once, for itself and for the next layer.",
        "GELU's input is one more tensor of M × D in each layer.",
    ],
)


# -- accumulation


def mean_of_all(means, tokens):
    sums = [mean * n for mean, n in zip(means, tokens, strict=True)]
    return sum(sums) / sum(tokens)


def draw_means(rng):
    K = rng.randint(2, 4)
    return {
        "means": [round(rng.uniform(0.5, 6), 2) for _ in range(K)],
        "tokens": rng.sample(range(2, 30), K),
    }


MEANS = Exercise(
    id="8.7",
    title="The missing row: the mean of all tokens",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    tolerance=1e-9,
    answer=mean_of_all,
    cases=[
        {"means": [4.0, 2.0], "tokens": [3, 5]},
        {"means": [2.0, 1.0], "tokens": [4, 12]},
        {"means": [0.53, 3.0, 2.5], "tokens": [7, 2, 12]},
    ],
    draw=draw_means,
    case_text="means {means}, tokens {tokens}",
    mistakes=[
        Mistake(
            "mean-of-means",
            "That is the mean of the means. It gives a token of the shortest microbatch the most weight.",
            Edit("sum(sums) / sum(tokens)", "sum(means) / len(means)"),
            see="08-unequal",
        ),
        Mistake(
            "undivided",
            "You added the means up and divided by nothing.",
            Edit("sum(sums) / sum(tokens)", "sum(means)"),
            see="08-unequal",
        ),
        Mistake(
            "sums-over-microbatches",
            "You divided the sum over all tokens by the number of microbatches; its terms are tokens.",
            Edit("sum(sums) / sum(tokens)", "sum(sums) / len(sums)"),
            see="08-unequal",
        ),
        Mistake(
            "last-only",
            "That is the last microbatch's mean alone.",
            Edit("sum(sums) / sum(tokens)", "means[-1]"),
            see="08-unequal",
        ),
        Mistake(
            "undivided-sums",
            "That is the sum over all tokens; divide it by how many there are.",
            Edit("sum(sums) / sum(tokens)", "sum(sums)"),
            see="08-unequal",
        ),
        Mistake(
            "means-over-tokens",
            "You added the means up and divided by all tokens; a mean stands for its microbatch's tokens, so multiply by these first.",
            Edit("sum(sums) / sum(tokens)", "sum(means) / sum(tokens)"),
            see="08-unequal",
        ),
        Mistake(
            "times-k",
            "You multiplied by the number of microbatches; the sum over all tokens is divided by their number, no more.",
            Edit("sum(sums) / sum(tokens)", "len(means) * sum(sums) / sum(tokens)"),
            see="08-unequal",
        ),
        Mistake(
            "longest-only",
            "You divided by the longest microbatch's tokens; divide by all.",
            Edit("sum(sums) / sum(tokens)", "sum(sums) / max(tokens)"),
            see="08-unequal",
        ),
        Mistake(
            "divided-by-tokens",
            "You divided each mean by its tokens; multiplied by them it is the sum that belongs under all tokens.",
            Edit("sum(sums) / sum(tokens)", "sum(mean / n for mean, n in zip(means, tokens, strict=True))"),
            see="08-unequal",
        ),
        Mistake(
            "first-two-only",
            "You took the first two microbatches alone; there may be more.",
            Edit("sum(sums) / sum(tokens)", "sum(sums[:2]) / sum(tokens[:2])"),
            see="08-ex7-prompt",
        ),
    ],
    hints=[
        "What is the sum of the losses in one microbatch, given its mean and its tokens?",
        "Mean times tokens. Add these up over the microbatches.",
        "Divide that sum by the number of all tokens.",
    ],
)


def accumulate(model, batches):
    import torch.nn.functional as F

    tokens = sum((Y != -100).sum() for X, Y in batches)
    for X, Y in batches:
        loss = F.cross_entropy(model(X), Y, reduction="sum") / tokens
        loss.backward()


def accumulation_case(rng, rows, d_in, hidden, classes):
    """Rows of inputs and labels, some −100, in microbatches of unequal length with unequal shares of padding."""
    labels = []
    for number, count in enumerate(rows):
        valid = rng.randint(1, count - 1) if number % 2 else count - rng.randint(0, 1)
        made = [rng.randrange(classes) for _ in range(valid)] + [-100] * (count - valid)
        rng.shuffle(made)
        labels += made
    values = [[round(rng.uniform(-2, 2), 2) for _ in range(d_in)] for _ in labels]
    return {
        "widths": [d_in, hidden, classes],
        "seed": rng.randrange(1000),
        "rows": list(rows),
        "X": {"array": values, "dtype": "float64"},
        "Y": {"array": labels, "dtype": "int64"},
    }


def draw_accumulation(rng):
    rows = rng.sample((3, 4, 5, 6, 8), rng.randint(2, 3))
    return accumulation_case(rng, rows, rng.randint(2, 4), rng.randint(4, 6), rng.randint(2, 4))


def running_count(model, batches):
    import torch.nn.functional as F

    tokens = 0
    for X, Y in batches:
        tokens = tokens + (Y != -100).sum()
        (F.cross_entropy(model(X), Y, reduction="sum") / tokens).backward()


ACCUMULATE = Exercise(
    id="8.8",
    title="Accumulate by tokens",
    notebook=NOTEBOOK,
    kind="driver",
    driver="accumulated_gradients",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    tolerance=1e-9,
    answer=accumulate,
    cases=[
        accumulation_case(random.Random(1), [4, 8], 3, 5, 2),
        accumulation_case(random.Random(2), [6, 3, 5], 2, 4, 3),
        accumulation_case(random.Random(3), [5, 4, 8], 4, 6, 4),
    ],
    draw=draw_accumulation,
    case_text="microbatches of {rows} rows, widths {widths}, labels {Y}",
    mistakes=[
        Mistake(
            "mean-of-means",
            "You gave every microbatch the weight 1/K, however many valid tokens it has. Weigh each by its count.",
            Edit('reduction="sum") / tokens', 'reduction="mean") / len(batches)'),
            see="08-unequal",
        ),
        Mistake(
            "undivided-means",
            "You added up the microbatches' means. Their sum weighs a token of a short microbatch more, and is "
            "about K times too large.",
            Edit('reduction="sum") / tokens', 'reduction="mean")'),
            see="08-equal",
        ),
        Mistake(
            "sums-over-microbatches",
            "You divided sums over tokens by the number of microbatches. Divide by the number of all valid tokens.",
            Edit("/ tokens", "/ len(batches)"),
            see="08-unequal",
        ),
        Mistake(
            "weighted-by-rows",
            "You weighed each microbatch's mean by its rows. Its mean is over its valid tokens: weigh it by these.",
            [
                Edit('reduction="sum") / tokens', 'reduction="mean") * len(Y) / tokens'),
                Edit("(Y != -100).sum()", "len(Y)"),
            ],
            see="08-unequal",
        ),
        Mistake(
            "padding-counted",
            "You divided by all rows; those with the label −100 have no loss, and do not count.",
            Edit("(Y != -100).sum()", "len(Y)"),
            see="08-ex8-prompt",
        ),
        Mistake(
            "last-only",
            "Only the last microbatch's gradient is left: the others were set to None. Gradients are cleared "
            "once, before the first.",
            Edit("    loss.backward()", "    model.zero_grad()\n        loss.backward()"),
            see="08-equal-measure",
        ),
        Mistake(
            "undivided-sums",
            "That is the gradient of the sum over all tokens; the loss is their mean.",
            Edit(" / tokens", ""),
            see="08-unequal",
        ),
        Mistake(
            "padding-as-a-class",
            "You gave padding a label; rows with −100 have no loss, and `cross_entropy` leaves them out by itself.",
            Edit("F.cross_entropy(model(X), Y, ", "F.cross_entropy(model(X), Y.clamp(min=0), "),
            see="08-ex8-prompt",
        ),
        Mistake(
            "means-over-tokens",
            "You divided each microbatch's mean by all tokens; take its sum, or weigh its mean by its own count first.",
            Edit('reduction="sum"', 'reduction="mean"'),
            see="08-unequal",
        ),
        Mistake(
            "running-count",
            "You divided by the tokens seen so far; the count of all microbatches is needed before the first backward.",
            running_count,
            see="08-unequal-read",
        ),
        Mistake(
            "mean-over-padding",
            "You took means over all rows, padding among them, and gave each microbatch the weight 1/K.",
            Edit('reduction="sum") / tokens', 'reduction="none").mean() / len(batches)'),
            see="08-unequal",
        ),
        Mistake(
            "last-mean-only",
            "Two slips: each backward starts from no gradient, so only the last microbatch's is left, and it has the weight 1/K.",
            [
                Edit('reduction="sum") / tokens', 'reduction="mean") / len(batches)'),
                Edit("    loss.backward()", "    model.zero_grad()\n        loss.backward()"),
            ],
            see="08-equal-measure",
        ),
    ],
    hints=[
        "The loss is (sum over all valid tokens) / (number of them). Which part is known before the first "
        "microbatch runs?",
        "Count the labels that are not −100, over all microbatches, first. Then each microbatch adds its own sum.",
        'F.cross_entropy(model(X), Y, reduction="sum") leaves −100 out. Divide it by the count over all, and '
        "call backward() on it.",
    ],
)


def peak_bytes(parameters, optimizer, activations, K):
    gradients = parameters
    if K == 1:
        return parameters + optimizer + max(gradients, activations)
    return parameters + optimizer + gradients + activations / K


def draw_peak(rng):
    K = rng.choice((1, 2, 3, 5, 8))
    return {
        "parameters": rng.randint(10, 90),
        "optimizer": rng.randint(100, 190),
        "activations": rng.choice((rng.randint(3, 60), rng.randint(3, 900))),
        "K": K,
    }


PEAK = Exercise(
    id="8.9",
    title="The peak with K microbatches",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=6,
    unit="GB",
    answer=peak_bytes,
    cases=[
        {"parameters": 14, "optimizer": 56, "activations": 60, "K": 1},
        {"parameters": 14, "optimizer": 56, "activations": 60, "K": 4},
        {"parameters": 31, "optimizer": 124, "activations": 9, "K": 1},
        {"parameters": 31, "optimizer": 124, "activations": 9, "K": 3},
        {"parameters": 5, "optimizer": 11, "activations": 34, "K": 2},
        {"parameters": 6, "optimizer": 25, "activations": 31, "K": 4},
    ],
    draw=draw_peak,
    case_text="parameters {parameters} GB, optimizer {optimizer} GB, activations {activations} GB, K={K}",
    mistakes=[
        Mistake(
            "everything-by-k",
            "You divided all of it by K. Weights, gradients and moments are as many for one row as for all.",
            Edit(
                "parameters + optimizer + gradients + activations / K",
                "(parameters + optimizer + gradients + activations) / K",
            ),
            see="08-peak",
        ),
        Mistake(
            "gradients-only-later",
            "From the second microbatch on, gradients are there while the forward fills up: both count, not the "
            "larger of the two.",
            Edit("gradients + activations / K", "max(gradients, activations / K)"),
            see="08-small",
        ),
        Mistake(
            "gradients-always",
            "With K = 1 the gradients come as the activations go: the larger of the two counts, not their sum.",
            Edit("max(gradients, activations)", "gradients + activations"),
            see="08-small",
        ),
        Mistake(
            "gradients-by-k",
            "Every microbatch adds to gradients of the parameters' full size; K does not divide them.",
            Edit("gradients + activations / K", "(gradients + activations) / K"),
            see="08-peak",
        ),
        Mistake(
            "activations-not-divided",
            "Only one microbatch's activations live at a time: 1/K of the batch's.",
            Edit("activations / K", "activations"),
            see="08-peak",
        ),
        Mistake(
            "optimizer-left-out",
            "The optimizer's state is held all the while, {optimizer} GB here.",
            [
                Edit("optimizer + max", "max"),
                Edit("optimizer + gradients +", "gradients +"),
            ],
            see="08-peak",
        ),
        Mistake(
            "no-gradients",
            "You left the gradients out; from the second microbatch on they are held, as large as the parameters.",
            Edit("gradients + activations / K", "activations / K"),
            see="08-small",
        ),
        Mistake(
            "activations-always",
            "With K = 1 the gradients may be the larger of the two, as here, where they are {parameters} GB and activations {activations}.",
            Edit("max(gradients, activations)", "activations"),
            see="08-small",
        ),
        Mistake(
            "smaller-of-both",
            "You took the smaller of gradients and activations; at the peak the larger is there.",
            Edit("max(", "min("),
            see="08-small",
        ),
        Mistake(
            "parameters-left-out",
            "The parameters are held all the while, {parameters} GB here.",
            [
                Edit("return parameters + optimizer + max", "return optimizer + max"),
                Edit("return parameters + optimizer + gradients", "return optimizer + gradients"),
            ],
            see="08-peak",
        ),
        Mistake(
            "activations-times-k",
            "You multiplied the activations by K; they are the whole batch's, and one microbatch has 1/K of them.",
            Edit("activations / K", "activations * K"),
            see="08-peak",
        ),
        Mistake(
            "gradients-twice",
            "You counted the gradients twice; every microbatch adds to the same ones.",
            Edit("gradients + activations / K", "2 * gradients + activations / K"),
            see="08-small",
        ),
        Mistake(
            "cut-to-whole-gigabytes",
            "You rounded the activations' share down to whole GB; leave it as it is.",
            Edit("activations / K", "activations // K"),
            see="08-ex9-prompt",
        ),
    ],
    hints=[
        "What lives at the end of the last microbatch's forward: which arrays, and how large is each?",
        "K = 1: no gradients yet as the forward ends, no activations left as the backward does. K > 1: gradients "
        "from before, and 1/K of the activations.",
        "K = 1: parameters + optimizer + max(gradients, activations). Else parameters + optimizer + gradients + "
        "activations / K.",
    ],
)

ACCUMULATION_BUDGET = Exercise(
    id="8.10",
    title="Eight microbatches: which budget changed?",
    notebook=NOTEBOOK,
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="a",
    options={
        "a": "Storage of activations falls to an eighth; data movement rises, as weights are read eight times; FLOPs stay.",
        "b": "Storage falls to an eighth, weights and moments with it; arithmetic stays.",
        "c": "Storage of activations falls to an eighth; arithmetic rises eightfold.",
        "d": "Storage alone: activations fall to an eighth.",
    },
    mistakes=[
        Mistake(
            "states-fall",
            "Weights, gradients and moments have the parameters' size, whatever the number of rows.",
            "b",
            see="08-peak",
        ),
        Mistake(
            "arithmetic-rises",
            "Eight forwards of an eighth of the rows each are the FLOPs of one.",
            "c",
            see="08-reuse",
        ),
        Mistake(
            "only-storage",
            "Each of the eight forwards reads all of the weights, for an eighth of the rows.",
            "d",
            see="08-reuse",
        ),
    ],
    hints=[
        "Go through the three budgets. How often is each weight read in a step?",
        "Once for each microbatch's forward, and again in its backward.",
        "FLOPs are in proportion to rows, and all rows are still there.",
    ],
)


# -- checkpointing


def boundaries(L, k):
    return -(-L // k)


def draw_boundaries(rng):
    L = rng.randint(9, 60)
    return {"L": L, "k": rng.randint(2, L // 2)}


BOUNDARIES = Exercise(
    id="8.11",
    title="The missing row: boundaries",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    answer=boundaries,
    cases=[{"L": 23, "k": 4}, {"L": 24, "k": 3}, {"L": 50, "k": 9}, {"L": 31, "k": 7}],
    draw=draw_boundaries,
    case_text="L={L}, k={k}",
    mistakes=[
        Mistake(
            "last-segment-dropped",
            "{L} layers in segments of {k} leave a rest: the last, shorter segment has an input too.",
            Edit("-(-L // k)", "L // k"),
            see="08-interval",
        ),
        Mistake(
            "not-whole",
            "A boundary is kept or not kept: the number is whole, {L}/{k} rounded up.",
            Edit("-(-L // k)", "L / k"),
            see="08-interval",
        ),
        Mistake(
            "a-boundary-more",
            "One too many: a segment keeps its input, and the last one's output goes to the loss.",
            Edit("-(-L // k)", "-(-L // k) + 1"),
            see="08-interval",
        ),
        Mistake(
            "total",
            "That is the total; the row is the boundaries alone.",
            Edit("-(-L // k)", "-(-L // k) + k"),
            see="08-interval",
        ),
        Mistake(
            "every-layer",
            "You kept every layer's input; between two boundaries nothing is kept.",
            Edit("-(-L // k)", "L"),
            see="08-interval",
        ),
        Mistake(
            "rounded-to-nearest",
            "You rounded {L}/{k} to the nearest; any rest is a segment with a boundary, so round up.",
            Edit("-(-L // k)", "round(L / k)"),
            see="08-interval",
        ),
        Mistake(
            "a-boundary-less",
            "One too few: every segment keeps its input, the first one too.",
            Edit("-(-L // k)", "-(-L // k) - 1"),
            see="08-interval",
        ),
        Mistake(
            "whole-segments-and-one",
            "Where k divides L there is no rest: you counted one segment too many.",
            Edit("-(-L // k)", "L // k + 1"),
            see="08-interval",
        ),
        Mistake(
            "root",
            "That is √L, the best number for the best k; here k is given.",
            Edit("-(-L // k)", "-int(-(L**0.5) // 1)"),
            see="08-interval",
        ),
    ],
    hints=[
        "Each segment keeps one tensor, its input. How many segments are there?",
        "L/k where k divides L; one more for a rest.",
        "Round L/k up: -(-L // k), or math.ceil(L / k).",
    ],
)


def best_segment(L, boundary, inner):
    best, least = None, None
    for k in range(1, L + 1):
        peak = -(-L // k) * boundary + k * inner
        if least is None or peak < least:
            best, least = k, peak
    return best


def root_of_layers(L, boundary, inner):
    return round(L**0.5)


def rounded_root(L, boundary, inner):
    return max(1, min(L, round((L * boundary / inner) ** 0.5)))


def root_cut(L, boundary, inner):
    return max(1, min(L, int((L * boundary / inner) ** 0.5)))


def draw_best(rng):
    L = rng.randint(9, 60)
    return {
        "L": L,
        "boundary": rng.choice((2, 3, 5, 7, 9, 40)),
        "inner": rng.choice((1, 2, 3, 5, 12, 25, 300)),
    }


BEST = Exercise(
    id="8.12",
    title="The best interval for a real layer",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=7,
    answer=best_segment,
    equivalent=["for k in range(1, L + 2):  # k = L + 1 has the boundary of k = L and a layer more"],
    cases=[
        {"L": 24, "boundary": 1, "inner": 1},
        {"L": 24, "boundary": 1, "inner": 4},
        {"L": 32, "boundary": 2, "inner": 34},
        {"L": 23, "boundary": 9, "inner": 2},
        {"L": 50, "boundary": 7, "inner": 3},
        {"L": 16, "boundary": 25, "inner": 1},
        {"L": 31, "boundary": 2, "inner": 3},
    ],
    draw=draw_best,
    case_text="L={L}, boundary {boundary}, inner {inner}",
    mistakes=[
        Mistake(
            "root-of-layers",
            "That is √{L}, rounded. It is best where a boundary weighs as much as what a layer keeps inside; here "
            "they are {boundary} and {inner}.",
            root_of_layers,
            see="08-block-interval",
        ),
        Mistake(
            "root-cut",
            "That is √(L·boundary/inner), rounded down. Near the least value the rounding up of L/k decides: try "
            "every k.",
            root_cut,
            see="08-ex12-prompt",
        ),
        Mistake(
            "rounded-root",
            "That is √(L·boundary/inner), rounded. Near the least value the rounding up of L/k decides: try "
            "every k.",
            rounded_root,
            see="08-ex12-prompt",
        ),
        Mistake(
            "last-segment-dropped",
            "You rounded L/k down; the last, shorter segment has a boundary too.",
            Edit("-(-L // k)", "(L // k)"),
            see="08-interval",
        ),
        Mistake(
            "not-rounded",
            "You took L/k as it is. There are whole segments: round it up.",
            Edit("-(-L // k) * boundary", "L / k * boundary"),
            see="08-interval",
        ),
        Mistake(
            "swapped",
            "You multiplied the boundaries by {inner} and a segment's layers by {boundary}; it is the other way round.",
            [Edit("* boundary +", "* inner +"), Edit("k * inner", "k * boundary")],
            see="08-ex12-prompt",
        ),
        Mistake(
            "largest-of-several",
            "Several k are equally good; the smallest is wanted, since less is held while it is computed again.",
            Edit("peak < least", "peak <= least"),
            see="08-ex12-prompt",
        ),
        Mistake(
            "least-instead-of-k",
            "That is how much is kept at the best k; the answer is k itself.",
            Edit("return best", "return least"),
            see="08-ex12-prompt",
        ),
        Mistake(
            "worst",
            "That is the k with the largest peak.",
            Edit("peak < least", "peak > least"),
            see="08-ex12-prompt",
        ),
        Mistake(
            "divisors-only",
            "You tried only those k that divide L; the last segment may be shorter.",
            Edit("        peak = ", "        if L % k:\n            continue\n        peak = "),
            see="08-ex12-prompt",
        ),
        Mistake(
            "up-to-the-last-but-one",
            "You stopped before k = L; one checkpoint around all layers is allowed too.",
            Edit("range(1, L + 1)", "range(1, max(2, L))"),
            see="08-ex12-prompt",
        ),
        Mistake(
            "weights-left-out",
            "You counted boundaries and layers alike; they weigh {boundary} and {inner} bytes.",
            [Edit(" * boundary +", " +"), Edit("k * inner", "k")],
            see="08-block-interval",
        ),
    ],
    hints=[
        "Write the peak for one k first: how many boundaries, and how many layers are computed again at once?",
        "ceil(L/k) · boundary + k · inner. L is small: try every k from 1 to L.",
        "min(range(1, L + 1), key=...) gives the first of several that are equal.",
    ],
)


def run_in_segments(layers, x, k, checkpoint):
    for first in range(0, len(layers), k):

        def segment(x, part=layers[first : first + k]):
            for layer in part:
                x = layer(x)
            return x

        x = checkpoint(segment, x)
    return x


def first_layer_only(layers, x, k, checkpoint):
    for number, layer in enumerate(layers):
        x = checkpoint(layer, x) if number % k == 0 else layer(x)
    return x


def draw_segments(rng):
    L = rng.randint(5, 11)
    k = rng.choice([k for k in range(2, L) if L % k or rng.random() < 0.3] or [2])
    return {
        "layers": [[rng.randint(2, 5), rng.randint(1, 9)] for _ in range(L)],
        "x": rng.randint(1, 9),
        "k": k,
    }


SEGMENTS = Exercise(
    id="8.13",
    title="Checkpoint every k layers",
    notebook=NOTEBOOK,
    kind="driver",
    driver="segment_checkpoints",
    level="core",
    difficulty="demanding",
    points=3,
    minutes=8,
    answer=run_in_segments,
    cases=[
        {"layers": [[2, 1], [3, 5], [2, 7], [5, 2], [3, 4], [2, 9]], "x": 3, "k": 2},
        {"layers": [[3, 2], [2, 5], [4, 1], [2, 3], [3, 7], [5, 6], [2, 4]], "x": 2, "k": 3},
        {"layers": [[2, 3], [5, 1], [3, 8], [2, 2], [4, 5]], "x": 7, "k": 4},
        {"layers": [[4, 3], [3, 2], [2, 8]], "x": 5, "k": 5},
    ],
    draw=draw_segments,
    case_text="layers {layers} on x={x}, k={k}",
    mistakes=[
        Mistake(
            "late-binding",
            "The forward is right, but computed again, every segment runs the last one's layers: a function reads "
            "a loop's variable when it is called, and the loop is over by then. Bind it as a default argument.",
            [
                Edit("def segment(x, part=layers[first : first + k]):", "def segment(x):"),
                Edit("for layer in part:", "for layer in layers[first : first + k]:"),
            ],
            see="08-ex13-prompt",
        ),
        Mistake(
            "each-layer-alone",
            "You put every layer under a checkpoint of its own; a segment has k = {k}.",
            [Edit("range(0, len(layers), k)", "range(len(layers))"), Edit("first + k]", "first + 1]")],
            see="08-alone",
        ),
        Mistake(
            "last-segment-dropped",
            "The layers after the last full segment did not run.",
            Edit("len(layers), k", "len(layers) - k + 1, k"),
            see="08-interval",
        ),
        Mistake(
            "first-layer-only",
            "Only the first layer of each segment went through `checkpoint`; the others keep all they need.",
            first_layer_only,
            see="08-interval",
        ),
        Mistake(
            "k-segments",
            "You made {k} segments; k is how many layers one of them has.",
            Edit("    for first in", "    k = -(-len(layers) // k)\n    for first in"),
            see="08-interval",
        ),
        Mistake(
            "one-segment",
            "All of the layers are under one checkpoint: it keeps least as the forward runs, and everything at once "
            "as it is computed again.",
            Edit("for first in range(0, len(layers), k):", "for first, k in [(0, len(layers))]:"),
            see="08-interval",
        ),
        Mistake(
            "no-checkpoint",
            "The output is right, and nothing went through `checkpoint`.",
            Edit("checkpoint(segment, x)", "segment(x)"),
            see="08-gradients",
        ),
        Mistake(
            "from-the-first-input",
            "You ran every segment from the first x; each starts from what the one before returned.",
            Edit(
                "        x = checkpoint(segment, x)\n    return x",
                "        last = checkpoint(segment, x)\n    return last",
            ),
            see="08-interval",
        ),
        Mistake(
            "one-layer-short",
            "Your segments leave out their last layer: a slice ends before its second index, so it is first + k.",
            Edit("first : first + k]", "first : first + k - 1]"),
            see="08-ex13-prompt",
        ),
        Mistake(
            "rest-without-a-checkpoint",
            "The layers after the last full segment ran without a checkpoint; they are a shorter segment.",
            Edit(
                "x = checkpoint(segment, x)",
                "x = checkpoint(segment, x) if first + k <= len(layers) else segment(x)",
            ),
            see="08-interval",
        ),
        Mistake(
            "shorter-segment-first",
            "Your first segment is the shorter one; count off k layers from the first, so that the last is shorter.",
            [
                Edit(
                    "for first in range(0, len(layers), k):",
                    "for first in range(len(layers) % k - k if len(layers) % k else 0, len(layers), k):",
                ),
                Edit("layers[first : first + k]", "layers[max(first, 0) : first + k]"),
            ],
            see="08-ex13-prompt",
        ),
    ],
    hints=[
        "Loop over the first layer of each segment: range(0, len(layers), k). A slice may end beyond the list.",
        "checkpoint(segment, x) needs a function of x that runs the segment's layers, now and again later.",
        "def segment(x, part=layers[first : first + k]): the default is bound now, not when it is called.",
    ],
)


def recomputed_flops(M, D, L, k):
    layer = 2 * M * D**2
    segments = -(-L // k)
    return layer * (L - segments)


def reported_recomputed_flops(M, D, L, k):
    layer = 2 * M * D**2
    segments = L // k
    return layer * segments * k * (k + 1) // 2


def draw_recomputed(rng):
    M, D = rng.sample(SMALL, 2)
    L = rng.randint(7, 40)
    return {"M": M, "D": D, "L": L, "k": rng.choice([k for k in range(2, L // 2 + 1) if L % k] or [2])}


RECOMPUTED = Exercise(
    id="8.14",
    title="What is wrong in this calculator: FLOPs computed again",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=7,
    unit="FLOP",
    answer=recomputed_flops,
    cases=[
        {"M": 3, "D": 5, "L": 24, "k": 5},
        {"M": 11, "D": 7, "L": 12, "k": 4},
        {"M": 2, "D": 13, "L": 23, "k": 3},
        {"M": 5, "D": 3, "L": 22, "k": 4},
        {"M": 3, "D": 2, "L": 21, "k": 5},
    ],
    draw=draw_recomputed,
    case_text="M={M}, D={D}, L={L}, k={k}",
    mistakes=[
        Mistake(
            "unchanged",
            "All three faults are still there.",
            reported_recomputed_flops,
            see="08-ex14-prompt",
        ),
        Mistake(
            "from-the-boundary-each-time",
            "A segment's layers are computed again once, in one pass, and kept until its backward is done; you let each "
            "layer start anew from the boundary.",
            Edit("layer * (L - segments)", "layer * segments * k * (k + 1) // 2"),
            see="08-interval",
        ),
        Mistake(
            "no-early-stop",
            "That is the whole forward once more. Each segment here ends in a bare product, whose result nobody "
            "keeps: it is not computed again.",
            Edit("(L - segments)", "L"),
            see="08-stop",
        ),
        Mistake(
            "rest-dropped",
            "You rounded the number of segments down: the last, shorter one stops early too.",
            Edit("-(-L // k)", "(L // k)"),
            see="08-interval",
        ),
        Mistake(
            "not-whole",
            "You took L/k segments, and not a whole number of them: round it up.",
            Edit("-(-L // k)", "L / k"),
            see="08-interval",
        ),
        Mistake(
            "whole-segments-only",
            "You computed the full segments again, and not the layers after them.",
            Edit("layer * (L - segments)", "layer * (L // k) * (k - 1)"),
            see="08-interval",
        ),
        Mistake(
            "fma-as-one",
            "A multiply and its add are two FLOPs; you counted one.",
            Edit("2 * M", "M"),
            see="08-recompute",
        ),
        Mistake(
            "added-to-the-step",
            "That is forward, backward and what is computed again; the question asks for the last alone.",
            Edit("(L - segments)", "(4 * L - segments)"),
            see="08-recompute",
        ),
        Mistake(
            "all-segments-full",
            "You took the last segment for a full one; it has the layers that are left, less one.",
            Edit("layer * (L - segments)", "layer * segments * (k - 1)"),
            see="08-interval",
        ),
        Mistake(
            "one-less-in-all",
            "You left one product out; each segment leaves out its last.",
            Edit("(L - segments)", "(L - 1)"),
            see="08-stop",
        ),
        Mistake(
            "width-not-squared",
            "A layer is D × D: D stands twice in the FLOPs of its product.",
            Edit("D**2", "D"),
            see="08-recompute",
        ),
        Mistake(
            "pairs-of-layers",
            "A segment's layers are computed again once, in one pass: k − 1 products, not k·(k − 1)/2.",
            Edit(
                "layer * (L - segments)",
                "layer * sum(min(k, L - i) * (min(k, L - i) - 1) // 2 for i in range(0, L, k))",
            ),
            see="08-interval",
        ),
        Mistake(
            "pairs-and-the-last",
            "A segment's layers are computed again once, in one pass, and the last one not at all: k − 1 products, not k·(k + 1)/2.",
            Edit(
                "layer * (L - segments)",
                "layer * sum(min(k, L - i) * (min(k, L - i) + 1) // 2 for i in range(0, L, k))",
            ),
            see="08-interval",
        ),
        Mistake(
            "last-segment-left-out",
            "The last segment is computed again too, as it is under a checkpoint.",
            Edit("layer * (L - segments)", "layer * (segments - 1) * (k - 1)"),
            see="08-interval",
        ),
        Mistake(
            "whole-segments-in-full",
            "Two slips: each segment stops before its last product, and the shorter segment is computed again too.",
            Edit("(L - segments)", "(L // k) * k"),
            see="08-stop",
        ),
    ],
    hints=[
        "How often does each layer of a segment run on the way back, before its own backward?",
        "Once, except for the last one of each segment, whose product is not needed. How many segments have a last one?",
        "L − ceil(L/k) products of 2·M·D² FLOPs.",
    ],
)

CHECKPOINT_BUDGET = Exercise(
    id="8.15",
    title="A checkpoint every √L layers: which budget changed?",
    notebook=NOTEBOOK,
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="d",
    options={
        "a": "Storage alone: activations fall from L to about 2√L layers.",
        "b": "Storage falls to about 2√L, moments included; arithmetic rises by a third.",
        "c": "Storage of activations falls; arithmetic rises to L² layers.",
        "d": "Storage of activations falls to about 2√L layers; arithmetic rises by up to a third, and weights are read once more.",
    },
    mistakes=[
        Mistake(
            "free", "What is not kept is computed again: up to one forward more.", "a", see="08-recompute"
        ),
        Mistake(
            "moments-too",
            "Moments, weights and gradients have the parameters' size, and none of them is an activation.",
            "b",
            see="08-recompute",
        ),
        Mistake(
            "quadratic",
            "Each segment is computed once, from its own boundary: L layers in all, not L².",
            "c",
            see="08-interval",
        ),
    ],
    hints=[
        "Storage first: what is dropped, and what has no graph to be dropped from?",
        "Then arithmetic: forward 1, backward 2, and how much again?",
        "One more forward reads the weights one more time.",
    ],
)


# -- KV cache


def kv_cache_bytes(layers, query_heads, kv_heads, head_dim, tokens, sequences, element_bytes):
    per_token = 2 * layers * kv_heads * head_dim * element_bytes
    return per_token * tokens * sequences


def draw_cache(rng):
    layers, kv_heads, head_dim, tokens, sequences = rng.sample(SMALL, 5)
    return {
        "layers": layers,
        "query_heads": kv_heads * rng.choice((3, 4, 8)),
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "tokens": tokens,
        "sequences": sequences,
        "element_bytes": rng.choice((1, 2, 4)),
    }


CACHE = Exercise(
    id="8.16",
    title="The bytes of a KV cache",
    notebook=NOTEBOOK,
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=5,
    unit="B",
    answer=kv_cache_bytes,
    cases=[
        {
            "layers": 32,
            "query_heads": 32,
            "kv_heads": 8,
            "head_dim": 128,
            "tokens": 8192,
            "sequences": 3,
            "element_bytes": 2,
        },
        {
            "layers": 40,
            "query_heads": 64,
            "kv_heads": 8,
            "head_dim": 128,
            "tokens": 1000,
            "sequences": 7,
            "element_bytes": 1,
        },
        {
            "layers": 3,
            "query_heads": 28,
            "kv_heads": 7,
            "head_dim": 5,
            "tokens": 11,
            "sequences": 13,
            "element_bytes": 4,
        },
    ],
    draw=draw_cache,
    case_text=(
        "{layers} layers, {query_heads} query heads, {kv_heads} KV heads of {head_dim}, {sequences} × {tokens} tokens, "
        "{element_bytes} bytes a value"
    ),
    mistakes=[
        Mistake(
            "query-heads",
            "You cached one key and value for each query head. Groups of them share: {kv_heads} heads are kept.",
            Edit("* kv_heads *", "* query_heads *"),
            see="08-cache",
        ),
        Mistake(
            "keys-only",
            "That is the keys or the values; the cache holds both.",
            Edit("2 * layers", "layers"),
            see="08-cache",
        ),
        Mistake(
            "one-layer",
            "That is one layer's; each of the {layers} has keys and values of its own.",
            Edit("2 * layers *", "2 *"),
            see="08-cache",
        ),
        Mistake(
            "one-sequence",
            "That is one sequence; each of the {sequences} has its own cache.",
            Edit(" * sequences", ""),
            see="08-cache",
        ),
        Mistake(
            "elements",
            "That is the number of values; each has {element_bytes} bytes.",
            Edit(" * element_bytes", ""),
            see="08-cache",
        ),
        Mistake(
            "scores",
            "You counted something for each pair of tokens. The cache holds a key and a value for each token; scores "
            "are not kept.",
            Edit("per_token * tokens", "per_token * tokens * tokens"),
            see="08-cache",
        ),
        Mistake(
            "queries-too",
            "You cached the queries too; a token's query is used once, when it is the new one.",
            Edit("2 * layers * kv_heads", "layers * (query_heads + 2 * kv_heads)"),
            see="08-cache",
        ),
        Mistake(
            "query-heads-for-keys",
            "You cached keys for every query head and values for {kv_heads}; both are shared.",
            Edit("2 * layers * kv_heads", "layers * (query_heads + kv_heads)"),
            see="08-cache",
        ),
        Mistake(
            "heads-in-a-group",
            "You took the query heads in a group; kept are the {kv_heads} key heads.",
            Edit("* kv_heads *", "* (query_heads // kv_heads) *"),
            see="08-cache",
        ),
        Mistake(
            "one-token",
            "That is one token; each of the {tokens} keeps its own key and value.",
            Edit("per_token * tokens", "per_token"),
            see="08-cache",
        ),
        Mistake(
            "head-split-again",
            "You divided head_dim by the heads; it is one head's width already.",
            Edit("head_dim *", "head_dim / query_heads *"),
            see="08-cache",
        ),
        Mistake(
            "one-sequence-query-heads",
            "Two slips: each of the {sequences} sequences has a cache, and {kv_heads} heads are kept, not one for each query head.",
            [Edit("* kv_heads *", "* query_heads *"), Edit(" * sequences", "")],
            see="08-cache",
        ),
    ],
    hints=[
        "What does one layer keep of one token?",
        "A key and a value, each of kv_heads · head_dim values.",
        "2 · layers · kv_heads · head_dim · bytes, times the tokens, times the sequences.",
    ],
)

CACHE_BUDGET = Exercise(
    id="8.17",
    title="Shared key heads: which budget changed?",
    notebook=NOTEBOOK,
    kind="choice",
    level="stretch",
    difficulty="demanding",
    points=1,
    minutes=3,
    answer="b",
    options={
        "a": "Storage and arithmetic: a quarter of the cache, and of the products with it.",
        "b": "Storage and data movement: a quarter of the cache is held and read; attention's FLOPs stay.",
        "c": "Storage alone: each step reads what it read before.",
        "d": "Arithmetic alone: the cache needs a key for each query head.",
    },
    mistakes=[
        Mistake(
            "arithmetic",
            "32 query heads still multiply with every token's key; four of them use the same one.",
            "a",
            see="08-cache-read",
        ),
        Mistake(
            "reads-stay",
            "Decoding a token reads the whole cache once, so a quarter of the cache is a quarter of the reads.",
            "c",
            see="08-cache-read",
        ),
        Mistake(
            "nothing-stored",
            "Four query heads share one key, and one key is what is kept.",
            "d",
            see="08-cache",
        ),
    ],
    hints=[
        "Who uses a cached key, and how often is it read for one new token?",
        "All four query heads of a group multiply with it; it is read once.",
        "FLOPs count query heads, bytes count key heads.",
    ],
)

EXERCISES = [
    BACKWARD,
    STATES,
    INTENSITY,
    HIDDEN,
    SAVED,
    GELU_BUDGET,
    MEANS,
    ACCUMULATE,
    PEAK,
    ACCUMULATION_BUDGET,
    BOUNDARIES,
    BEST,
    SEGMENTS,
    RECOMPUTED,
    CHECKPOINT_BUDGET,
    CACHE,
    CACHE_BUDGET,
]
