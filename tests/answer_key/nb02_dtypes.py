"""Answers, hints and known mistakes of notebooks/02_dtypes.ipynb."""

import math

from lecture_lib.accounting.formats import largest, rounded
from lecture_lib.exercises.key import Edit, Exercise, Mistake

# -- recall

MODEL_STATES = Exercise(
    id="2.1",
    title="To train seven billion parameters",
    notebook="02_dtypes",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="GB",
    answer="84 GB",
    mistakes=[
        Mistake("weights-only", "Those are the weights alone: 2 bytes each.", "14 GB", see="02-recall"),
        Mistake(
            "no-gradients", "The gradients are missing: 2 bytes for each parameter.", "70 GB", see="02-recall"
        ),
        Mistake(
            "everything-fp32",
            "That is 16 bytes for each parameter, with FP32 weights and gradients; here both are BF16.",
            "112 GB",
            see="02-recall",
        ),
        Mistake(
            "eight-bytes",
            "That is 8 bytes a parameter: one moment of two, or both of them in BF16, or the moments alone. Two moments in FP32 take 8, weights and gradients another 4.",
            "56 GB",
            see="02-recall",
        ),
        Mistake(
            "bits-for-bytes",
            "That is the number of bits; eight of them are a byte.",
            "672 GB",
            see="02-recall",
        ),
        Mistake(
            "no-gradients-one-moment",
            "That is 6 bytes a parameter: the gradients and one of the two moments are missing.",
            "42 GB",
            see="02-recall",
        ),
    ],
    hints=[
        "Add the bytes of one parameter's weight, gradient and moments.",
        "2 + 2 + 4 + 4 bytes for each parameter.",
        "12 B × 7·10⁹ is 84·10⁹ B.",
    ],
)

BOOLS = Exercise(
    id="2.2",
    title="What eight Booleans weigh",
    notebook="02_dtypes",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="B",
    answer="8 B",
    mistakes=[
        Mistake(
            "bits-packed",
            "A Boolean takes one bit to know, but torch stores each in a byte of its own.",
            "1 B",
            see="02-recall",
        ),
        Mistake("as-fp32", "You gave each four bytes, as to an FP32 value.", "32 B", see="02-recall"),
        Mistake(
            "bits-for-bytes",
            "That is the number of bits, or eight bytes for each value. A Boolean takes one byte.",
            "64 B",
            see="02-recall",
        ),
    ],
    hints=[
        "Which is the smallest thing in memory that has an address?",
        "Nothing in a torch tensor is smaller than a byte.",
        "Eight values of one byte.",
    ],
)

ADDS_STORAGE = Exercise(
    id="2.3",
    title="Which line needs new storage?",
    notebook="02_dtypes",
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="c",
    options={
        "a": "`W.T`",
        "b": "`W[:, :100]`",
        "c": "`W.to(torch.bfloat16)`",
        "d": "`W[:1].expand(4096, 4096)`",
    },
    mistakes=[
        Mistake("transpose", "A transpose reads the same storage in another order.", "a", see="02-recall"),
        Mistake("slice", "A slice reads a part of the same storage.", "b", see="02-recall"),
        Mistake(
            "expand",
            "An expanded axis has stride 0: it reads the same row again and again.",
            "d",
            see="02-recall",
        ),
    ],
    hints=[
        "A view is another way to read bytes that are there.",
        "Three of the lines choose an offset, sizes and strides. Which one needs other bits?",
        "A value in BF16 has other bits than in FP32, and half as many.",
    ],
)

# -- bits


def factor(bits, exponent_bits):
    fraction = bits[1 + exponent_bits :]
    return 1 + int(fraction, 2) / 2 ** len(fraction)


def random_bits(rng, exponent_bits, fraction_bits, subnormal=False):
    field = 0 if subnormal else rng.randint(1, 2**exponent_bits - 2)
    if exponent_bits > 5 and not subnormal:
        field = 2 ** (exponent_bits - 1) - 1 + rng.randint(-12, 12)
    fraction = rng.randint(1, 2**fraction_bits - 1)
    return rng.choice("01") + f"{field:0{exponent_bits}b}{fraction:0{fraction_bits}b}"


LAYOUTS = ((5, 10), (8, 7), (4, 3), (5, 2), (8, 10), (3, 2), (6, 9))


def draw_factor(rng):
    exponent_bits, fraction_bits = rng.choice(LAYOUTS)
    return {"bits": random_bits(rng, exponent_bits, fraction_bits), "exponent_bits": exponent_bits}


FACTOR = Exercise(
    id="2.4",
    title="The missing row: the fraction's factor",
    notebook="02_dtypes",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=4,
    answer=factor,
    cases=[
        {"bits": "1100000011010000", "exponent_bits": 8},
        {"bits": "0100101010000000", "exponent_bits": 5},
        {"bits": "01000011", "exponent_bits": 4},
        {"bits": "10111110", "exponent_bits": 5},
    ],
    draw=draw_factor,
    case_text="{bits}, {exponent_bits} exponent bits",
    mistakes=[
        Mistake(
            "no-leading-one",
            "You have f/2^m. A normal value has 1 + f/2^m: the leading 1 is not stored.",
            Edit("1 + int", "int"),
            see="02-bits",
        ),
        Mistake(
            "all-ones-divisor",
            "You divided by 2^m − 1. The field's first bit is worth 1/2, so it is f/2^m.",
            Edit("2 ** len(fraction)", "(2 ** len(fraction) - 1)"),
            see="02-bits",
        ),
        Mistake(
            "sign-forgotten",
            "Your fraction begins one bit too early: the sign comes before the exponent's {exponent_bits} bits.",
            Edit("1 + exponent_bits :", "exponent_bits :"),
            see="02-bits",
        ),
        Mistake(
            "always-seven-bits",
            "128 is 2^m for BF16's seven fraction bits. Count those of {bits}.",
            Edit("2 ** len(fraction)", "128"),
            see="02-bits",
        ),
        Mistake(
            "always-ten-bits",
            "1024 is 2^m for FP16's ten fraction bits. Count those of {bits}.",
            Edit("2 ** len(fraction)", "1024"),
            see="02-bits",
        ),
        Mistake(
            "whole-field",
            "The field f is a whole number; as a fraction it is divided by 2^m, m its number of bits.",
            Edit(" / 2 ** len(fraction)", ""),
            see="02-bits",
        ),
        Mistake(
            "cut-too-late",
            "Your fraction begins one bit too late: it starts right behind the exponent's {exponent_bits} bits.",
            Edit("bits[1 + exponent_bits :]", "bits[2 + exponent_bits :]"),
            see="02-bits",
        ),
        Mistake(
            "half-the-divisor",
            "You divided by 2^(m−1). The field's first bit is worth 1/2, so it is f/2^m.",
            Edit("2 ** len(fraction)", "2 ** (len(fraction) - 1)"),
            see="02-bits",
        ),
        Mistake(
            "twice-the-divisor",
            "You divided by 2^(m+1). The field's first bit is worth 1/2, so it is f/2^m.",
            Edit("2 ** len(fraction)", "2 ** (len(fraction) + 1)"),
            see="02-bits",
        ),
        Mistake(
            "read-as-decimal",
            "You read the bits as decimal digits. `int(text, 2)` reads them as a binary number.",
            [Edit("int(fraction, 2)", "int(fraction)"), Edit("2 ** len(fraction)", "10 ** len(fraction)")],
            see="02-bits",
        ),
        Mistake(
            "cut-to-whole",
            "`//` cuts f/2^m to 0. Divide with `/`.",
            Edit(", 2) / 2", ", 2) // 2"),
            see="02-bits",
        ),
        Mistake(
            "backwards",
            "You read the field backwards: its first bit is the largest.",
            Edit("int(fraction, 2)", "int(fraction[::-1], 2)"),
            see="02-bits",
        ),
        Mistake(
            "with-the-sign",
            "You multiplied by the sign. It is a factor of its own in the table; the fraction's is positive.",
            Edit(
                "return 1 + int(fraction, 2) / 2 ** len(fraction)",
                "return (-1) ** int(bits[0]) * (1 + int(fraction, 2) / 2 ** len(fraction))",
            ),
            see="02-bits",
        ),
        Mistake(
            "exponent-for-fraction",
            "You divided by 2 to the exponent's width. It is the fraction's number of bits that counts.",
            Edit("2 ** len(fraction)", "2**exponent_bits"),
            see="02-bits",
        ),
        Mistake(
            "whole-value",
            "You returned the whole value. The blank row holds the factor of the fraction alone.",
            Edit(
                "return 1 + int(fraction, 2) / 2 ** len(fraction)",
                "return (-1) ** int(bits[0]) * (1 + int(fraction, 2) / 2 ** len(fraction)) * 2.0 ** (int(bits[1 : 1 + exponent_bits], 2) - 2 ** (exponent_bits - 1) + 1)",
            ),
            see="02-bits",
        ),
    ],
    hints=[
        "Cut the text: one bit of sign, `exponent_bits` of exponent, the rest is the fraction.",
        '`int("101", 2)` is 5. With three bits that is the fraction 5/8, and the factor 1 + 5/8.',
        "`fraction = bits[1 + exponent_bits:]`, and the factor is `1 + int(fraction, 2) / 2**len(fraction)`.",
    ],
)


