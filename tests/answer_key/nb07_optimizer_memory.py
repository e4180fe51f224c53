"""Answers, hints and known mistakes of notebooks/07_optimizer_memory.ipynb."""

import random

from lecture_lib.exercises.key import Edit, Exercise, Mistake

# -- recall

LOST_UPDATE = Exercise(
    id="7.1",
    title="One and a thousandth in BF16",
    notebook="07_optimizer_memory",
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="b",
    options={"a": "1.001", "b": "1", "c": "1.0078125"},
    mistakes=[
        Mistake(
            "exact",
            "BF16 has 7 fraction bits: just above 1 its values are 2⁻⁷ ≈ 0.0078 apart, and 1.001 is none of them.",
            "a",
        ),
        Mistake(
            "rounded-up",
            "1.0078125 is the next value above 1, but 1.001 is nearer to 1, and rounding goes to the nearest.",
            "c",
        ),
    ],
    hints=[
        "How far apart are BF16's values just above 1?",
        "2⁻⁷ = 0.0078125: the neighbours of 1.001 are 1 and 1.0078125.",
        "The nearer of the two is 1.",
    ],
)

SHARE_OF_UPDATE = Exercise(
    id="7.2",
    title="What share of the arithmetic is the update?",
    notebook="07_optimizer_memory",
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="c",
    options={
        "a": "about a third",
        "b": "about one part in a hundred",
        "c": "less than one part in a million",
    },
    mistakes=[
        Mistake(
            "per-token",
            "14 is more than 6, but the 6 count for each of four million tokens, and the 14 once a step.",
            "a",
        ),
        Mistake(
            "hundredth",
            "Forward and backward take 6 FLOPs for each parameter and each of four million tokens: 25 million.",
            "b",
        ),
    ],
    hints=[
        "How often in a step does a parameter meet a token, and how often is it updated?",
        "6 · 4,194,304 FLOPs for the products, 14 for the update.",
        "14 / 25 million is 0.56 millionths.",
    ],
)

UPDATE_LIMIT = Exercise(
    id="7.3",
    title="What limits the update",
    notebook="07_optimizer_memory",
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="b",
    options={
        "a": "arithmetic: the square roots",
        "b": "data movement: 22 bytes for 14 FLOPs",
        "c": "storage: the moments fill the memory",
    },
    mistakes=[
        Mistake(
            "arithmetic",
            "0.64 FLOP/B lies far below an H100's ridge, 20 FLOP/B even for its FP32 vector lanes.",
            "a",
        ),
        Mistake(
            "capacity",
            "What is held decides whether a step runs at all; how long it takes, the bytes that move.",
            "c",
        ),
    ],
    hints=[
        "What is the update's intensity, in FLOP/B?",
        "14 FLOPs over 22 B: 0.64 FLOP/B. Where is the ridge?",
        "Below the ridge the bandwidth is the limit.",
    ],
)


# -- the updates


def optimizer_bytes(optimizer, P, element_bytes):
    arrays = {"sgd": 0, "adagrad": 1, "adam": 2, "adamw": 2}
    return arrays[optimizer] * P * element_bytes


def draw_optimizer(rng):
    return {
        "optimizer": rng.choice(("sgd", "adagrad", "adam", "adamw")),
        "P": rng.randint(3, 10**6),
        "element_bytes": rng.choice((1, 2, 4, 8)),
    }


OPTIMIZER_ROW = Exercise(
    id="7.4",
    title="The missing row: what the optimizer keeps",
    notebook="07_optimizer_memory",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="B",
    answer=optimizer_bytes,
    cases=[
        {"optimizer": "adagrad", "P": 1_000, "element_bytes": 4},
        {"optimizer": "adamw", "P": 37, "element_bytes": 1},
        {"optimizer": "sgd", "P": 5_000, "element_bytes": 2},
        {"optimizer": "adam", "P": 11, "element_bytes": 4},
    ],
    draw=draw_optimizer,
    case_text="{optimizer}, P={P}, {element_bytes} B",
    mistakes=[
        Mistake(
            "one-moment",
            "You gave Adam and AdamW one array each. They keep two: a mean of the gradient and one of its square.",
            Edit('"adam": 2, "adamw": 2', '"adam": 1, "adamw": 1'),
            see="07-adam",
        ),
        Mistake(
            "sgd-keeps-gradient",
            "Plain SGD keeps nothing from step to step. The gradient has a row of its own.",
            Edit('"sgd": 0', '"sgd": 1'),
            see="07-updates",
        ),
        Mistake(
            "adagrad-forgets",
            "AdaGrad's sum must be there at the next step: it is an array of the parameters' size.",
            Edit('"adagrad": 1', '"adagrad": 0'),
            see="07-updates",
        ),
        Mistake(
            "adagrad-two",
            "AdaGrad keeps one array, the sum of squares; only Adam and AdamW keep a mean of the gradient as well.",
            Edit('"adagrad": 1', '"adagrad": 2'),
            see="07-updates",
        ),
        Mistake(
            "decay-array",
            "Weight decay is one number for all parameters: AdamW keeps the same two arrays as Adam.",
            Edit('"adamw": 2', '"adamw": 3'),
            see="07-decay",
        ),
        Mistake(
            "elements-only",
            "That is the number of values kept; each takes {element_bytes} B.",
            Edit(" * element_bytes", ""),
            see="07-arrays-measure",
        ),
        Mistake(
            "always-two",
            "You gave each of the four two arrays; SGD keeps none and AdaGrad one.",
            Edit('"sgd": 0, "adagrad": 1', '"sgd": 2, "adagrad": 2'),
            see="07-updates",
        ),
        Mistake(
            "always-one",
            "You gave each of the four one array; SGD keeps none, Adam and AdamW two.",
            Edit(
                '"sgd": 0, "adagrad": 1, "adam": 2, "adamw": 2',
                '"sgd": 1, "adagrad": 1, "adam": 1, "adamw": 1',
            ),
            see="07-updates",
        ),
        Mistake(
            "adam-one",
            "You gave Adam one array; it keeps two, as AdamW does: a mean of the gradient and one of its square.",
            Edit('"adam": 2,', '"adam": 1,'),
            see="07-adam",
        ),
        Mistake(
            "adamw-one",
            "You gave AdamW one array; it keeps two, as Adam does: a mean of the gradient and one of its square.",
            Edit('"adamw": 2', '"adamw": 1'),
            see="07-adam",
        ),
        Mistake(
            "gradient-counted",
            "You counted the gradient with what the optimizer keeps; it has a row of its own.",
            Edit("return arrays[optimizer]", "return (1 + arrays[optimizer])"),
            see="07-ex4-prompt",
        ),
        Mistake(
            "whole-ledger",
            "That is the total; the row is what the optimizer keeps, without parameters and gradients.",
            Edit("return arrays[optimizer]", "return (2 + arrays[optimizer])"),
            see="07-ex4-prompt",
        ),
        Mistake(
            "counters-counted",
            "You counted a step counter too; the row leaves these out.",
            Edit("* P * element_bytes", "* P * element_bytes + 4 * (arrays[optimizer] > 0)"),
            see="07-ex4-prompt",
        ),
        Mistake(
            "bits-for-bytes",
            "That is in bits; element_bytes is in bytes already.",
            Edit("* P *", "* 8 * P *"),
            see="07-ex4-prompt",
        ),
    ],
    hints=[
        "Which symbols of the update carry the same letter before and after the step, apart from w?",
        "SGD none, AdaGrad s, Adam and AdamW m and v: arrays as large as w.",
        "arrays · P · element_bytes, with 0, 1, 2, 2 arrays.",
    ],
)


def adagrad_step(w, g, s, eta, eps):
    s = s + g**2
    w = w - eta * g / (s + eps).sqrt()
    return w, s


def numbers(rng, count):
    """Values that are never near 0, to two digits."""
    return [round(rng.choice((-1, 1)) * rng.uniform(0.3, 3), 2) for _ in range(count)]


def tensor(values):
    return {"array": values, "dtype": "float64"}


