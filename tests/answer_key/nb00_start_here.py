"""Answers, hints and known mistakes of notebooks/00_start_here.ipynb."""

from lecture_lib.exercises.key import Edit, Exercise, Mistake

# -- 0.1, answered wrong in the notebook on purpose: its answer cell holds the mistake "one-moment"


def model_states(P, weight_bytes, gradient_bytes, moment_bytes):
    return P * (weight_bytes + gradient_bytes + 2 * moment_bytes)


def weights_only(P, weight_bytes, gradient_bytes, moment_bytes):
    return P * weight_bytes


def draw_recipe(rng):
    weight, gradient, moment = rng.sample((1, 2, 4, 8), 3)
    return {
        "P": rng.randint(3, 10**6),
        "weight_bytes": weight,
        "gradient_bytes": gradient,
        "moment_bytes": moment,
    }


MODEL_STATES = Exercise(
    id="0.1",
    title="A ledger with a row missing",
    notebook="00_start_here",
    kind="function",
    level="core",
    difficulty="warm-up",
    points=1,
    minutes=2,
    unit="B",
    answer=model_states,
    cases=[
        {"P": 7_000_000_000, "weight_bytes": 2, "gradient_bytes": 2, "moment_bytes": 4},
        {"P": 1_000, "weight_bytes": 2, "gradient_bytes": 4, "moment_bytes": 1},
        {"P": 13, "weight_bytes": 4, "gradient_bytes": 1, "moment_bytes": 2},
    ],
    draw=draw_recipe,
    case_text="P={P}: weights {weight_bytes} B, gradients {gradient_bytes} B, each moment {moment_bytes} B",
    mistakes=[
        Mistake(
            "one-moment",
            "You counted one moment, {moment_bytes} B a parameter. AdamW keeps two for each parameter: a "
            "running mean of "
            "the gradient and one of its square.",
            Edit("2 * moment_bytes", "moment_bytes"),
            see="00-ledger",
        ),
        Mistake(
            "no-gradients",
            "Your ledger has no gradients: {gradient_bytes} B for each parameter.",
            Edit(" + gradient_bytes", ""),
            see="00-ledger",
        ),
        Mistake(
            "no-weights",
            "Your ledger has no weights: the model itself is {weight_bytes} B for each parameter.",
            Edit("weight_bytes + gradient_bytes", "gradient_bytes"),
            see="00-ledger",
        ),
        Mistake(
            "no-moments",
            "Your ledger ends with the gradients. AdamW keeps two moments for each parameter.",
            Edit(" + 2 * moment_bytes", ""),
            see="00-ledger",
        ),
        Mistake(
            "weights-only",
            "That is the model as it is stored. Training adds a gradient and two moments for each parameter.",
            weights_only,
            see="00-ledger",
        ),
        Mistake(
            "moments-as-weights",
            "You gave the moments {weight_bytes} B, the width of a weight. They have a format of their "
            "own: {moment_bytes} B.",
            Edit("2 * moment_bytes", "2 * weight_bytes"),
            see="00-small-text",
        ),
        Mistake(
            "one-parameter",
            "That is the amount for one parameter; there are {P}.",
            Edit("P * ", ""),
            see="00-ledger",
        ),
    ],
    hints=[
        "Count the rows of the ledger above. How many does your sum have?",
        "For each parameter AdamW keeps two moments, each of `moment_bytes`.",
        "`return P * (weight_bytes + gradient_bytes + 2 * moment_bytes)`",
    ],
)

# -- 0.2

ANOTHER_RECIPE = Exercise(
    id="0.2",
    title="Other formats, another total",
    notebook="00_start_here",
    kind="quantity",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=1,
    unit="GB",
    answer="104 GB",
    mistakes=[
        Mistake(
            "one-moment",
            "You counted one moment, 7 bytes a parameter in all. There are two, of one byte each.",
            "91 GB",
            see="00-ledger",
        ),
        Mistake(
            "gradients-as-weights",
            "That is 6 bytes a parameter: the gradients at two bytes, like the weights, or the weights left out. "
            "There are 2 for the weight, 4 for the gradient in FP32 and 1 for each moment.",
            "78 GB",
            see="00-small-text",
        ),
        Mistake(
            "moments-in-fp32",
            "You gave each moment the four bytes of the lecture's recipe. This optimizer stores them in "
            "one byte each.",
            "182 GB",
            see="00-small-text",
        ),
        Mistake(
            "recipe-of-the-lecture",
            "You took the lecture's 12 bytes a parameter. Here the formats differ: add up the bytes of "
            "this recipe.",
            "156 GB",
            see="00-small-text",
        ),
        Mistake(
            "weights-only",
            "That is the model as it is stored. Add the gradients and both moments.",
            "26 GB",
            see="00-ledger",
        ),
        Mistake(
            "bits-for-bytes",
            "That is the number of bits; eight of them are a byte.",
            "832 GB",
            see="00-ledger",
        ),
        Mistake(
            "no-gradients",
            "The gradients are missing: 4 bytes a parameter in all. They take another 4, accumulated in FP32.",
            "52 GB",
            see="00-ledger",
        ),
        Mistake(
            "moments-in-bf16",
            "You gave each moment two bytes. An 8-bit Adam stores each in one.",
            "130 GB",
            see="00-ledger",
        ),
        Mistake(
            "seven-billion",
            "That is for 7 billion parameters, the lecture's number. Your colleague's model has 13 billion.",
            "56 GB",
            see="00-ledger",
        ),
        Mistake(
            "two-slips",
            "That is 5 bytes a parameter: one moment instead of two, and gradients of two bytes. There are two moments, and the gradients are FP32.",
            "65 GB",
            see="00-ledger",
        ),
    ],
    hints=[
        "Write the bytes of one parameter first, row by row.",
        "BF16 is 2 bytes, FP32 is 4, and there are two moments of 1 byte.",
        "2 + 4 + 1 + 1 = 8 bytes a parameter, times 13 billion parameters.",
    ],
)