def decode_bits(bits, exponent_bits):
    sign = -1 if bits[0] == "1" else 1
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = bits[1 + exponent_bits :]
    part = int(fraction, 2) / 2 ** len(fraction)
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent == 0:
        return sign * part * 2.0 ** (1 - bias)
    return sign * (1 + part) * 2.0 ** (exponent - bias)


def draw_decode(rng):
    exponent_bits, fraction_bits = rng.choice(LAYOUTS)
    subnormal = rng.random() < 0.35
    return {"bits": random_bits(rng, exponent_bits, fraction_bits, subnormal), "exponent_bits": exponent_bits}


DECODE = Exercise(
    id="2.5",
    title="Decode bits by hand",
    notebook="02_dtypes",
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    answer=decode_bits,
    cases=[
        {"bits": "1100000011010000", "exponent_bits": 8},
        {"bits": "0100101010000000", "exponent_bits": 5},
        {"bits": "0000000000010110", "exponent_bits": 5},
        {"bits": "10000101", "exponent_bits": 4},
        {"bits": "01001110", "exponent_bits": 5},
    ],
    draw=draw_decode,
    case_text="{bits}, {exponent_bits} exponent bits",
    mistakes=[
        Mistake(
            "no-leading-one",
            "You left out the leading 1 that a normal value has and does not store: 1 + f/2^m.",
            Edit("(1 + part)", "part"),
            see="02-bits",
        ),
        Mistake(
            "subnormal-as-normal",
            "In {bits} the exponent field is 0. Such a value, a subnormal, has no leading 1 and the exponent "
            "1 − bias.",
            Edit("exponent == 0", "exponent == -1"),
            see="02-subnormal",
        ),
        Mistake(
            "subnormal-exponent",
            "Subnormals have the exponent 1 − bias, as the smallest normals have; with −bias there would be a "
            "gap between them.",
            Edit("2.0 ** (1 - bias)", "2.0 ** (-bias)"),
            see="02-subnormal",
        ),
        Mistake(
            "bias-not-less-one",
            "Your bias is one too high. With {exponent_bits} exponent bits it is 2^({exponent_bits} − 1) − 1.",
            Edit("(exponent_bits - 1) - 1", "(exponent_bits - 1)"),
            see="02-bits",
        ),
        Mistake(
            "bias-of-all-bits",
            "Your bias is the largest number that the exponent's bits can hold. It is the one in their middle: "
            "2^({exponent_bits} − 1) − 1.",
            Edit("2 ** (exponent_bits - 1) - 1", "2**exponent_bits - 1"),
            see="02-bits",
        ),
        Mistake(
            "always-bf16-bias",
            "127 is the bias of eight exponent bits, as in FP32 and BF16. Here there are {exponent_bits}.",
            Edit("2 ** (exponent_bits - 1) - 1", "127"),
            see="02-bits",
        ),
        Mistake(
            "always-fp16-bias",
            "15 is the bias of five exponent bits, as in FP16. Here there are {exponent_bits}.",
            Edit("2 ** (exponent_bits - 1) - 1", "15"),
            see="02-bits",
        ),
        Mistake(
            "no-bias",
            "You took the stored exponent as it stands. It is stored with the bias added.",
            [Edit("(exponent - bias)", "exponent"), Edit("(1 - bias)", "1")],
            see="02-bits",
        ),
        Mistake(
            "no-sign",
            "{bits} begins with 1: the value is negative.",
            Edit('-1 if bits[0] == "1" else 1', "1"),
            see="02-bits",
        ),
        Mistake(
            "cut-too-early",
            "You cut one bit too early: after the sign come {exponent_bits} bits of exponent, to index "
            "1 + {exponent_bits}.",
            [
                Edit("bits[1 : 1 + exponent_bits]", "bits[1:exponent_bits]"),
                Edit("bits[1 + exponent_bits :]", "bits[exponent_bits:]"),
            ],
            see="02-bits",
        ),
        Mistake(
            "all-ones-divisor",
            "You divided f by 2^m − 1. The field's first bit is worth 1/2, so it is f/2^m.",
            Edit("2 ** len(fraction)", "(2 ** len(fraction) - 1)"),
            see="02-bits",
        ),
        Mistake(
            "subnormals-are-zero",
            "You made every code with the exponent field 0 a zero. Those with a fraction are subnormals, part · 2^(1 − bias).",
            Edit("return sign * part * 2.0 ** (1 - bias)", "return 0.0"),
            see="02-bits",
        ),
        Mistake(
            "half-the-divisor",
            "You divided by 2^(m−1). The field's first bit is worth 1/2, so it is f/2^m.",
            Edit("2 ** len(fraction)", "2 ** (len(fraction) - 1)"),
            see="02-bits",
        ),
        Mistake(
            "always-negative",
            "Your value is negative whatever the first bit is. {bits} begins with 0.",
            Edit('-1 if bits[0] == "1" else 1', "-1"),
            see="02-bits",
        ),
        Mistake(
            "cut-to-whole",
            "`//` cuts f/2^m to 0. Divide with `/`.",
            Edit(", 2) / 2", ", 2) // 2"),
            see="02-bits",
        ),
    ],
    hints=[
        "Three pieces: the sign, the stored exponent e, the fraction field f with its m bits.",
        "The bias is 2^(E − 1) − 1 for E exponent bits. Two rules: one for e = 0, one for all others.",
        "(−1)^s · (1 + f/2^m) · 2^(e − bias), or (−1)^s · f/2^m · 2^(1 − bias) where e = 0.",
    ],
)