def adagrad_case(rng, steps, n):
    return {
        "w": tensor(numbers(rng, n)),
        "gradients": tensor([numbers(rng, n) for _ in range(steps)]),
        "keeps": "s",
        "eta": round(rng.uniform(0.05, 0.9), 2),
        "eps": round(rng.uniform(0.05, 0.9), 2),
    }


def draw_adagrad(rng):
    return adagrad_case(rng, rng.randint(2, 4), rng.randint(2, 5))


ADAGRAD = Exercise(
    id="7.5",
    title="A step of AdaGrad",
    notebook="07_optimizer_memory",
    kind="driver",
    driver="optimizer_steps",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=6,
    answer=adagrad_step,
    cases=[
        adagrad_case(random.Random(1), 2, 3),
        adagrad_case(random.Random(2), 3, 2),
        adagrad_case(random.Random(3), 4, 4),
    ],
    draw=draw_adagrad,
    case_text="w {w}, gradients {gradients}, eta={eta}, eps={eps}",
    mistakes=[
        Mistake(
            "eps-outside",
            "Your ε stands outside the root, as in torch. The lecture's rule has it inside: √(s + ε).",
            Edit("(s + eps).sqrt()", "(s.sqrt() + eps)"),
            see="07-epsilon",
        ),
        Mistake(
            "no-root",
            "You divided by s + ε itself; the rule divides by its square root.",
            Edit("(s + eps).sqrt()", "(s + eps)"),
            see="07-updates",
        ),
        Mistake(
            "forgets",
            "The first step is right; then your sum starts anew. s adds up the squares of all gradients so far.",
            Edit("s = s + g**2", "s = g**2"),
            see="07-updates",
        ),
        Mistake(
            "not-squared",
            "Your sum adds gradients; it should add their squares.",
            Edit("g**2", "g"),
            see="07-updates",
        ),
        Mistake(
            "sum-too-old",
            "You divided by the sum as it was before this gradient. The rule adds the gradient's square first.",
            [Edit("(s + eps)", "(s - g**2 + eps)")],
            see="07-updates",
        ),
        Mistake(
            "uphill",
            "Your step goes up the gradient: the sign should be minus.",
            Edit("w - eta", "w + eta"),
            see="07-updates",
        ),
        Mistake(
            "swapped",
            "Return the new weights first, then the sum.",
            Edit("return w, s", "return s, w"),
            see="07-ex5-prompt",
        ),
        Mistake(
            "old-sum-returned",
            "Your weights are right at the first step, but you returned the sum as it came in; return the new one.",
            Edit("return w, s", "return w, s - g**2"),
            see="07-ex5-prompt",
        ),
        Mistake(
            "eps-squared",
            "You squared ε; under the root it stands as it is, √(s + ε).",
            Edit("(s + eps)", "(s + eps**2)"),
            see="07-updates",
        ),
        Mistake(
            "no-eps",
            "Your ε is missing: the rule divides by √(s + ε).",
            Edit("(s + eps)", "s"),
            see="07-updates",
        ),
        Mistake(
            "eps-in-the-sum",
            "You added ε to the sum that is kept, so it is added anew at each step; add it under the root only.",
            [Edit("s = s + g**2", "s = s + g**2 + eps"), Edit("(s + eps)", "s")],
            see="07-updates",
        ),
        Mistake(
            "running-mean",
            "You kept a running mean of the squares, as Adam does; AdaGrad's s is their plain sum.",
            Edit("s = s + g**2", "s = 0.9 * s + 0.1 * g**2"),
            see="07-updates",
        ),
        Mistake(
            "no-eta",
            "Your step has no learning rate: it is eta · g over the root.",
            Edit("eta * g /", "g /"),
            see="07-updates",
        ),
        Mistake(
            "no-gradient",
            "Your step has no gradient in it: eta · g over the root.",
            Edit("eta * g /", "eta /"),
            see="07-updates",
        ),
        Mistake(
            "one-sum-for-all",
            "You added up the squares of all weights' gradients; each weight has a sum of its own.",
            Edit("g**2", "(g**2).sum()"),
            see="07-updates",
        ),
        Mistake(
            "not-squared-eps-outside",
            "Two slips: the sum adds gradients and should add their squares, and ε belongs inside the root.",
            [Edit("g**2", "g"), Edit("(s + eps).sqrt()", "(s.sqrt() + eps)")],
            see="07-epsilon",
        ),
        Mistake(
            "sum-too-old-eps-outside",
            "Two slips: you divided by the sum before this gradient was added, and ε belongs inside the root.",
            Edit("(s + eps).sqrt()", "((s - g**2).sqrt() + eps)"),
            see="07-epsilon",
        ),
    ],
    hints=[
        "Two lines: first the sum, then the weights. Which of them uses the other?",
        "s = s + g**2 comes first; the weights then use the new s, with ε inside the root.",
        "w - eta * g / (s + eps).sqrt(), and return w, s.",
    ],
)


def adamw_step(w, g, m, v, t, eta, beta1, beta2, eps, weight_decay):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    w = w - eta * weight_decay * w
    w = w - eta * m_hat / (v_hat.sqrt() + eps)
    return w, m, v


def betas_swapped(w, g, m, v, t, eta, beta1, beta2, eps, weight_decay):
    m = beta2 * m + (1 - beta2) * g
    v = beta1 * v + (1 - beta1) * g**2
    m_hat = m / (1 - beta2**t)
    v_hat = v / (1 - beta1**t)
    w = w - eta * weight_decay * w
    w = w - eta * m_hat / (v_hat.sqrt() + eps)
    return w, m, v


def adamw_case(rng, steps, n):
    return {
        "w": tensor(numbers(rng, n)),
        "gradients": tensor([numbers(rng, n) for _ in range(steps)]),
        "keeps": "m v t",
        "eta": round(rng.uniform(0.05, 0.6), 2),
        "beta1": round(rng.uniform(0.3, 0.6), 2),
        "beta2": round(rng.uniform(0.7, 0.95), 2),
        "eps": round(rng.uniform(0.05, 0.5), 2),
        "weight_decay": round(rng.uniform(0.1, 0.5), 2),
    }


def draw_adamw(rng):
    return adamw_case(rng, rng.randint(2, 4), rng.randint(2, 5))


def means_too_old(w, g, m, v, t, eta, beta1, beta2, eps, weight_decay):
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    w = w - eta * weight_decay * w - eta * m_hat / (v_hat.sqrt() + eps)
    return w, beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2


_DECAY = "    w = w - eta * weight_decay * w\n"
_STEP = "    w = w - eta * m_hat / (v_hat.sqrt() + eps)\n"