# -- 0.3


def largest_model(memory_gb, bytes_per_parameter):
    return memory_gb * 10**9 // bytes_per_parameter


def draw_memory(rng):
    return {
        "memory_gb": rng.choice((16, 20, 32, 40, 47, 80, 94, 141)),
        "bytes_per_parameter": rng.choice((6, 7, 9, 11, 13, 17, 18)),
    }


LARGEST_MODEL = Exercise(
    id="0.3",
    title="The largest model for a memory",
    notebook="00_start_here",
    kind="function",
    level="core",
    difficulty="steady",
    points=2,
    minutes=3,
    answer=largest_model,
    cases=[
        {"memory_gb": 80, "bytes_per_parameter": 12},
        {"memory_gb": 640, "bytes_per_parameter": 18},
        {"memory_gb": 24, "bytes_per_parameter": 16},
    ],
    draw=draw_memory,
    case_text="{memory_gb} GB, {bytes_per_parameter} B/parameter",
    mistakes=[
        Mistake(
            "gib-for-gb",
            "You took a gigabyte as 2^30 bytes, which is a GiB. {memory_gb} GB are {memory_gb} × 10^9 bytes.",
            Edit("10**9", "2**30"),
            see="00-ex3-prompt",
        ),
        Mistake(
            "rounded-up",
            "One parameter too many: rounded up, the last one has no room for all its bytes.",
            Edit("memory_gb * 10**9 // bytes_per_parameter", "-(-memory_gb * 10**9 // bytes_per_parameter)"),
            see="00-ex3-prompt",
        ),
        Mistake(
            "not-whole",
            "The number is right except that it is not whole: a part of a parameter does not exist. Use "
            "`//`.",
            Edit("//", "/"),
            see="00-ex3-prompt",
        ),
        Mistake(
            "in-billions",
            "Your number counts billions. Return parameters: a GB has 10^9 bytes.",
            Edit(" * 10**9", ""),
            see="00-ex3-prompt",
        ),
        Mistake(
            "multiplied",
            "You multiplied by the bytes of a parameter. Each parameter uses up {bytes_per_parameter} B: "
            "divide.",
            Edit("//", "*"),
            see="00-ledger",
        ),
        Mistake(
            "bits-for-bytes",
            "Eight times too few: {bytes_per_parameter} is in bytes already; it takes no factor of 8.",
            Edit("bytes_per_parameter\n", "(8 * bytes_per_parameter)\n"),
            see="00-ex3-prompt",
        ),
        Mistake(
            "half",
            "Half as many as fit: the {bytes_per_parameter} B count every tensor already, so nothing is to be doubled.",
            Edit("bytes_per_parameter\n", "(2 * bytes_per_parameter)\n"),
            see="00-ex3-prompt",
        ),
        Mistake(
            "gib-and-not-whole",
            "Two slips: a gigabyte is 10^9 bytes, not 2^30, and the number is to be whole.",
            Edit("10**9 // bytes_per_parameter", "2**30 / bytes_per_parameter"),
            see="00-ex3-prompt",
        ),
    ],
    hints=[
        "The ledger multiplied parameters by bytes each. This goes the other way.",
        "Turn GB into bytes (× 10^9), then divide by the bytes of one parameter and drop the fraction.",
        "`return memory_gb * 10**9 // bytes_per_parameter`",
    ],
)

# -- 0.4

WHICH_BUDGET = Exercise(
    id="0.4",
    title="Which budget changed, and why",
    notebook="00_start_here",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=2,
    answer="b",
    options={
        "a": "Storage alone: the moments take half the bytes, and nothing else about the step is different.",
        "b": (
            "Storage and data movement: fewer bytes are held, and the update reads and writes fewer bytes; "
            "it does the same arithmetic."
        ),
        "c": "Storage and arithmetic: a BF16 number takes half the FLOPs of an FP32 one.",
        "d": "All three: half the bytes means half the work.",
    },
    mistakes=[
        Mistake(
            "movement-forgotten",
            "Storage does fall. But each step also reads both moments and writes them back: halving their "
            "bytes halves that traffic.",
            "a",
            see="00-budgets",
        ),
        Mistake(
            "bits-as-flops",
            "Storage does fall. FLOPs count operations, whatever their format: the update multiplies and "
            "adds as often as before.",
            "c",
            see="00-budgets",
        ),
        Mistake(
            "all-three",
            "Two of the three. A FLOP is one operation in any format, so the arithmetic budget stays.",
            "d",
            see="00-budgets",
        ),
    ],
    hints=[
        "Take the budgets one at a time: what is held, what is computed, what travels.",
        "At every step the optimizer reads the moments from memory and writes them back.",
        "The update does the same multiplications and additions, on numbers of half the bytes.",
    ],
)

EXERCISES = [MODEL_STATES, ANOTHER_RECIPE, LARGEST_MODEL, WHICH_BUDGET]