# -- range


def spacing_at(value, exponent_bits, fraction_bits):
    exponent = math.frexp(value)[1] - 1
    lowest = 2 - 2 ** (exponent_bits - 1)
    return 2.0 ** (max(exponent, lowest) - fraction_bits)


def proportional(value, exponent_bits, fraction_bits):
    return abs(value) / 2**fraction_bits


def log_of_negative(value, exponent_bits, fraction_bits):
    exponent = math.floor(math.log2(value))
    return 2.0 ** (max(exponent, 2 - 2 ** (exponent_bits - 1)) - fraction_bits)


def draw_spacing(rng):
    exponent_bits, fraction_bits = rng.choice(LAYOUTS)
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = lowest - rng.randint(1, 3) if rng.random() < 0.35 else rng.randint(max(lowest, -9), 3)
    return {
        "value": rng.choice((-1, 1)) * rng.choice((1.0, 1.3125, 1.75)) * 2.0**exponent,
        "exponent_bits": exponent_bits,
        "fraction_bits": fraction_bits,
    }


SPACING = Exercise(
    id="2.6",
    title="Spacing at a value",
    notebook="02_dtypes",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=7,
    answer=spacing_at,
    cases=[
        {"value": 480.0, "exponent_bits": 8, "fraction_bits": 7},
        {"value": -0.3125, "exponent_bits": 5, "fraction_bits": 10},
        {"value": 64.0, "exponent_bits": 5, "fraction_bits": 2},
        {"value": 0.0029296875, "exponent_bits": 4, "fraction_bits": 3},
        {"value": -1.1920928955078125e-07, "exponent_bits": 5, "fraction_bits": 10},
    ],
    draw=draw_spacing,
    case_text="{value} with {exponent_bits} exponent and {fraction_bits} fraction bits",
    mistakes=[
        Mistake(
            "no-subnormals",
            "{value} is below the smallest normal value. From there down to 0 the spacing stays what it is at "
            "the smallest normal.",
            Edit("max(exponent, lowest)", "exponent"),
            see="02-subnormal",
        ),
        Mistake(
            "at-one",
            "That is the spacing at 1. It doubles with each power of two that |value| passes.",
            Edit("max(exponent, lowest) - fraction_bits", "-fraction_bits"),
            see="02-spacing",
        ),
        Mistake(
            "proportional",
            "You took |value|·2^−m. The spacing is the same from one power of two to the next: "
            "2^(floor(log2 |value|) − m).",
            proportional,
            see="02-spacing",
        ),
        Mistake(
            "log-of-negative",
            "A negative value has no logarithm: take that of |value|.",
            log_of_negative,
            see="02-spacing",
        ),
        Mistake(
            "next-power",
            "Your spacing is twice too large: take the power of two at or below |value|, not the one above.",
            Edit("[1] - 1", "[1]"),
            see="02-spacing",
        ),
        Mistake(
            "lowest-off-by-one",
            "The smallest normal value is 2^(1 − bias); you took 2^(−bias).",
            Edit("2 - 2 **", "1 - 2 **"),
            see="02-subnormal",
        ),
        Mistake(
            "half-the-spacing",
            "That is half the spacing: what is added must exceed it. Asked for is the distance to the next value.",
            Edit("- fraction_bits)", "- fraction_bits - 1)"),
            see="02-subnormal",
        ),
        Mistake(
            "next-value",
            "That is the next value itself. Asked for is the distance to it.",
            Edit("return 2.0", "return abs(value) + 2.0"),
            see="02-subnormal",
        ),
        Mistake(
            "sign-kept",
            "Your spacing is negative for a negative value; a distance is not.",
            Edit("return 2.0", "return (-1.0 if value < 0 else 1.0) * 2.0"),
            see="02-subnormal",
        ),
        Mistake(
            "min-for-max",
            "You took the smaller of the two exponents. Below the smallest normal value the spacing stays: the larger one.",
            Edit("max(", "min("),
            see="02-subnormal",
        ),
        Mistake(
            "divided-by-bits",
            "You divided by the number of fraction bits; the spacing is divided by 2 for each of them.",
            Edit(
                "2.0 ** (max(exponent, lowest) - fraction_bits)",
                "2.0 ** max(exponent, lowest) / fraction_bits",
            ),
            see="02-subnormal",
        ),
    ],
    hints=[
        "Between 2^e and 2^(e+1) there are 2^m equal steps. How long is one?",
        "The step is 2^(e − m) with e = floor(log2 |value|). And e is never below 1 − bias.",
        "`math.frexp(value)[1] - 1` is e; 1 − bias is `2 - 2**(exponent_bits - 1)`.",
    ],
)

# -- the stalled sum


def stalls_at(step, fraction_bits):
    return 2.0 ** (math.ceil(math.log2(step)) + fraction_bits + 1)


def draw_stall(rng):
    whole = rng.choice((1, 1, 2, 3, 5, 6, 7, 8))
    return {"step": whole * 2.0 ** rng.randint(-9, 3), "fraction_bits": rng.choice((3, 7, 10, 23))}