ADAMW = Exercise(
    id="7.6",
    title="A step of AdamW",
    notebook="07_optimizer_memory",
    kind="driver",
    driver="optimizer_steps",
    level="core",
    difficulty="demanding",
    points=3,
    minutes=10,
    answer=adamw_step,
    cases=[
        adamw_case(random.Random(1), 2, 3),
        adamw_case(random.Random(2), 3, 2),
        adamw_case(random.Random(3), 4, 4),
    ],
    draw=draw_adamw,
    case_text=(
        "w {w}, gradients {gradients}, eta={eta}, beta1={beta1}, beta2={beta2}, eps={eps}, "
        "weight_decay={weight_decay}"
    ),
    mistakes=[
        Mistake(
            "decay-in-gradient",
            "You added weight_decay · w to the gradient, which is Adam with an L2 penalty: the decay then goes through"
            " the moments. AdamW takes it off the weights directly.",
            [
                Edit("    m = beta1 * m", "    g = g + weight_decay * w\n    m = beta1 * m"),
                Edit(_DECAY, ""),
            ],
            see="07-decay",
        ),
        Mistake(
            "no-decay",
            "That is Adam: the weights do not decay. AdamW also takes eta · weight_decay · w off.",
            Edit(_DECAY, ""),
            see="07-decay",
        ),
        Mistake(
            "decay-without-eta",
            "Your weights decay by weight_decay · w at each step; torch and the paper's usual form multiply by eta too.",
            Edit("eta * weight_decay * w", "weight_decay * w"),
            see="07-decay",
        ),
        Mistake(
            "decay-last",
            "You decayed the weights after the step; AdamW decays those that came in, and then steps.",
            Edit(_DECAY + _STEP, _STEP + _DECAY),
            see="07-decay",
        ),
        Mistake(
            "no-correction",
            "Your moments are used as they are. They start at 0 and are too small at first: divide them by 1 − β^t.",
            [Edit("m / (1 - beta1**t)", "m"), Edit("v / (1 - beta2**t)", "v")],
            see="07-adam",
        ),
        Mistake(
            "first-uncorrected",
            "The second moment is corrected, the first is not: m divides by 1 − beta1**t.",
            Edit("m / (1 - beta1**t)", "m"),
            see="07-adam",
        ),
        Mistake(
            "second-uncorrected",
            "The first moment is corrected, the second is not: v divides by 1 − beta2**t.",
            Edit("v / (1 - beta2**t)", "v"),
            see="07-adam",
        ),
        Mistake(
            "correction-fixed",
            "The first step is right, later ones are not: the correction is 1 − β^t, with the step number as a power.",
            [Edit("1 - beta1**t", "1 - beta1"), Edit("1 - beta2**t", "1 - beta2")],
            see="07-adam",
        ),
        Mistake(
            "corrected-kept",
            "You returned the corrected moments, so the next step corrects them again. Keep m and v as they are.",
            Edit("return w, m, v", "return w, m_hat, v_hat"),
            see="07-adam-code",
        ),
        Mistake(
            "betas-swapped",
            "beta1 belongs to the mean of the gradient, beta2 to the mean of its square; you exchanged them.",
            betas_swapped,
            see="07-adam",
        ),
        Mistake(
            "eps-inside",
            "Your ε stands inside the root. Adam and AdamW add it to the root: √v̂ + ε.",
            Edit("(v_hat.sqrt() + eps)", "(v_hat + eps).sqrt()"),
            see="07-adam",
        ),
        Mistake(
            "no-root",
            "You divided by v̂ itself; the rule divides by its square root, plus ε.",
            Edit("v_hat.sqrt()", "v_hat"),
            see="07-adam",
        ),
        Mistake(
            "not-squared",
            "Your second moment averages the gradient's size; it should average its square.",
            Edit("* g**2", "* g.abs()"),
            see="07-adam",
        ),
        Mistake(
            "counted-from-zero",
            "Your corrections use t + 1; t counts from 1 already.",
            [Edit("1 - beta1**t", "1 - beta1 ** (t + 1)"), Edit("1 - beta2**t", "1 - beta2 ** (t + 1)")],
            see="07-ex6-prompt",
        ),
        Mistake(
            "moments-exchanged",
            "You returned v before m; the order is w, m, v.",
            Edit("return w, m, v", "return w, v, m"),
            see="07-ex6-prompt",
        ),
        Mistake(
            "sums-for-means",
            "Your m and v add up without the factors 1 − β: a running mean weighs the new value by 1 − β.",
            [Edit("+ (1 - beta1) * g\n", "+ g\n"), Edit("(1 - beta2) * g**2", "g**2")],
            see="07-adam",
        ),
        Mistake(
            "grows",
            "Your weights grow by eta · weight_decay · w; a decay takes it off.",
            Edit("w - eta * weight_decay", "w + eta * weight_decay"),
            see="07-decay",
        ),
        Mistake(
            "uphill",
            "Your step goes up the gradient: the sign should be minus.",
            Edit("w - eta * m_hat", "w + eta * m_hat"),
            see="07-adam",
        ),
        Mistake(
            "old-and-new-exchanged",
            "You gave the old mean the factor 1 − β and the new value β; it is the other way round.",
            [
                Edit("beta1 * m + (1 - beta1) * g", "(1 - beta1) * m + beta1 * g"),
                Edit("beta2 * v + (1 - beta2) * g**2", "(1 - beta2) * v + beta2 * g**2"),
            ],
            see="07-adam",
        ),
        Mistake(
            "means-too-old",
            "Your step uses m and v as they came in; update both first.",
            means_too_old,
            see="07-adam",
        ),
        Mistake(
            "no-decay-eps-inside",
            "Two slips: the weights do not decay, and ε stands inside the root where √v̂ + ε is asked for.",
            [
                Edit("    w = w - eta * weight_decay * w\n", ""),
                Edit("(v_hat.sqrt() + eps)", "(v_hat + eps).sqrt()"),
            ],
            see="07-decay",
        ),
        Mistake(
            "penalty-uncorrected",
            "Two slips: the decay goes through the gradient, and the moments are used uncorrected.",
            [
                Edit("    m = beta1 * m", "    g = g + weight_decay * w\n    m = beta1 * m"),
                Edit("    w = w - eta * weight_decay * w\n", ""),
                Edit("m / (1 - beta1**t)", "m"),
                Edit("v / (1 - beta2**t)", "v"),
            ],
            see="07-decay",
        ),
        Mistake(
            "without-eta-uncorrected",
            "Two slips: the decay lacks eta, and v is used uncorrected.",
            [Edit("eta * weight_decay * w", "weight_decay * w"), Edit("v / (1 - beta2**t)", "v")],
            see="07-decay",
        ),
    ],
    hints=[
        "Adam's step is in the notebook. What does AdamW do to w before it, and to what does it not add anything?",
        "m and v average g and g**2; m_hat and v_hat divide by 1 − β**t; w loses eta · weight_decay · w, then the step.",
        "w - eta * weight_decay * w first, then w - eta * m_hat / (v_hat.sqrt() + eps); return w, m, v.",
    ],
)


# -- recipes


def moment_bytes(P, block, scale_bytes):
    blocks = (P + block - 1) // block
    return P + blocks * scale_bytes


def draw_moment(rng):
    block = rng.choice((16, 32, 64, 128, 256, 2048))
    return {
        "P": block * rng.randint(2, 400) + rng.choice((0, 1, rng.randint(2, block - 1))),
        "block": block,
        "scale_bytes": rng.choice((2, 4, 8)),
    }


EIGHT_BIT = Exercise(
    id="7.7",
    title="The missing row: an 8-bit moment",
    notebook="07_optimizer_memory",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="B",
    answer=moment_bytes,
    cases=[
        {"P": 7_000_000_000, "block": 256, "scale_bytes": 4},
        {"P": 1_000, "block": 48, "scale_bytes": 2},
        {"P": 257, "block": 64, "scale_bytes": 8},
    ],
    draw=draw_moment,
    case_text="P={P}, blocks of {block}, scales of {scale_bytes} B",
    mistakes=[
        Mistake(
            "no-scales",
            "A byte for each value is there, but no scale: every block of {block} has one, of {scale_bytes} B.",
            Edit(" + blocks * scale_bytes", ""),
            see="07-recipes",
        ),
        Mistake(
            "last-block-lost",
            "The last block is not full, but it has a scale too: round the number of blocks up.",
            Edit("(P + block - 1) // block", "P // block"),
            see="07-ex7-prompt",
        ),
        Mistake(
            "a-block-too-many",
            "Where the blocks come out even there is none left over: you counted one too many.",
            Edit("(P + block - 1) // block", "P // block + 1"),
            see="07-ex7-prompt",
        ),
        Mistake(
            "one-scale",
            "You counted one scale for the whole array; each block of {block} values has its own.",
            Edit("blocks * scale_bytes", "scale_bytes"),
            see="07-recipes",
        ),
        Mistake(
            "scale-for-each-value",
            "You gave every value a scale; a block of {block} values shares one.",
            Edit("blocks * scale_bytes", "P * scale_bytes"),
            see="07-recipes",
        ),
        Mistake(
            "scale-of-one-byte",
            "Your scales take one byte each; they have {scale_bytes}.",
            Edit("blocks * scale_bytes", "blocks"),
            see="07-ex7-prompt",
        ),
        Mistake(
            "both-moments",
            "That is both moments together; the row asks for one.",
            Edit("P + blocks * scale_bytes", "2 * (P + blocks * scale_bytes)"),
            see="07-ex7-prompt",
        ),
        Mistake(
            "unrounded",
            "You took a fraction of a block; the last one has a whole scale, so round the number up.",
            Edit("(P + block - 1) // block", "P / block"),
            see="07-ex7-prompt",
        ),
        Mistake(
            "rounded-to-nearest",
            "You rounded the number of blocks to the nearest; any part of a block has a scale, so round up.",
            Edit("(P + block - 1) // block", "round(P / block)"),
            see="07-ex7-prompt",
        ),
        Mistake(
            "bits-for-bytes",
            "You gave each value 8 bytes; an 8-bit value has one.",
            Edit("return P +", "return 8 * P +"),
            see="07-recipes",
        ),
        Mistake(
            "eighth-of-a-byte",
            "You divided the values by 8; an 8-bit value is one byte.",
            Edit("return P +", "return P / 8 +"),
            see="07-recipes",
        ),
        Mistake(
            "padded",
            "You filled the last block up; it has a scale, but only the values that are there take bytes.",
            Edit("return P +", "return blocks * block +"),
            see="07-ex7-prompt",
        ),
        Mistake(
            "scales-alone",
            "Those are the scales alone; each value takes a byte too.",
            Edit("return P + ", "return "),
            see="07-recipes",
        ),
    ],
    hints=[
        "A byte for each value, and what for each block?",
        "How many blocks hold P values, if the last one need not be full?",
        "P + ⌈P / block⌉ · scale_bytes; rounding up is (P + block - 1) // block.",
    ],
)


def state_rows(P, weights, gradients, moments, master):
    size = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
    rows = {
        "parameters": P * size[weights],
        "gradients": P * size[gradients],
        "first moment": P * size[moments],
        "second moment": P * size[moments],
    }
    if master is not None:
        rows["master copy"] = P * size[master]
    return rows


def draw_recipe(rng):
    formats = ("fp32", "bf16", "fp16", "fp8")
    weights, gradients, moments = (rng.choice(formats) for _ in range(3))
    return {
        "P": rng.randint(3, 10**6),
        "weights": weights,
        "gradients": gradients,
        "moments": moments,
        "master": rng.choice((None, "fp32", "bf16")),
    }


RECIPE_ROWS = Exercise(
    id="7.8",
    title="A recipe's ledger, row by row",
    notebook="07_optimizer_memory",
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=7,
    unit="B",
    answer=state_rows,
    cases=[
        {"P": 7_000_000_000, "weights": "bf16", "gradients": "fp32", "moments": "fp32", "master": None},
        {"P": 1_003, "weights": "bf16", "gradients": "fp16", "moments": "fp8", "master": "fp32"},
        {"P": 17, "weights": "fp32", "gradients": "bf16", "moments": "bf16", "master": None},
        {"P": 29, "weights": "fp8", "gradients": "fp32", "moments": "fp16", "master": "bf16"},
    ],
    draw=draw_recipe,
    case_text="P={P}: weights {weights}, gradients {gradients}, moments {moments}, master {master}",
    mistakes=[
        Mistake(
            "gradients-as-weights",
            "You gave the gradients the weights' format, {weights}. Here they have their own: {gradients}.",
            Edit("P * size[gradients]", "P * size[weights]"),
            see="07-recipes",
        ),
        Mistake(
            "moments-as-weights",
            "You gave the moments the weights' format, {weights}, as torch.optim would. This recipe says {moments}.",
            [
                Edit('"first moment": P * size[moments]', '"first moment": P * size[weights]'),
                Edit('"second moment": P * size[moments]', '"second moment": P * size[weights]'),
            ],
            see="07-twelve",
        ),
        Mistake(
            "moments-always-fp32",
            "You gave the moments four bytes a value, which is FP32. This recipe keeps them in {moments}.",
            [
                Edit('"first moment": P * size[moments]', '"first moment": P * 4'),
                Edit('"second moment": P * size[moments]', '"second moment": P * 4'),
            ],
            see="07-recipes",
        ),
        Mistake(
            "no-second-moment",
            "There is no second moment in your ledger: AdamW also averages the gradient's square.",
            Edit('        "second moment": P * size[moments],\n', ""),
            see="07-adam",
        ),
        Mistake(
            "no-master",
            "The recipe has a master copy in {master}, and your ledger has no row for it.",
            Edit("if master is not None", "if master is not None and False"),
            see="07-master",
        ),
        Mistake(
            "always-master",
            "This recipe keeps no master copy (master is None), and your ledger has one.",
            [
                Edit("    if master is not None:\n        rows", "    rows"),
                Edit("P * size[master]", "P * size[master or 'fp32']"),
            ],
            see="07-recipes",
        ),
        Mistake(
            "master-as-weights",
            "You gave the master copy the weights' format, {weights}; it exists because it has another: {master}.",
            Edit("size[master]", "size[weights]"),
            see="07-master",
        ),
        Mistake(
            "bits-for-bytes",
            "Your rows are in bits. Eight bits are a byte.",
            Edit('"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1', '"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8'),
            see="07-recipes",
        ),
        Mistake(
            "fp8-as-two",
            "You gave FP8 two bytes; eight bits are one.",
            Edit('"fp8": 1', '"fp8": 2'),
            see="07-recipes",
        ),
        Mistake(
            "master-always-fp32",
            "You gave the master copy four bytes a value; here it is kept in {master}.",
            Edit("size[master]", "4"),
            see="07-ex8-prompt",
        ),
        Mistake(
            "gradients-always-fp32",
            "You gave the gradients four bytes a value; here they are kept in {gradients}.",
            Edit("size[gradients]", "4"),
            see="07-ex8-prompt",
        ),
        Mistake(
            "moments-doubled",
            "You counted both moments in each of the two rows; each row is one.",
            [
                Edit('"first moment": P *', '"first moment": 2 * P *'),
                Edit('"second moment": P *', '"second moment": 2 * P *'),
            ],
            see="07-ex8-prompt",
        ),
        Mistake(
            "one-parameter",
            "Those are the bytes of one parameter; there are P = {P}.",
            Edit("    size = {", "    P = 1\n    size = {"),
            see="07-ex8-prompt",
        ),
        Mistake(
            "in-gb",
            "Your rows are in GB; the answer is in bytes.",
            Edit("    size = {", "    P = P / 10**9\n    size = {"),
            see="07-ex8-prompt",
        ),
    ],
    hints=[
        "Write the rows as a dictionary: each is P times the bytes of its own format.",
        "Four rows always; the fifth, the master copy, only if `master` is not None.",
        'A table of sizes ({"fp32": 4, …}), then rows["parameters"] = P * size[weights], and so on.',
    ],
)


def held_bytes(model, optimizer):
    rows = {"parameters": 0, "gradients": 0, "optimizer": 0}
    for weight in model.parameters():
        rows["parameters"] += weight.nbytes
        if weight.grad is not None:
            rows["gradients"] += weight.grad.nbytes
    for state in optimizer.state.values():
        for kept in state.values():
            rows["optimizer"] += kept.nbytes
    return rows


def always_two_moments(model, optimizer):
    rows = {"parameters": 0, "gradients": 0, "optimizer": 0}
    for weight in model.parameters():
        rows["parameters"] += weight.nbytes
        if weight.grad is not None:
            rows["gradients"] += weight.grad.nbytes
            rows["optimizer"] += 2 * weight.nbytes
    return rows


def everything_fp32(model, optimizer):
    rows = {"parameters": 0, "gradients": 0, "optimizer": 0}
    for weight in model.parameters():
        rows["parameters"] += 4 * weight.numel()
        if weight.grad is not None:
            rows["gradients"] += 4 * weight.grad.numel()
    for state in optimizer.state.values():
        for kept in state.values():
            rows["optimizer"] += 4 * kept.numel()
    return rows


def draw_held(rng):
    return {
        "widths": rng.sample((2, 3, 4, 5, 6, 7), 4),
        "dtype": rng.choice(("float32", "bfloat16", "float64")),
        "optimizer": rng.choice(("SGD", "Adagrad", "Adam", "AdamW", "NAdam")),
        "frozen": rng.randint(0, 2),
    }