STALL = Exercise(
    id="2.7",
    title="Where a running sum stalls",
    notebook="02_dtypes",
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=6,
    answer=stalls_at,
    cases=[
        {"step": 1.0, "fraction_bits": 7},
        {"step": 3.0, "fraction_bits": 7},
        {"step": 0.25, "fraction_bits": 10},
        {"step": 0.3125, "fraction_bits": 3},
        {"step": 5.0, "fraction_bits": 23},
        {"step": 0.0234375, "fraction_bits": 3},
    ],
    draw=draw_stall,
    case_text="adding {step} with {fraction_bits} fraction bits",
    mistakes=[
        Mistake(
            "spacing-not-half",
            "At your value the spacing is not yet twice the step, so the sum still moves. It is lost once it is "
            "at most half of the spacing.",
            Edit(" + 1)", ")"),
            see="02-stall",
        ),
        Mistake(
            "tie-moves",
            "You let a step of exactly half the spacing through. It is a tie, and a tie goes to the even code: "
            "the power of two where the sum stands.",
            Edit("math.ceil(math.log2(step))", "(math.floor(math.log2(step)) + 1)"),
            see="02-half",
        ),
        Mistake(
            "power-below",
            "At your value half the spacing is still smaller than the step of {step}: round log2 of the step "
            "up, not down.",
            Edit("math.ceil", "math.floor"),
            see="02-stall",
        ),
        Mistake(
            "proportional",
            "The sum stalls where the spacing changes, and that is at powers of two. {got} is none.",
            Edit(
                "2.0 ** (math.ceil(math.log2(step)) + fraction_bits + 1)", "step * 2.0 ** (fraction_bits + 1)"
            ),
            see="02-spacing",
        ),
        Mistake(
            "step-ignored",
            "You answered for a step of 1. Here it is {step}.",
            Edit("math.ceil(math.log2(step)) + ", ""),
            see="02-stall",
        ),
        Mistake(
            "count-not-sum",
            "That is the number of additions; the sum is asked for, {step} times as large.",
            Edit(
                "2.0 ** (math.ceil(math.log2(step)) + fraction_bits + 1)",
                "2.0 ** (math.ceil(math.log2(step)) + fraction_bits + 1) / step",
            ),
            see="02-stall",
        ),
        Mistake(
            "twice-too-high",
            "That is twice too high: at half of it the step is half the spacing, which is lost already.",
            Edit("fraction_bits + 1", "fraction_bits + 2"),
            see="02-stall",
        ),
        Mistake(
            "exponent-only",
            "That is the exponent. The sum is 2 to that power.",
            Edit(
                "return 2.0 ** (math.ceil(math.log2(step)) + fraction_bits + 1)",
                "return math.ceil(math.log2(step)) + fraction_bits + 1",
            ),
            see="02-stall",
        ),
        Mistake(
            "to-the-nearest",
            "You rounded log2 of the step to the nearest whole number. Half the spacing must reach the step: round up.",
            Edit("math.ceil(math.log2(step))", "round(math.log2(step))"),
            see="02-stall",
        ),
        Mistake(
            "one-step-before",
            "That is one step before: the sum still moves from there, once more.",
            Edit(
                "return 2.0 ** (math.ceil(math.log2(step)) + fraction_bits + 1)",
                "return 2.0 ** (math.ceil(math.log2(step)) + fraction_bits + 1) - step",
            ),
            see="02-stall",
        ),
        Mistake(
            "never-below-one",
            "You started to look at 1, so a small step stalls there. It stalls below.",
            Edit(
                "return 2.0 ** (math.ceil(math.log2(step)) + fraction_bits + 1)",
                "return max(1.0, 2.0 ** (math.ceil(math.log2(step)) + fraction_bits + 1))",
            ),
            see="02-stall",
        ),
        Mistake(
            "step-cut-to-whole",
            "You cut the step to a whole number.",
            Edit("math.log2(step)", "math.log2(max(1, int(step)))"),
            see="02-stall",
        ),
    ],
    hints=[
        "The sum stalls at the first value whose spacing is at least twice the step.",
        "At 2^k the spacing is 2^(k − m). Which is the smallest whole k with 2^(k − m) ≥ 2·step?",
        "k = m + 1 + ceil(log2 step), and the answer is 2^k.",
    ],
)

# -- loss scaling


def largest_scale(gradients, largest):
    amax = max(abs(gradient) for gradient in gradients)
    return 2.0 ** math.floor(math.log2(largest / amax))


def draw_scale(rng):
    exponent = rng.choice(
        (rng.randint(-24, -12), rng.randint(-11, 4), rng.randint(8, 12))
    )  # S above and below 1
    gradients = [
        rng.choice((-1, 1)) * rng.randint(8, 15) * 2.0 ** (exponent - rng.randint(0, 9))
        for _ in range(rng.randint(3, 6))
    ]
    gradients[rng.randrange(len(gradients))] = -15 * 2.0**exponent
    return {"gradients": gradients, "largest": rng.choice((65504.0, 448.0, 57344.0, 240.0))}


SCALE = Exercise(
    id="2.8",
    title="The largest loss scale without overflow",
    notebook="02_dtypes",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=5,
    answer=largest_scale,
    cases=[
        {"gradients": [0.0003, -0.002, 0.0011], "largest": 65504.0},
        {"gradients": [-9.0, 0.5, 1.25, 2.0], "largest": 57344.0},
        {"gradients": [1.75, 0.125], "largest": 448.0},
        {"gradients": [900.0, -20.0, 310.0], "largest": 240.0},
        {"gradients": [1.5, -0.25], "largest": 57344.0},
    ],
    draw=draw_scale,
    case_text="gradients {gradients}, largest {largest}",
    mistakes=[
        Mistake(
            "sign-forgotten",
            "The largest gradient by magnitude is negative here: take absolute values first.",
            Edit("abs(gradient)", "gradient"),
            see="02-scaler",
        ),
        Mistake(
            "by-the-smallest",
            "You chose the scale by the smallest gradient; the largest one then overflows.",
            Edit("max(", "min("),
            see="02-scaler",
        ),
        Mistake(
            "rounded-up",
            "With your scale the largest gradient is above {largest}: the next smaller power of two.",
            Edit("math.floor", "math.ceil"),
            see="02-scaler",
        ),
        Mistake(
            "no-power",
            "That is the largest scale of all. Asked for is a power of two, so that scaling rounds nothing.",
            Edit("2.0 ** math.floor(math.log2(largest / amax))", "largest / amax"),
            see="02-scaling",
        ),
        Mistake(
            "one-too-small",
            "Twice your scale still fits: a product may be as large as {largest} itself.",
            Edit("math.floor(math.log2(largest / amax))", "(math.ceil(math.log2(largest / amax)) - 1)"),
            see="02-scaler",
        ),
        Mistake(
            "cut-towards-zero",
            "`int` cuts off towards 0. Below 1 the logarithm is negative, and that rounds the scale up: use floor.",
            Edit("math.floor(", "int("),
            see="02-ex8-prompt",
        ),
        Mistake(
            "never-below-one",
            "A scale may be below 1: here the largest gradient exceeds {largest} as it is.",
            Edit(
                "2.0 ** math.floor(math.log2(largest / amax))",
                "max(1.0, 2.0 ** math.floor(math.log2(largest / amax)))",
            ),
            see="02-ex8-prompt",
        ),
        Mistake(
            "only-halved",
            "65,536 is where GradScaler starts. A larger power of two fits here.",
            Edit(
                "2.0 ** math.floor(math.log2(largest / amax))",
                "min(65536.0, 2.0 ** math.floor(math.log2(largest / amax)))",
            ),
            see="02-scaler",
        ),
        Mistake(
            "exponent-only",
            "That is the exponent. The scale is 2 to that power.",
            Edit("2.0 ** math", "math"),
            see="02-scaling",
        ),
        Mistake(
            "upside-down",
            "That is one over the scale: what the gradients are multiplied by afterwards.",
            Edit("return 2.0 **", "return 2.0 ** -"),
            see="02-scaler",
        ),
        Mistake(
            "always-fp16",
            "You took FP16's 65,504 whatever was given. Here the largest value is {largest}.",
            Edit("largest / amax", "65504 / amax"),
            see="02-scaler",
        ),
        Mistake(
            "half", "Twice your scale still fits.", Edit("return 2.0", "return 0.5 * 2.0"), see="02-scaler"
        ),
        Mistake(
            "to-the-nearest",
            "You rounded the exponent to the nearest whole number. Upwards, the largest gradient overflows: use floor.",
            Edit("math.floor(", "round("),
            see="02-scaler",
        ),
    ],
    hints=[
        "Which gradient overflows first?",
        "scale · max |g| ≤ largest. The largest such number is a quotient; then down to a power of two.",
        "`2.0 ** math.floor(math.log2(largest / max(abs(g) for g in gradients)))`",
    ],
)