READ_DTYPES = Exercise(
    id="7.9",
    title="Weigh what a step left behind",
    notebook="07_optimizer_memory",
    kind="driver",
    driver="after_one_step",
    level="stretch",
    difficulty="steady",
    points=3,
    minutes=8,
    unit="B",
    answer=held_bytes,
    cases=[
        {"widths": [3, 5, 2, 4], "dtype": "bfloat16", "optimizer": "AdamW", "frozen": 1},
        {"widths": [4, 3, 5, 2], "dtype": "float32", "optimizer": "Adagrad", "frozen": 0},
        {"widths": [2, 7, 3, 5], "dtype": "float64", "optimizer": "SGD", "frozen": 2},
        {"widths": [5, 2, 6, 3], "dtype": "float32", "optimizer": "NAdam", "frozen": 1},
    ],
    draw=draw_held,
    case_text="widths {widths}, {dtype}, {optimizer}, {frozen} layers frozen",
    mistakes=[
        Mistake(
            "gradients-assumed",
            "You gave every parameter a gradient. A frozen one has none: its `.grad` is None.",
            [
                Edit("        if weight.grad is not None:\n            rows", "        rows"),
                Edit("weight.grad.nbytes", "weight.nbytes"),
            ],
            see="07-ex9-prompt",
        ),
        Mistake(
            "two-moments-assumed",
            "You took two arrays of the parameters' size for granted. What is kept is in `optimizer.state`, the step "
            "counter too.",
            always_two_moments,
            see="07-twelve-measure",
        ),
        Mistake(
            "fp32-assumed",
            "You counted four bytes a value. Each tensor has its own dtype, and knows its bytes: `nbytes`.",
            everything_fp32,
            see="07-twelve-measure",
        ),
        Mistake(
            "counters-left-out",
            "The arrays are there, but not the tensors of a single number beside them, such as `step`: 4 B each.",
            Edit('rows["optimizer"] += kept.nbytes', 'rows["optimizer"] += kept.nbytes if kept.ndim else 0'),
            see="07-twelve-measure",
        ),
        Mistake(
            "frozen-left-out",
            "You left the frozen layers' weights out. They do not train, but they are held.",
            [
                Edit('        rows["parameters"] += weight.nbytes\n        if', "        if"),
                Edit(
                    'rows["gradients"] +=',
                    'rows["parameters"] += weight.nbytes\n            rows["gradients"] +=',
                ),
            ],
            see="07-ex9-prompt",
        ),
        Mistake(
            "elements",
            "Those are numbers of values; each tensor knows its bytes: `nbytes`.",
            [
                Edit("+= weight.nbytes", "+= weight.numel()"),
                Edit("+= weight.grad.nbytes", "+= weight.grad.numel()"),
                Edit("+= kept.nbytes", "+= kept.numel()"),
            ],
            see="07-ex9-prompt",
        ),
        Mistake(
            "twice-the-weights",
            "You took twice the weights for what the optimizer holds; only Adam's kind holds two arrays, of trained weights, and counters beside them.",
            Edit("    return rows", '    rows["optimizer"] = 2 * rows["parameters"]\n    return rows'),
            see="07-arrays-measure",
        ),
        Mistake(
            "adam-alone",
            "You looked for Adam's two moments alone; other optimizers name theirs otherwise, and `step` counts too. Go through all values.",
            Edit(
                "in state.values():",
                'in [state[name] for name in ("exp_avg", "exp_avg_sq") if name in state]:',
            ),
            see="07-ex9-prompt",
        ),
        Mistake(
            "first-state-alone",
            "You counted what is kept for the first parameter alone; `optimizer.state` has an entry for each.",
            Edit("in optimizer.state.values():", "in list(optimizer.state.values())[:1]:"),
            see="07-ex9-prompt",
        ),
        Mistake(
            "weights-with-the-state",
            "You counted the weights again with what the optimizer holds; they have a row of their own.",
            Edit("    return rows", '    rows["optimizer"] += rows["parameters"]\n    return rows'),
            see="07-ex9-prompt",
        ),
        Mistake(
            "bits-for-bytes",
            "Your rows are in bits. Eight bits are a byte.",
            Edit("    return rows", "    return {row: 8 * held for row, held in rows.items()}"),
            see="07-ex9-prompt",
        ),
    ],
    hints=[
        "Three loops: over parameters, over their gradients, over what the optimizer keeps for each.",
        "`weight.nbytes`, `weight.grad.nbytes` where there is a gradient, and every value of every dictionary in "
        "`optimizer.state.values()`.",
        "for state in optimizer.state.values(): for kept in state.values(): rows['optimizer'] += kept.nbytes",
    ],
)

MASTER_BUDGET = Exercise(
    id="7.10",
    title="A master copy: which budget changed?",
    notebook="07_optimizer_memory",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=2,
    answer="b",
    options={
        "a": "Storage alone: four bytes more for each parameter, and the step is as before.",
        "b": "Storage and data movement: four bytes more are held, and each update reads and writes them.",
        "c": "Storage and arithmetic: every product is now computed with both copies.",
        "d": "All three, each by a third: 16 bytes where there were 12.",
    },
    mistakes=[
        Mistake(
            "storage-alone",
            "They are held, and used: each update reads the master copy and writes it again, and the update is "
            "limited by the bytes that it moves.",
            "a",
            see="07-master",
        ),
        Mistake(
            "products-twice",
            "Forward and backward use the BF16 copy alone; the master is read by the optimizer only.",
            "c",
            see="07-master",
        ),
        Mistake(
            "all-three",
            "16 for 12 is storage. The products of the step are the same, and they are nearly all of its arithmetic.",
            "d",
            see="07-master",
        ),
    ],
    hints=[
        "Who reads the master copy, and when?",
        "Only the optimizer, once a step: it reads 4 bytes and writes 4 for each parameter.",
        "Held: storage. Read and written: data movement. Multiplied: never.",
    ],
)


# -- devices