# -- autocast


def cast_weight_bytes(widths):
    kept = 0
    for d_in, d_out in zip(widths[1:-1], widths[2:], strict=True):
        kept += 2 * d_in * d_out
    return kept


def draw_widths(rng):
    return {"widths": rng.sample((3, 5, 7, 11, 13, 64, 100), rng.randint(3, 6))}


CASTS = Exercise(
    id="2.9",
    title="The missing row: copies of weights",
    notebook="02_dtypes",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=4,
    unit="B",
    answer=cast_weight_bytes,
    cases=[
        {"widths": [64, 256, 10]},
        {"widths": [3, 5, 7, 11]},
        {"widths": [13, 2]},
    ],
    draw=draw_widths,
    case_text="widths {widths}",
    mistakes=[
        Mistake(
            "first-layer-too",
            "You kept a copy for the first layer too. Only the gradient of a layer's input reads its weights, "
            "and nobody asks for the gradient of the data.",
            Edit("zip(widths[1:-1], widths[2:], strict=True)", "zip(widths[:-1], widths[1:], strict=True)"),
            see="02-kept",
        ),
        Mistake(
            "fp32-copies",
            "You gave each value four bytes. The copies that autocast makes are BF16.",
            Edit("2 * d_in", "4 * d_in"),
            see="02-kept",
        ),
        Mistake(
            "elements-only",
            "Those are elements; each takes two bytes.",
            Edit("2 * d_in", "d_in"),
            see="02-kept",
        ),
        Mistake(
            "last-layer-left-out",
            "The last layer is the one that is certainly kept. It is the first that can be left out.",
            Edit("zip(widths[1:-1], widths[2:], strict=True)", "zip(widths[:-2], widths[1:-1], strict=True)"),
            see="02-kept",
        ),
        Mistake(
            "last-alone",
            "You kept the last layer's copy alone. Every layer but the first has one.",
            Edit(
                "zip(widths[1:-1], widths[2:], strict=True)",
                "[(widths[-2], widths[-1])] if len(widths) > 2 else []",
            ),
            see="02-kept",
        ),
        Mistake(
            "two-layers-left-out",
            "You left out two layers. Only the first needs no copy.",
            Edit("zip(widths[1:-1], widths[2:], strict=True)", "zip(widths[2:-1], widths[3:], strict=True)"),
            see="02-kept",
        ),
        Mistake(
            "first-and-last-left-out",
            "You left out the first layer and the last. Only the first needs no copy.",
            Edit(
                "zip(widths[1:-1], widths[2:], strict=True)", "zip(widths[1:-2], widths[2:-1], strict=True)"
            ),
            see="02-kept",
        ),
        Mistake(
            "with-biases",
            "You counted a bias for every output. These layers have none.",
            Edit("* d_in * d_out", "* (d_in + 1) * d_out"),
            see="02-kept",
        ),
        Mistake(
            "bits-for-bytes",
            "That is in bits; each value takes two bytes.",
            Edit("2 * d_in", "16 * d_in"),
            see="02-kept",
        ),
        Mistake(
            "with-the-parameters",
            "You counted the FP32 weights beside their copies. They are parameters, stored anyway.",
            Edit("2 * d_in", "6 * d_in"),
            see="02-kept",
        ),
    ],
    hints=[
        "Which of a layer's two backward products needs its weights?",
        "dX = G·Wᵀ needs them, in every layer but the first: its input is data.",
        "Add 2 · d_in · d_out for every pair of neighbours in `widths` but the first pair.",
    ],
)

AUTOCAST_BUDGET = Exercise(
    id="2.10",
    title="Autocast on: which budget changed?",
    notebook="02_dtypes",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="b",
    options={
        "a": "Storage of the model states: weights, gradients and moments are BF16 now, 8 bytes instead of 16.",
        "b": "Storage of activations and the bytes that products move: both are BF16. The states stay at 16 bytes.",
        "c": "Arithmetic: a product in BF16 has half as many FLOPs.",
        "d": "None: autocast changes only what `dtype` says.",
    },
    mistakes=[
        Mistake(
            "states-halve",
            "You inspected them: parameters, gradients and moments were float32 after an autocast step.",
            "a",
            see="02-step-dtypes",
        ),
        Mistake(
            "flops-halve",
            "A product has as many multiplications and additions in any format. A GPU may do more of them per second.",
            "c",
            see="02-autocast",
        ),
        Mistake(
            "nothing",
            "The linear layer's output was bfloat16, and what was kept for backward took half the bytes.",
            "d",
            see="02-kept-measure",
        ),
    ],
    hints=[
        "Go through the parts of a step: parameters, activations, gradients, moments. Which had another dtype?",
        "Operations run in BF16, so what goes into them and comes out of them is BF16.",
        "What is kept for backward went from 51,200 B to 25,600 B; the states did not change.",
    ],
)

# -- eight bits and fewer


def largest_value(exponent_bits, fraction_bits, specials):
    field = 2**exponent_bits - 1
    fraction = 2**fraction_bits - 1
    if specials == "ieee":
        field -= 1
    if specials == "nan":
        fraction -= 1
    bias = 2 ** (exponent_bits - 1) - 1
    return (1 + fraction / 2**fraction_bits) * 2.0 ** (field - bias)


def draw_largest(rng):
    exponent_bits, fraction_bits = rng.choice(
        ((4, 3), (5, 2), (3, 4), (2, 3), (5, 10), (3, 2), (2, 1), (6, 1))
    )
    return {
        "exponent_bits": exponent_bits,
        "fraction_bits": fraction_bits,
        "specials": rng.choice(("ieee", "nan", "none")),
    }