def rank_rows(P, ranks, stage, weight_bytes, gradient_bytes, moment_bytes):
    share = -(-P // ranks)
    weights = share if stage >= 3 else P
    gradients = share if stage >= 2 else P
    moments = share if stage >= 1 else P
    return {
        "parameters": weights * weight_bytes,
        "gradients": gradients * gradient_bytes,
        "moments": 2 * moments * moment_bytes,
    }


def draw_ranks(rng):
    weight, gradient, moment = rng.sample((1, 2, 4, 8), 3)
    ranks = rng.choice((2, 3, 4, 7, 8))
    return {
        "P": ranks * rng.randint(20, 10**6) + rng.randint(0, ranks - 1),
        "ranks": ranks,
        "stage": rng.randint(0, 3),
        "weight_bytes": weight,
        "gradient_bytes": gradient,
        "moment_bytes": moment,
    }


def bytes_rounded(P, ranks, stage, weight_bytes, gradient_bytes, moment_bytes):
    return {
        "parameters": -(-P * weight_bytes // (ranks if stage >= 3 else 1)),
        "gradients": -(-P * gradient_bytes // (ranks if stage >= 2 else 1)),
        "moments": -(-2 * P * moment_bytes // (ranks if stage >= 1 else 1)),
    }


RANK_ROWS = Exercise(
    id="7.11",
    title="What each rank holds",
    notebook="07_optimizer_memory",
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=7,
    unit="B",
    answer=rank_rows,
    cases=[
        {"P": 1_003, "ranks": 4, "stage": 1, "weight_bytes": 2, "gradient_bytes": 4, "moment_bytes": 8},
        {"P": 1_003, "ranks": 4, "stage": 2, "weight_bytes": 2, "gradient_bytes": 4, "moment_bytes": 8},
        {"P": 500, "ranks": 7, "stage": 3, "weight_bytes": 4, "gradient_bytes": 2, "moment_bytes": 1},
        {"P": 211, "ranks": 8, "stage": 0, "weight_bytes": 4, "gradient_bytes": 2, "moment_bytes": 1},
        {"P": 96, "ranks": 3, "stage": 2, "weight_bytes": 1, "gradient_bytes": 8, "moment_bytes": 2},
    ],
    draw=draw_ranks,
    case_text=(
        "P={P}, {ranks} ranks, ZeRO-{stage}: weights {weight_bytes} B, gradients {gradient_bytes} B, moments "
        "{moment_bytes} B"
    ),
    mistakes=[
        Mistake(
            "all-divided",
            "From stage 1 on you divided every row. Each stage divides one row more: moments, gradients, parameters.",
            [Edit("stage >= 3", "stage >= 1"), Edit("stage >= 2", "stage >= 1")],
            see="07-devices",
        ),
        Mistake(
            "always-pooled",
            "You divided at stage 0 too, where every rank holds all of it.",
            [
                Edit("stage >= 3", "stage >= 0"),
                Edit("stage >= 2", "stage >= 0"),
                Edit("stage >= 1", "stage >= 0"),
            ],
            see="07-devices",
        ),
        Mistake(
            "nothing-divided",
            "Your rows are those of one device alone: ZeRO divides some of them among the ranks.",
            Edit("share = -(-P // ranks)", "share = P"),
            see="07-devices",
        ),
        Mistake(
            "gradients-first",
            "You divided the gradients one stage too early: stage 1 divides what the optimizer holds.",
            Edit("stage >= 2", "stage >= 1"),
            see="07-devices",
        ),
        Mistake(
            "parameters-too-early",
            "You divided the parameters one stage too early: stage 2 leaves them whole on every rank.",
            Edit("stage >= 3", "stage >= 2"),
            see="07-devices",
        ),
        Mistake(
            "parameters-whole",
            "At stage 3 the parameters are divided too.",
            Edit("share if stage >= 3 else P", "P"),
            see="07-devices",
        ),
        Mistake(
            "rounded-down",
            "The shares of {ranks} ranks have to hold all {P} parameters: round up.",
            Edit("-(-P // ranks)", "P // ranks"),
            see="07-ex11-prompt",
        ),
        Mistake(
            "one-moment",
            "You counted one moment; AdamW keeps two.",
            Edit("2 * moments", "moments"),
            see="07-adam",
        ),
        Mistake(
            "stages-too-early",
            "Your stages begin one too early: stage 0 divides nothing, stage 1 the moments, stage 2 the gradients too, stage 3 the parameters too.",
            [
                Edit("stage >= 1", "stage >= 0"),
                Edit("stage >= 2", "stage >= 1"),
                Edit("stage >= 3", "stage >= 2"),
            ],
            see="07-devices",
        ),
        Mistake(
            "stages-reversed",
            "You divided the parameters from stage 1 and the moments from stage 3; it is the other way round: moments first, parameters last.",
            [Edit("stage >= 3", "stage > 0"), Edit("stage >= 1", "stage >= 3")],
            see="07-devices",
        ),
        Mistake(
            "gradients-too-late",
            "You divided the gradients from stage 3; stage 2 divides them.",
            Edit("stage >= 2", "stage >= 3"),
            see="07-devices",
        ),
        Mistake(
            "moments-whole",
            "From stage 1 on the moments are divided.",
            Edit("share if stage >= 1 else P", "P"),
            see="07-devices",
        ),
        Mistake(
            "one-stage-each",
            "You divided one row at each stage; a stage also divides what the stages before it do.",
            [Edit("stage >= 2", "stage == 2"), Edit("stage >= 1", "stage == 1")],
            see="07-devices",
        ),
        Mistake(
            "unrounded",
            "You took P / ranks as it is; a rank holds whole values, so round the share up.",
            Edit("-(-P // ranks)", "P / ranks"),
            see="07-ex11-prompt",
        ),
        Mistake(
            "one-too-many",
            "Where ranks divide P there is nothing over: you gave each one value too many.",
            Edit("-(-P // ranks)", "P // ranks + 1"),
            see="07-ex11-prompt",
        ),
        Mistake(
            "bytes-rounded",
            "You shared bytes and rounded these up; values are shared, ⌈P / ranks⌉ of them.",
            bytes_rounded,
            see="07-ex11-prompt",
        ),
        Mistake(
            "all-ranks",
            "That is what all ranks hold together; asked is each.",
            [
                Edit("weights * weight_bytes", "ranks * weights * weight_bytes"),
                Edit("gradients * gradient_bytes", "ranks * gradients * gradient_bytes"),
                Edit("2 * moments", "2 * ranks * moments"),
            ],
            see="07-ex11-prompt",
        ),
        Mistake(
            "bits-for-bytes",
            "Your rows are in bits. Eight bits are a byte.",
            [
                Edit("weights * weight_bytes", "8 * weights * weight_bytes"),
                Edit("gradients * gradient_bytes", "8 * gradients * gradient_bytes"),
                Edit("2 * moments", "16 * moments"),
            ],
            see="07-ex11-prompt",
        ),
        Mistake(
            "one-moment-rounded-down",
            "Two slips: AdamW keeps two moments, and the shares have to hold all {P} parameters, so round up.",
            [Edit("2 * moments", "moments"), Edit("-(-P // ranks)", "P // ranks")],
            see="07-ex11-prompt",
        ),
        Mistake(
            "too-early-one-moment",
            "Two slips: AdamW keeps two moments, and your stages begin one too early (stage 0 divides nothing).",
            [
                Edit("stage >= 1", "stage >= 0"),
                Edit("stage >= 2", "stage >= 1"),
                Edit("stage >= 3", "stage >= 2"),
                Edit("2 * moments", "moments"),
            ],
            see="07-devices",
        ),
    ],
    hints=[
        "Which row is divided first? It is the largest.",
        "Stage 1 divides the moments, stage 2 the gradients too, stage 3 all three. A share is ⌈P / ranks⌉.",
        "share = -(-P // ranks); then share or P for each row, by stage, times its bytes; the moments twice.",
    ],
)


def largest_model(memory, ranks, stage, weight_bytes, gradient_bytes, moment_bytes):
    weights = weight_bytes if stage >= 3 else weight_bytes * ranks
    gradients = gradient_bytes if stage >= 2 else gradient_bytes * ranks
    moments = 2 * moment_bytes if stage >= 1 else 2 * moment_bytes * ranks
    return memory * ranks // (weights + gradients + moments)


def draw_largest(rng):
    weight, gradient, moment = rng.sample((1, 2, 4, 8), 3)
    return {
        "memory": rng.randint(10**6, 10**11) * 2 + 1,
        "ranks": rng.choice((2, 3, 4, 8, 16, 64)),
        "stage": rng.randint(0, 3),
        "weight_bytes": weight,
        "gradient_bytes": gradient,
        "moment_bytes": moment,
    }


LARGEST = Exercise(
    id="7.12",
    title="The largest model on several devices",
    notebook="07_optimizer_memory",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=6,
    unit="parameter",
    answer=largest_model,
    cases=[
        {
            "memory": 80_000_000_000,
            "ranks": 8,
            "stage": 3,
            "weight_bytes": 2,
            "gradient_bytes": 4,
            "moment_bytes": 4,
        },
        {
            "memory": 40_000_000_001,
            "ranks": 3,
            "stage": 1,
            "weight_bytes": 2,
            "gradient_bytes": 4,
            "moment_bytes": 1,
        },
        {
            "memory": 24_000_000_000,
            "ranks": 5,
            "stage": 0,
            "weight_bytes": 4,
            "gradient_bytes": 1,
            "moment_bytes": 8,
        },
        {
            "memory": 16_000_000_003,
            "ranks": 5,
            "stage": 2,
            "weight_bytes": 2,
            "gradient_bytes": 1,
            "moment_bytes": 4,
        },
    ],
    draw=draw_largest,
    case_text=(
        "{ranks} devices of {memory} B, ZeRO-{stage}: weights {weight_bytes} B, gradients {gradient_bytes} B, "
        "moments {moment_bytes} B"
    ),
    mistakes=[
        Mistake(
            "pooled",
            "You divided the memory of all {ranks} devices by all the bytes. That is right only where every row is"
            " divided, at stage 3.",
            [
                Edit("stage >= 3", "stage >= 0"),
                Edit("stage >= 2", "stage >= 0"),
                Edit("stage >= 1", "stage >= 0"),
            ],
            see="07-devices",
        ),
        Mistake(
            "one-device",
            "That is what one device alone could hold: the sharded rows leave room for more.",
            [
                Edit("stage >= 3", "stage >= 4"),
                Edit("stage >= 2", "stage >= 4"),
                Edit("stage >= 1", "stage >= 4"),
            ],
            see="07-devices",
        ),
        Mistake(
            "moments-alone",
            "You divided the moments alone at every stage; stage 2 divides the gradients too, stage 3 all.",
            [Edit("stage >= 3", "stage >= 4"), Edit("stage >= 2", "stage >= 4")],
            see="07-devices",
        ),
        Mistake(
            "one-moment",
            "You counted one moment; AdamW keeps two.",
            [
                Edit("2 * moment_bytes if stage", "moment_bytes if stage"),
                Edit("2 * moment_bytes * ranks", "moment_bytes * ranks"),
            ],
            see="07-adam",
        ),
        Mistake(
            "rounded-up",
            "With one parameter more than fits, it does not fit: round down.",
            Edit(
                "memory * ranks // (weights + gradients + moments)",
                "-(-memory * ranks // (weights + gradients + moments))",
            ),
            see="07-devices-largest",
        ),
        Mistake(
            "stages-too-early",
            "Your stages begin one too early: stage 0 divides nothing, stage 1 the moments, stage 2 the gradients too, stage 3 the parameters too.",
            [
                Edit("stage >= 1", "stage >= 0"),
                Edit("stage >= 2", "stage >= 1"),
                Edit("stage >= 3", "stage >= 2"),
            ],
            see="07-devices",
        ),
        Mistake(
            "stages-reversed",
            "You divided the parameters from stage 1 and the moments from stage 3; it is the other way round: moments first, parameters last.",
            [Edit("stage >= 3", "stage > 0"), Edit("stage >= 1", "stage >= 3")],
            see="07-devices",
        ),
        Mistake(
            "gradients-too-early",
            "You divided the gradients from stage 1; that divides the moments alone.",
            Edit("stage >= 2", "stage >= 1"),
            see="07-devices",
        ),
        Mistake(
            "gradients-whole",
            "From stage 2 on the gradients are divided.",
            Edit("gradient_bytes if stage >= 2 else gradient_bytes * ranks", "gradient_bytes * ranks"),
            see="07-devices",
        ),
        Mistake(
            "not-whole",
            "A model has whole parameters: round down to the largest number that fits.",
            Edit("memory * ranks //", "memory * ranks /"),
            see="07-ex12-prompt",
        ),
        Mistake(
            "rounded-to-nearest",
            "You rounded to the nearest; with one parameter more than fits, it does not fit: round down.",
            Edit(
                "memory * ranks // (weights + gradients + moments)",
                "round(memory * ranks / (weights + gradients + moments))",
            ),
            see="07-ex12-prompt",
        ),
    ],
    hints=[
        "How many bytes does each device hold for one parameter of the model?",
        "A divided row costs its bytes over `ranks`, a whole one all of them. memory / (their sum) is the model.",
        "In whole numbers: memory * ranks // (sum of rows), where a whole row counts `ranks` times.",
    ],
)


def per_device_gib(parameters, weight_bytes, gradient_bytes, stage, tensor_parallel, data_parallel):
    weights = parameters * weight_bytes / tensor_parallel
    gradients = parameters * gradient_bytes / tensor_parallel
    if stage >= 2:
        gradients = gradients / data_parallel
    if stage >= 3:
        weights = weights / data_parallel
    return {"weights": weights / 2**30, "gradients": gradients / 2**30}


def draw_calculator(rng):
    weight, gradient = rng.sample((1, 2, 4), 2)
    return {
        "parameters": rng.randint(10**8, 10**11),
        "weight_bytes": weight,
        "gradient_bytes": gradient,
        "stage": rng.randint(0, 3),
        "tensor_parallel": rng.choice((2, 4, 8)),
        "data_parallel": rng.choice((3, 5, 16, 64)),
    }


CALCULATOR = Exercise(
    id="7.13",
    title="What is wrong in this calculator: ZeRO beside tensor parallelism",
    notebook="07_optimizer_memory",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=7,
    unit="GiB",
    answer=per_device_gib,
    cases=[
        {
            "parameters": 20_580_000_000,
            "weight_bytes": 2,
            "gradient_bytes": 4,
            "stage": 1,
            "tensor_parallel": 8,
            "data_parallel": 4,
        },
        {
            "parameters": 8_030_261_248,
            "weight_bytes": 2,
            "gradient_bytes": 1,
            "stage": 3,
            "tensor_parallel": 2,
            "data_parallel": 16,
        },
        {
            "parameters": 1_000_003,
            "weight_bytes": 4,
            "gradient_bytes": 2,
            "stage": 2,
            "tensor_parallel": 4,
            "data_parallel": 3,
        },
    ],
    draw=draw_calculator,
    case_text=(
        "P={parameters}, weights {weight_bytes} B, gradients {gradient_bytes} B, ZeRO-{stage}, tensor parallel "
        "{tensor_parallel}, data parallel {data_parallel}"
    ),
    mistakes=[
        Mistake(
            "unchanged",
            "Both faults are still there. Compare what each row is divided by below stage 2, and at stage 3.",
            [
                Edit(
                    "gradients = parameters * gradient_bytes / tensor_parallel",
                    "gradients = parameters * gradient_bytes",
                ),
                Edit(
                    "gradients = gradients / data_parallel",
                    "gradients = gradients / (tensor_parallel * data_parallel)",
                ),
                Edit(
                    "weights = weights / data_parallel",
                    "weights = weights / (tensor_parallel * data_parallel)",
                ),
            ],
            see="07-ex13-fault",
        ),
        Mistake(
            "gradients-not-split",
            "Below stage 2 your gradients are still those of the whole model: tensor parallelism has already split it"
            " in {tensor_parallel}.",
            [
                Edit(
                    "gradients = parameters * gradient_bytes / tensor_parallel",
                    "gradients = parameters * gradient_bytes",
                ),
                Edit(
                    "gradients = gradients / data_parallel",
                    "gradients = gradients / (tensor_parallel * data_parallel)",
                ),
            ],
            see="07-ex13-fault",
        ),
        Mistake(
            "weights-split-twice",
            "At stage 3 your weights are divided by the tensor-parallel size twice: {tensor_parallel} is in the number"
            " of all devices too.",
            Edit(
                "weights = weights / data_parallel", "weights = weights / (tensor_parallel * data_parallel)"
            ),
            see="07-ex13-fault",
        ),
        Mistake(
            "gradients-split-twice",
            "From stage 2 on your gradients are divided by the tensor-parallel size twice: the {data_parallel} "
            "data-parallel ranks share what is left of them.",
            Edit(
                "gradients = gradients / data_parallel",
                "gradients = gradients / (tensor_parallel * data_parallel)",
            ),
            see="07-ex13-fault",
        ),
        Mistake(
            "gb-for-gib",
            "Your rows are in GB, 10^9 bytes; a GiB has 2^30.",
            [
                Edit('"weights": weights / 2**30', '"weights": weights / 10**9'),
                Edit("gradients / 2**30", "gradients / 10**9"),
            ],
            see="07-gib",
        ),
        Mistake(
            "gradients-too-late",
            "You shared the gradients from stage 3; stage 2 shares them.",
            Edit("stage >= 2", "stage >= 3"),
            see="07-devices",
        ),
        Mistake(
            "gradients-too-early",
            "You shared the gradients from stage 1; that shares the optimizer's states alone.",
            Edit("stage >= 2", "stage >= 1"),
            see="07-devices",
        ),
        Mistake(
            "weights-too-early",
            "You shared the weights from stage 2; stage 3 shares them.",
            Edit("stage >= 3", "stage >= 2"),
            see="07-devices",
        ),
        Mistake(
            "weights-whole",
            "At stage 3 the weights are shared among the {data_parallel} replicas too.",
            Edit("weights = weights / data_parallel", "weights = weights * 1"),
            see="07-devices",
        ),
        Mistake(
            "gradients-whole",
            "From stage 2 on the gradients are shared among the {data_parallel} replicas.",
            Edit("gradients = gradients / data_parallel", "gradients = gradients * 1"),
            see="07-devices",
        ),
        Mistake(
            "gradients-not-by-tensor",
            "Your gradients are never divided by tensor_parallel = {tensor_parallel}; tensor parallelism splits every matrix, and its gradient.",
            Edit(
                "gradients = parameters * gradient_bytes / tensor_parallel",
                "gradients = parameters * gradient_bytes",
            ),
            see="07-ex13-prompt",
        ),
        Mistake(
            "by-tensor-again",
            "At stage 3 you divided the weights by tensor_parallel again; ZeRO shares among the {data_parallel} replicas.",
            Edit("weights = weights / data_parallel", "weights = weights / tensor_parallel"),
            see="07-ex13-prompt",
        ),
        Mistake(
            "both-split-twice",
            "Both rows are divided by the tensor-parallel size twice: ZeRO shares what is left among the {data_parallel} replicas.",
            [
                Edit(
                    "weights = weights / data_parallel",
                    "weights = weights / (tensor_parallel * data_parallel)",
                ),
                Edit(
                    "gradients = gradients / data_parallel",
                    "gradients = gradients / (tensor_parallel * data_parallel)",
                ),
            ],
            see="07-ex13-fault",
        ),
        Mistake(
            "in-bytes",
            "Your rows are in bytes; a GiB has 2^30.",
            [Edit("weights / 2**30", "weights"), Edit("gradients / 2**30", "gradients")],
            see="07-gib",
        ),
        Mistake(
            "in-mib",
            "Your rows are in MiB, 2^20 bytes; a GiB has 2^30.",
            [Edit("weights / 2**30", "weights / 2**20"), Edit("gradients / 2**30", "gradients / 2**20")],
            see="07-gib",
        ),
    ],
    hints=[
        "On how many devices does each row lie, at stage 1 and at stage 3? Devices are tensor_parallel · data_parallel.",
        "Tensor parallelism divides every row, at any stage. ZeRO divides what is left among the data-parallel ranks.",
        "Divide both rows by tensor_parallel first; then the gradients by data_parallel from stage 2, the weights at 3.",
    ],
)


def room_left(memory_gib, parameters, bytes_per_parameter):
    return memory_gib - parameters * bytes_per_parameter / 2**30


def draw_room(rng):
    return {
        "memory_gib": rng.choice((16, 24, 40, 80, 96, 141, 192)),
        "parameters": rng.randint(10**8, 2 * 10**10),
        "bytes_per_parameter": rng.choice((6, 8, 12, 16, 18, 20)),
    }


ROOM_LEFT = Exercise(
    id="7.14",
    title="Room left, in GiB",
    notebook="07_optimizer_memory",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="GiB",
    answer=room_left,
    cases=[
        {"memory_gib": 80, "parameters": 7_000_000_000, "bytes_per_parameter": 12},
        {"memory_gib": 24, "parameters": 1_235_814_400, "bytes_per_parameter": 16},
        {"memory_gib": 40, "parameters": 3_000_000_000, "bytes_per_parameter": 18},
    ],
    draw=draw_room,
    case_text="{memory_gib} GiB, P={parameters}, {bytes_per_parameter} B a parameter",
    mistakes=[
        Mistake(
            "gb-from-gib",
            "You took GB, 10^9 bytes, off GiB: the states are {parameters} · {bytes_per_parameter} / 2^30 GiB.",
            Edit("2**30", "10**9"),
            see="07-gib",
        ),
        Mistake(
            "in-gb",
            "The difference is right, but in GB. The answer is wanted in GiB, of 2^30 bytes.",
            Edit(
                "memory_gib - parameters * bytes_per_parameter / 2**30",
                "memory_gib * 2**30 / 10**9 - parameters * bytes_per_parameter / 10**9",
            ),
            see="07-gib",
        ),
        Mistake(
            "states-only",
            "Those are the states themselves; the question is what they leave of {memory_gib} GiB.",
            Edit("memory_gib - parameters", "parameters"),
            see="07-gib",
        ),
        Mistake(
            "never-negative",
            "Where the states do not fit, the room is negative and says how much is missing; you returned 0.",
            Edit(
                "memory_gib - parameters * bytes_per_parameter / 2**30",
                "max(0, memory_gib - parameters * bytes_per_parameter / 2**30)",
            ),
            see="07-ex14-prompt",
        ),
        Mistake(
            "wrong-way",
            "You took the memory off the states: room is what the memory has more.",
            Edit(
                "memory_gib - parameters * bytes_per_parameter / 2**30",
                "parameters * bytes_per_parameter / 2**30 - memory_gib",
            ),
            see="07-ex14-prompt",
        ),
        Mistake(
            "memory-as-gb",
            "You took the memory for GB; it is given in GiB, as the answer is.",
            Edit("memory_gib -", "memory_gib * 10**9 / 2**30 -"),
            see="07-ex14-prompt",
        ),
        Mistake(
            "bits-for-bytes",
            "You divided by 8 too: bytes_per_parameter is in bytes already.",
            Edit("2**30", "2**33"),
            see="07-gib",
        ),
        Mistake(
            "mib-from-gib",
            "You took MiB off GiB: a GiB has 2^30 bytes, not 2^20.",
            Edit("2**30", "2**20"),
            see="07-gib",
        ),
        Mistake(
            "one-byte-each",
            "You gave each parameter one byte; it has {bytes_per_parameter}.",
            Edit(" * bytes_per_parameter", ""),
            see="07-ex14-prompt",
        ),
        Mistake(
            "without-a-sign",
            "Where the states do not fit, the result is negative; you left the sign out.",
            Edit(
                "memory_gib - parameters * bytes_per_parameter / 2**30",
                "abs(memory_gib - parameters * bytes_per_parameter / 2**30)",
            ),
            see="07-ex14-prompt",
        ),
    ],
    hints=[
        "Two amounts to subtract: in which unit is each?",
        "The states are parameters · bytes_per_parameter bytes; a GiB is 2^30 of them.",
        "memory_gib - parameters * bytes_per_parameter / 2**30",
    ],
)

SHARDED_BUDGET = Exercise(
    id="7.15",
    title="From replicated to sharded: which budget changed?",
    notebook="07_optimizer_memory",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="b",
    options={
        "a": "Storage alone: each rank holds an eighth, and all else about the step is as before.",
        "b": (
            "Storage falls to an eighth, and data movement rises: weights that a rank does not hold must come to it, "
            "in the forward and again in the backward."
        ),
        "c": "Storage and arithmetic fall to an eighth: a rank multiplies only by the weights that it holds.",
        "d": "None: the eight ranks together still do and hold the same.",
    },
    mistakes=[
        Mistake(
            "storage-alone",
            "A rank multiplies its rows by every weight, and holds an eighth of them: the others have to be sent.",
            "a",
            see="07-ranks-read",
        ),
        Mistake(
            "arithmetic-divided",
            "Each rank still puts its own rows through the whole model; what it does not hold, it gathers. (Splitting "
            "the products is tensor parallelism.)",
            "c",
            see="07-ranks-read",
        ),
        Mistake(
            "nothing",
            "Replicated, the eight hold eight copies; sharded, they hold one together.",
            "d",
            see="07-ranks",
        ),
    ],
    hints=[
        "Which weights does a rank need in its forward pass, and which does it hold?",
        "It needs all of them, layer by layer, and holds an eighth.",
        "Less is held, more is sent, and the products are the same.",
    ],
)

EXERCISES = [
    LOST_UPDATE,
    SHARE_OF_UPDATE,
    UPDATE_LIMIT,
    OPTIMIZER_ROW,
    ADAGRAD,
    ADAMW,
    EIGHT_BIT,
    RECIPE_ROWS,
    READ_DTYPES,
    MASTER_BUDGET,
    RANK_ROWS,
    LARGEST,
    CALCULATOR,
    ROOM_LEFT,
    SHARDED_BUDGET,
]