LARGEST = Exercise(
    id="2.11",
    title="The largest value of any format",
    notebook="02_dtypes",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=7,
    answer=largest_value,
    cases=[
        {"exponent_bits": 5, "fraction_bits": 10, "specials": "ieee"},
        {"exponent_bits": 4, "fraction_bits": 3, "specials": "nan"},
        {"exponent_bits": 2, "fraction_bits": 1, "specials": "none"},
        {"exponent_bits": 3, "fraction_bits": 4, "specials": "ieee"},
    ],
    draw=draw_largest,
    case_text="{exponent_bits} exponent and {fraction_bits} fraction bits, specials {specials}",
    mistakes=[
        Mistake(
            "always-ieee",
            'You gave up the whole top exponent, as IEEE formats do. With specials = "{specials}" it holds values.',
            [Edit('if specials == "ieee":', "if True:"), Edit('if specials == "nan":', "if False:")],
            see="02-e4m3",
        ),
        Mistake(
            "no-specials",
            'You gave no code away. With specials = "{specials}" some of the top codes are no numbers.',
            [Edit('if specials == "ieee":', "if False:"), Edit('if specials == "nan":', "if False:")],
            see="02-e4m3",
        ),
        Mistake(
            "nan-forgotten",
            'With "nan" the code of all ones is NaN, so the largest value has a fraction one smaller.',
            Edit('if specials == "nan":', "if False:"),
            see="02-e4m3",
        ),
        Mistake(
            "power-only",
            "That is the largest power of two. The fraction adds to it.",
            Edit("(1 + fraction / 2**fraction_bits)", "1"),
            see="02-bits",
        ),
        Mistake(
            "rounded-to-two",
            "You took 2 for the factor in front. With {fraction_bits} fraction bits it is smaller.",
            Edit("(1 + fraction / 2**fraction_bits)", "2"),
            see="02-bits",
        ),
        Mistake(
            "bias-not-less-one",
            "Your bias is one too high. With {exponent_bits} exponent bits it is 2^({exponent_bits} − 1) − 1.",
            Edit("(exponent_bits - 1) - 1", "(exponent_bits - 1)"),
            see="02-bits",
        ),
        Mistake(
            "nan-as-ieee",
            'With "nan" the top exponent holds values; only the code of all ones is none. You gave all of it up.',
            Edit(
                '    if specials == "nan":\n        fraction -= 1',
                '    if specials == "nan":\n        field -= 1',
            ),
            see="02-e4m3",
        ),
        Mistake(
            "no-leading-one",
            "You left out the leading 1 of a normal value: 1 + f/2^m.",
            Edit("(1 + fraction /", "(fraction /"),
            see="02-e4m3",
        ),
        Mistake(
            "no-bias",
            "You took the stored exponent as it stands; the bias is taken off.",
            Edit("(field - bias)", "field"),
            see="02-e4m3",
        ),
        Mistake(
            "exponent-too-high",
            "Your exponent is one too high. The field of all ones is 2^{exponent_bits} − 1, and the bias is taken off.",
            Edit("2**exponent_bits - 1", "2**exponent_bits"),
            see="02-e4m3",
        ),
        Mistake(
            "a-bit-too-many",
            "You took one fraction bit too many.",
            Edit(
                "    field = 2**exponent_bits - 1", "    fraction_bits += 1\n    field = 2**exponent_bits - 1"
            ),
            see="02-e4m3",
        ),
        Mistake(
            "a-bit-too-few",
            "You took one fraction bit too few.",
            Edit(
                "    field = 2**exponent_bits - 1", "    fraction_bits -= 1\n    field = 2**exponent_bits - 1"
            ),
            see="02-e4m3",
        ),
    ],
    hints=[
        "Start from the code of all ones and take away what is no number.",
        '"ieee" takes the top exponent away, "nan" one fraction of it, "none" nothing.',
        "(1 + f/2^m)·2^(e − bias), with e one smaller for ieee and f one smaller for nan.",
    ],
)


def scale_bytes(rows, columns, block, scale_bits):
    blocks = rows * -(-columns // block)
    return blocks * scale_bits // 8


def draw_scales(rng):
    block = rng.choice((16, 32, 128))
    rows = rng.choice((3, 5, 11, 64, 100))
    return {
        "rows": rows,
        "columns": block * rng.randint(1, 40) + rng.choice((0, 1, 7, 12)),
        "block": block,
        "scale_bits": rng.choice((8, 16, 32) if rows % 2 else (4, 8, 16, 32)),  # whole bytes
    }


SCALES = Exercise(
    id="2.12",
    title="The missing row: scales",
    notebook="02_dtypes",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=4,
    unit="B",
    answer=scale_bytes,
    cases=[
        {"rows": 3, "columns": 100, "block": 32, "scale_bits": 8},
        {"rows": 5, "columns": 64, "block": 16, "scale_bits": 16},
        {"rows": 11, "columns": 130, "block": 128, "scale_bits": 32},
        {"rows": 2, "columns": 48, "block": 16, "scale_bits": 4},
    ],
    draw=draw_scales,
    case_text="{rows} × {columns}, blocks of {block}, scales of {scale_bits} bits",
    mistakes=[
        Mistake(
            "full-blocks-only",
            "{columns} values are not a whole number of blocks of {block}: the rest of a row has a scale too.",
            Edit("-(-columns // block)", "(columns // block)"),
            see="02-ex12-prompt",
        ),
        Mistake(
            "across-rows",
            "You let blocks run on from one row into the next. A block lies within its row, which the products "
            "sum along.",
            Edit("rows * -(-columns // block)", "-(-rows * columns // block)"),
            see="02-ex12-prompt",
        ),
        Mistake(
            "bits-for-bytes",
            "That is in bits; eight of them are a byte.",
            Edit(" // 8", ""),
            see="02-bits-per-value",
        ),
        Mistake(
            "always-a-byte",
            "You gave each scale one byte, as in the MX formats. Here it has {scale_bits} bits.",
            Edit(" * scale_bits // 8", ""),
            see="02-bits-per-value",
        ),
        Mistake(
            "one-for-each-row",
            "That is one scale for each row.",
            Edit("-(-columns // block)", "1"),
            see="02-blocks",
        ),
        Mistake("one-row", "That is one of the {rows} rows.", Edit("rows * -", "-"), see="02-blocks"),
        Mistake(
            "part-of-a-scale",
            "You counted a part of a scale for the rest of a row. A block that is not full has a whole one.",
            [Edit("-(-columns // block)", "columns / block"), Edit("scale_bits // 8", "scale_bits / 8")],
            see="02-ex12-prompt",
        ),
        Mistake(
            "along-columns",
            "You cut the columns into blocks. They run along the rows.",
            Edit("rows * -(-columns // block)", "columns * -(-rows // block)"),
            see="02-ex12-prompt",
        ),
        Mistake(
            "with-elements",
            "That is the total. The blank row holds the scales alone.",
            Edit(
                "return blocks * scale_bits // 8", "return rows * columns * 4 // 8 + blocks * scale_bits // 8"
            ),
            see="02-ex12-prompt",
        ),
        Mistake(
            "always-one-more",
            "Where a row is a whole number of blocks, yours has a scale too many.",
            Edit("-(-columns // block)", "(columns // block + 1)"),
            see="02-ex12-prompt",
        ),
        Mistake(
            "scale-as-element",
            "You gave a scale four bits, like an element. It has {scale_bits}.",
            Edit("* scale_bits //", "* 4 //"),
            see="02-ex12-prompt",
        ),
        Mistake(
            "whole-bytes",
            "You cut a scale's bits to whole bytes before you multiplied: {scale_bits} bits are not a whole number of bytes.",
            Edit("blocks * scale_bits // 8", "blocks * (scale_bits // 8)"),
            see="02-ex12-prompt",
        ),
    ],
    hints=[
        "How many blocks has one row, the one that is not full among them?",
        "columns / block, rounded up; `-(-a // b)` rounds up.",
        "rows · ceil(columns / block) · scale_bits / 8.",
    ],
)


def quantize_blocks(values, block, element):
    top = math.floor(math.log2(largest(element).value))
    elements, scales = [], []
    for start in range(0, len(values), block):
        part = values[start : start + block]
        amax = max(abs(value) for value in part)
        scale = 2.0 ** (math.floor(math.log2(amax)) - top)
        scales.append(scale)
        elements += [rounded(value / scale, element, saturate=True) for value in part]
    return elements, scales


def fitted_scale(values, block, element):
    elements, scales = [], []
    for start in range(0, len(values), block):
        part = values[start : start + block]
        scale = max(abs(value) for value in part) / float(largest(element).value)
        scales.append(scale)
        elements += [rounded(value / scale, element, saturate=True) for value in part]
    return elements, scales


def swapped(values, block, element):
    elements, scales = quantize_blocks(values, block, element)
    return scales, elements


def only_values(values, block, element):
    elements, scales = quantize_blocks(values, block, element)
    return [element * scales[i // block] for i, element in enumerate(elements)]


def draw_quantize(rng):
    columns = rng.choice((5, 7, 11))
    values = [
        [
            rng.choice((-1, 1)) * rng.randint(1, 255) * 2.0 ** (rng.randint(-3, 3) * (column // 3) - 8)
            for column in range(columns)
        ]
        for _ in range(rng.randint(2, 3))
    ]
    for row in values:
        row[0] = -251 * 2.0 ** rng.randint(
            -9, -5
        )  # the largest of its block is negative, and cut off in E2M1
    return {
        "values": {"array": values, "dtype": "float32"},
        "block": rng.choice((2, 3, 4)),
        "element": rng.choice(("fp4_e2m1", "fp8_e4m3", "fp8_e5m2", "fp6_e2m3")),
    }


QUANTIZE = Exercise(
    id="2.13",
    title="A block quantizer",
    notebook="02_dtypes",
    kind="driver",
    driver="block_quantizer",
    level="core",
    difficulty="steady",
    points=4,
    minutes=8,
    answer=quantize_blocks,
    cases=[
        {
            "values": {
                "array": [
                    [0.9, -0.35, 0.1, -0.62, 0.48, 0.05, -0.2],
                    [0.02, 5.5, -7.75, 0.3, 1.2, -3.1, 0.7],
                ],
                "dtype": "float32",
            },
            "block": 4,
            "element": "fp4_e2m1",
        },
        {
            "values": {
                "array": [
                    [-0.0013, 0.004, 0.0021, 250.0, -31.0],
                    [1.0, 0.99, 0.5, -0.26, 0.03],
                    [-497.0, 3.0, 7.0, 0.6, -0.8],
                ],
                "dtype": "float32",
            },
            "block": 3,
            "element": "fp8_e4m3",
        },
        {
            "values": {"array": [[0.31, -0.04, 0.6, 0.17, 0.085]], "dtype": "float32"},
            "block": 2,
            "element": "fp8_e5m2",
        },
    ],
    draw=draw_quantize,
    case_text="blocks of {block} in {element}",
    mistakes=[
        Mistake(
            "one-scale",
            "You scaled every block by the largest magnitude of the whole row. Each block of {block} has its own.",
            Edit("for value in part)", "for value in values)"),
            see="02-blocks",
        ),
        Mistake(
            "sign-forgotten",
            "You took the largest value of a block; a negative one can have the larger magnitude.",
            Edit("abs(value)", "value"),
            see="02-quantize-scale",
        ),
        Mistake(
            "no-top",
            "Your scale brings the largest value of a block to between 1 and 2. {element} goes further: its largest "
            "power of two is to be used.",
            Edit(" - top)", ")"),
            see="02-quantize-scale",
        ),
        Mistake(
            "rounded-up",
            "You rounded log2 of the largest magnitude up. The rule rounds down, and what then exceeds the "
            "largest element is cut off.",
            Edit("2.0 ** (math.floor(", "2.0 ** (math.ceil("),
            see="02-quantize-scale",
        ),
        Mistake(
            "fitted-scale",
            "Your scale is the largest magnitude over the largest element. Here it is to be a power of two.",
            fitted_scale,
            see="02-quantize-scale",
        ),
        Mistake(
            "last-block-dropped",
            "The last block of a row, which is not full, is missing.",
            Edit("len(values), block", "len(values) - block + 1, block"),
            see="02-ex13-prompt",
        ),
        Mistake(
            "not-rounded",
            "Your elements are value / scale as it came; they have to be rounded to {element}.",
            Edit("rounded(value / scale, element, saturate=True)", "value / scale"),
            see="02-quantize-round",
        ),
        Mistake(
            "scaled-back",
            "You returned the values already multiplied by their scale. The elements are asked for, before that.",
            Edit(
                "rounded(value / scale, element, saturate=True)",
                "rounded(value / scale, element, True) * scale",
            ),
            see="02-quantize-round",
        ),
        Mistake(
            "swapped",
            "You returned the scales first. Asked for are (elements, scales), in this order.",
            swapped,
            see="02-ex13-prompt",
        ),
        Mistake(
            "only-values",
            "You returned what is left of the values. Asked for are two lists, the elements and the scales.",
            only_values,
            see="02-ex13-prompt",
        ),
        Mistake(
            "multiplied",
            "You multiplied by the scale. An element is the value over the scale.",
            Edit("value / scale", "value * scale"),
            see="02-quantize-round",
        ),
        Mistake(
            "inverse-scale",
            "You returned 1/scale. The scale is what an element is multiplied by to get its value back.",
            Edit("scales.append(scale)", "scales.append(1 / scale)"),
            see="02-quantize-round",
        ),
        Mistake(
            "always-fp4",
            "You took e_max = 2, which is E2M1's. Here the format is {element}.",
            Edit("top = math.floor(math.log2(largest(element).value))", "top = 2"),
            see="02-blocks",
        ),
        Mistake(
            "not-saturated",
            "You left `saturate=True` out: what exceeds the largest element is to be cut off to it.",
            Edit(", saturate=True", ""),
            see="02-blocks",
        ),
        Mistake(
            "log-to-the-nearest",
            "You rounded log2 of the largest magnitude to the nearest whole number. The rule rounds down.",
            Edit("math.floor(math.log2(amax))", "round(math.log2(amax))"),
            see="02-blocks",
        ),
        Mistake(
            "to-whole-numbers",
            "You rounded to whole numbers. An element is a value of {element}: `rounded` knows them.",
            Edit("rounded(value / scale, element, saturate=True)", "float(round(value / scale))"),
            see="02-blocks",
        ),
        Mistake(
            "one-too-many",
            "Your scale is twice too large: e_max is the exponent of the format's largest power of two.",
            Edit("- top)", "- top + 1)"),
            see="02-blocks",
        ),
    ],
    hints=[
        "Go through the row in steps of `block`; a slice at the end is shorter by itself.",
        "Per block: amax, then scale = 2^(floor(log2 amax) − e_max), then each value over the scale, rounded.",
        "e_max is `math.floor(math.log2(largest(element).value))`; an element is "
        "`rounded(value / scale, element, saturate=True)`.",
    ],
)


def stored_bytes(parameters, kept, bits, block, scale_bits):
    quantized = parameters - kept
    scales = quantized // block * scale_bits
    return (quantized * bits + scales + kept * 16) // 8


def draw_stored(rng):
    block = rng.choice((16, 32, 64, 128))
    quantized = block * rng.randint(10**5, 10**7)
    kept = rng.randint(10**5, 10**8)
    return {
        "parameters": quantized + kept,
        "kept": kept,
        "bits": rng.choice((4, 8)),
        "block": block,
        "scale_bits": rng.choice((16, 32)),
    }


STORED = Exercise(
    id="2.14",
    title="What is wrong in this calculator: a quantized model",
    notebook="02_dtypes",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=7,
    unit="B",
    answer=stored_bytes,
    cases=[
        {"parameters": 8030261248, "kept": 1050939392, "bits": 4, "block": 32, "scale_bits": 16},
        {"parameters": 1300000, "kept": 300000, "bits": 8, "block": 16, "scale_bits": 32},
        {"parameters": 6400, "kept": 0, "bits": 4, "block": 64, "scale_bits": 16},
    ],
    draw=draw_stored,
    case_text="{parameters} parameters, {kept} kept, {bits} bits, blocks of {block}, scales of {scale_bits} bits",
    mistakes=[
        Mistake(
            "unchanged",
            "Both faults are still there. Which arguments does the function use as they are meant?",
            [
                Edit("quantized = parameters - kept", "quantized = parameters"),
                Edit(" * scale_bits", " * 8"),
                Edit(" + kept * 16", ""),
            ],
            see="02-ex14-fault",
        ),
        Mistake(
            "kept-quantized",
            "The {kept} parameters that stay in BF16 are still counted as quantized.",
            [Edit("quantized = parameters - kept", "quantized = parameters"), Edit(" + kept * 16", "")],
            see="02-ex14-prompt",
        ),
        Mistake(
            "kept-left-out",
            "You took the {kept} kept parameters off and forgot to add them again, 16 bits each.",
            Edit(" + kept * 16", ""),
            see="02-ex14-prompt",
        ),
        Mistake(
            "kept-twice",
            "You count the kept parameters twice: once quantized and once in BF16.",
            Edit("quantized = parameters - kept", "quantized = parameters"),
            see="02-ex14-prompt",
        ),
        Mistake(
            "scales-of-a-byte",
            "A scale still takes one byte. Here it has {scale_bits} bits.",
            Edit(" * scale_bits", " * 8"),
            see="02-ex14-fault",
        ),
        Mistake(
            "no-scales",
            "The scales are gone. Each block of {block} has one.",
            Edit("quantized * bits + scales", "quantized * bits"),
            see="02-bits-per-value",
        ),
        Mistake(
            "kept-fp32",
            "You gave the kept parameters 32 bits each; BF16 has 16.",
            Edit("kept * 16", "kept * 32"),
            see="02-ex14-prompt",
        ),
        Mistake(
            "scales-of-the-kept",
            "You counted scales for the parameters that stay in BF16. Only quantized ones have them.",
            Edit("scales = quantized //", "scales = parameters //"),
            see="02-ex14-fault",
        ),
        Mistake(
            "scale-for-each",
            "You gave each value a scale. Each {block} share one.",
            Edit("quantized // block * scale_bits", "quantized * scale_bits"),
            see="02-ex14-fault",
        ),
        Mistake(
            "whole-bytes",
            "You cut {bits} bits to whole bytes before you multiplied.",
            Edit(
                "(quantized * bits + scales + kept * 16) // 8",
                "quantized * (bits // 8) + (scales + kept * 16) // 8",
            ),
            see="02-ex14-fault",
        ),
        Mistake(
            "kept-in-bits",
            "You gave the kept parameters 16 bytes each; BF16 has 16 bits.",
            Edit("kept * 16", "kept * 128"),
            see="02-ex14-fault",
        ),
        Mistake(
            "twice-and-a-byte",
            "Two slips: the kept parameters are counted twice, and a scale has {scale_bits} bits.",
            [
                Edit("quantized = parameters - kept", "quantized = parameters"),
                Edit("// block * scale_bits", "// block * 8"),
            ],
            see="02-ex14-fault",
        ),
    ],
    hints=[
        "Which of the five arguments does the function not use?",
        "Two of them: `kept`, and `scale_bits`, for which it takes 8.",
        "quantized = parameters − kept; add up quantized·bits, quantized/block·scale_bits and kept·16, in bits.",
    ],
)

WEIGHTS_ONLY = Exercise(
    id="2.15",
    title="Weights in MXFP4: which budgets changed?",
    notebook="02_dtypes",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="d",
    options={
        "a": "Storage alone: 14 GB become 3.5 GB. What is stored smaller is moved as before.",
        "b": "Arithmetic: a product of four-bit weights has a quarter of the FLOPs.",
        "c": "All three: storage, movement and arithmetic fall by 16/4.25.",
        "d": "Storage and movement: 14 GB become 3.7 GB, and a token reads that much less. The FLOPs are the same.",
    },
    mistakes=[
        Mistake(
            "moved-as-before",
            "A step at batch one reads every weight once, from where it is stored: fewer bytes stored are fewer "
            "bytes read. And the scales count: 4.25 bits, 3.7 GB.",
            "a",
            see="02-bits-per-value",
        ),
        Mistake(
            "fewer-flops",
            "A multiplication is one FLOP in any format; widening four bits to BF16 even adds some work.",
            "b",
            see="02-declared",
        ),
        Mistake(
            "all-three",
            "The products are done in BF16 here, as many of them as before. A format changes the count of none.",
            "c",
            see="02-declared",
        ),
    ],
    hints=[
        "Go through the three budgets: what is stored, what is computed, what is moved?",
        "The kernel reads four-bit elements with their scales and multiplies in BF16.",
        "7·10⁹ × 4.25 bits is 3.7 GB; the products are the same.",
    ],
)

EXERCISES = [
    MODEL_STATES,
    BOOLS,
    ADDS_STORAGE,
    FACTOR,
    DECODE,
    SPACING,
    STALL,
    SCALE,
    CASTS,
    AUTOCAST_BUDGET,
    LARGEST,
    SCALES,
    QUANTIZE,
    STORED,
    WEIGHTS_ONLY,
]
