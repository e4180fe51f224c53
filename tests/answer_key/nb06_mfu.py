"""Answers, hints and known mistakes of notebooks/06_mfu.ipynb."""

from lecture_lib.exercises.key import Edit, Exercise, Mistake

TERA = 10**12

# -- recall

RUN_FLOPS = Exercise(
    id="6.1",
    title="What a run computes",
    notebook="06_mfu",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="FLOP",
    answer="6e20 FLOP",
    mistakes=[
        Mistake(
            "forward-only", "That is 2·P·T, the forward; the backward takes two products more.", "2e20 FLOP"
        ),
        Mistake("fma-as-one", "That is 3·P·T: a multiply and its add are two FLOPs.", "3e20 FLOP"),
        Mistake(
            "recompute-counted",
            "That is 8·P·T, with the forward run twice; nothing is recomputed here.",
            "8e20 FLOP",
        ),
        Mistake(
            "parameters-times-tokens",
            "That is P·T: each meeting of a parameter and a token takes six FLOPs.",
            "1e20 FLOP",
        ),
        Mistake("backward-only", "That is 4·P·T, the backward; the forward is 2·P·T more.", "4e20 FLOP"),
    ],
    hints=[
        "Three products with two FLOPs for each parameter and token.",
        "Training takes 6·P·T.",
        "6 × 2·10^9 × 50·10^9 FLOP.",
    ],
)

SUM_INTENSITY = Exercise(
    id="6.2",
    title="What a sum earns for its bytes",
    notebook="06_mfu",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="FLOP/B",
    answer="0.08333333333 FLOP/B",
    mistakes=[
        Mistake(
            "two-of-three",
            "You counted two of the three vectors: x and y are read, z is written.",
            "0.125 FLOP/B",
        ),
        Mistake(
            "two-bytes",
            "That is one FLOP for 6 bytes, or two for 12: FP32 has four bytes a value, and a sum is one FLOP.",
            "0.1666666667 FLOP/B",
        ),
        Mistake(
            "bytes-over-flops", "That is bytes for each FLOP; intensity is FLOPs for each byte.", "12 FLOP/B"
        ),
        Mistake(
            "one-of-three",
            "That is one FLOP for 4 bytes: three FP32 values move for each sum, 12 bytes.",
            "0.25 FLOP/B",
        ),
        Mistake(
            "values-for-bytes",
            "That is one FLOP for three values; each has four bytes.",
            "0.3333333333 FLOP/B",
        ),
        Mistake(
            "bits-for-bytes", "That is one FLOP for 96 bits; the answer is per byte.", "0.01041666667 FLOP/B"
        ),
    ],
    hints=[
        "One addition for each value of z: how many bytes does it move?",
        "Two values are read and one is written, four bytes each.",
        "1 FLOP / 12 B.",
    ],
)

AUTOCAST = Exercise(
    id="6.3",
    title="What autocast casts",
    notebook="06_mfu",
    kind="choice",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    answer="b",
    options={
        "a": "All in BF16: products, weights, gradients",
        "b": "Products in BF16; weights and their gradients stay FP32",
        "c": "Weights in BF16; products in FP32, on values cast back",
    },
    mistakes=[
        Mistake(
            "all-cast",
            "Autocast casts what goes into an operation; the parameters stay as they are stored, FP32.",
            "a",
        ),
        Mistake(
            "stored-low",
            "It is the other way round: autocast chooses formats of operations, not of parameters.",
            "c",
        ),
    ],
    hints=[
        "Does autocast change what `parameter.dtype` says?",
        "It casts the operands of matrix products, for the call.",
        "Gradients have the dtype of their parameters.",
    ],
)


# -- MFU


def whole_number(rng, low, high, step=1):
    return step * rng.randint(low // step, high // step)


def seconds_at_peak(parameters, tokens, devices, peak):
    work = 6 * parameters * tokens
    return work / (devices * peak)


def draw_step(rng):
    return {
        "parameters": whole_number(rng, 10**8, 10**11, 10**7),
        "tokens": 1024 * rng.randint(64, 16_000),
        "devices": rng.choice((3, 4, 6, 12, 24, 96, 640)),
        "peak": rng.choice((65, 121, 165, 275, 312, 459, 756, 1307)) * TERA,
    }


AT_PEAK = Exercise(
    id="6.4",
    title="The missing row: arithmetic at the peak",
    notebook="06_mfu",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="s",
    answer=seconds_at_peak,
    cases=[
        {"parameters": 1_300 * 10**6, "tokens": 524_288, "devices": 4, "peak": 312 * TERA},
        {"parameters": 7 * 10**9, "tokens": 4_194_304, "devices": 24, "peak": 756 * TERA},
        {"parameters": 110 * 10**6, "tokens": 65_536, "devices": 3, "peak": 65 * TERA},
    ],
    draw=draw_step,
    case_text="{parameters} parameters, {tokens} tokens, {devices} devices of {peak} FLOP/s",
    mistakes=[
        Mistake(
            "forward-only",
            "That is the forward alone, 2·P·T; a training step takes three such products.",
            Edit("6 *", "2 *"),
            see="06-mfu",
        ),
        Mistake(
            "fma-as-one",
            "That is 3·P·T over the peak, or 6·P·T over twice the peak: a multiply and its add are two FLOPs on both "
            "sides, and `peak` is dense as given.",
            Edit("6 *", "3 *"),
            see="06-mfu",
        ),
        Mistake(
            "recompute-counted",
            "That is 8·P·T. What is recomputed is work of the device, not of the model.",
            Edit("6 *", "8 *"),
            see="06-mfu",
        ),
        Mistake(
            "one-device",
            "You gave all of the work to one device; {devices} share it.",
            Edit("(devices * peak)", "peak"),
            see="06-mfu",
        ),
        Mistake(
            "upside-down",
            "That is the rate over the work, which is 1/s. Seconds are FLOP over FLOP/s.",
            Edit("work / (devices * peak)", "devices * peak / work"),
            see="06-mfu",
        ),
        Mistake(
            "backward-only",
            "That is 4·P·T, the backward alone; the forward is 2·P·T more.",
            Edit("6 *", "4 *"),
            see="06-mfu",
        ),
        Mistake(
            "parameters-times-tokens",
            "That is P·T: each meeting of a parameter and a token takes six FLOPs.",
            Edit("6 * ", ""),
            see="06-mfu",
        ),
        Mistake(
            "tera-again",
            "`peak` is in FLOP/s already; you multiplied it by 10^12.",
            Edit("devices * peak", "devices * peak * 10**12"),
            see="06-ex4-prompt",
        ),
    ],
    hints=[
        "Work over rate: how many FLOPs does the step take, how many a second can all devices do?",
        "The work is 6·P·T, the rate of all devices G·C.",
        "6 * parameters * tokens / (devices * peak).",
    ],
)


def against_the_right_peak(reported, used, dtype, dense):
    return reported * used / dense[dtype]


DEVICES = {  # dense peaks in TFLOP/s; the second figure is what a data sheet prints as its largest
    "H100": ({"fp32": 67, "tf32": 494.5, "bf16": 989.5, "fp8": 1979}, 3958),
    "A100": ({"fp32": 19.5, "tf32": 156, "bf16": 312}, 624),
    "L4": ({"fp32": 30.3, "tf32": 60, "bf16": 121}, 242),
    "V100": ({"fp32": 15.7, "fp16": 125}, 125),  # no sparsity
    "T4": ({"fp32": 8.1, "fp16": 65}, 65),  # no sparsity
}


def rates(device):
    return {dtype: int(peak * TERA) for dtype, peak in DEVICES[device][0].items()}


def draw_report(rng):
    dense = rates(rng.choice(sorted(DEVICES)))
    dtype = rng.choice(sorted(dense))
    used = rng.choice([2 * dense[dtype], dense[dtype] // 2, *dense.values()])
    return {"reported": rng.randint(40, 600) / 1000, "used": used, "dtype": dtype, "dense": dense}


RIGHT_PEAK = Exercise(
    id="6.5",
    title="Take it against the right peak",
    notebook="06_mfu",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=5,
    answer=against_the_right_peak,
    cases=[
        {"reported": 0.23, "used": 1979 * TERA, "dtype": "bf16", "dense": rates("H100")},  # sparse
        {"reported": 0.31, "used": 65 * TERA, "dtype": "fp16", "dense": rates("T4")},  # right: no sparsity
        {"reported": 0.1737, "used": 312 * TERA, "dtype": "tf32", "dense": rates("A100")},  # of BF16
        {
            "reported": 0.62,
            "used": 156 * TERA,
            "dtype": "bf16",
            "dense": rates("A100"),
        },  # halved once too often
    ],
    draw=draw_report,
    case_text="MFU {reported} against {used} FLOP/s, products in {dtype}",
    mistakes=[
        Mistake(
            "always-doubled",
            "You doubled every figure. Only a sparse peak is twice the dense one; {used} FLOP/s may be another "
            "format's, or right.",
            Edit("reported * used / dense[dtype]", "2 * reported"),
            see="06-peak",
        ),
        Mistake(
            "left-as-it-is",
            "That is the figure as reported; it was taken against {used} FLOP/s, which is not this format's peak.",
            Edit("reported * used / dense[dtype]", "reported"),
            see="06-peak",
        ),
        Mistake(
            "upside-down",
            "You scaled by right over wrong. A larger denominator gave too small a share: scale by used over right.",
            Edit("reported * used / dense[dtype]", "reported * dense[dtype] / used"),
            see="06-peak",
        ),
        Mistake(
            "fastest-format",
            "You took the device's largest peak; the products ran in {dtype}, which has its own.",
            Edit("dense[dtype]", "max(dense.values())"),
            see="06-peak",
        ),
        Mistake(
            "another-sparse-peak",
            "You divided by twice the dense peak: that is the sparse one, which no dense product reaches.",
            Edit("/ dense[dtype]", "/ (2 * dense[dtype])"),
            see="06-peak",
        ),
        Mistake(
            "always-halved",
            "You halved every figure; how far one is off depends on the peak it was taken against, {used} FLOP/s.",
            Edit("reported * used / dense[dtype]", "reported / 2"),
            see="06-peak",
        ),
        Mistake(
            "first-format",
            "You took the first peak of the table; the products ran in {dtype}, which has its own.",
            Edit("dense[dtype]", "next(iter(dense.values()))"),
            see="06-ex5-prompt",
        ),
        Mistake(
            "rate",
            "That is the rate that each device reached, in FLOP/s; an MFU is that over the right peak.",
            Edit(" / dense[dtype]", ""),
            see="06-ex5-prompt",
        ),
    ],
    hints=[
        "Undo the wrong division first: what rate did each device achieve?",
        "reported × used is that rate in FLOP/s. Over which peak does it belong?",
        "reported * used / dense[dtype].",
    ],
)


def run_mfu(parameters, tokens_per_second, devices, headline, sparse):
    peak = headline / 2 if sparse else headline
    return 6 * parameters * tokens_per_second / (devices * peak)


def draw_calculator(rng):
    sparse = rng.random() < 0.6
    headlines = (242, 624, 733, 1513, 1979, 4500) if sparse else (65, 112, 125, 197, 275, 459)
    headline, devices = rng.choice(headlines) * TERA, rng.choice((3, 8, 12, 24, 96))
    parameters = whole_number(rng, 5 * 10**8, 10**11, 10**7)
    most = devices * (headline // 2 if sparse else headline) // (6 * parameters)
    return {
        "parameters": parameters,
        "tokens_per_second": max(1, most * rng.randint(15, 60) // 100),
        "devices": devices,
        "headline": headline,
        "sparse": sparse,
    }


MFU_FAULTS = Exercise(
    id="6.6",
    title="What is wrong in this calculator: an MFU",
    notebook="06_mfu",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=7,
    answer=run_mfu,
    cases=[
        {
            "parameters": 7 * 10**9,
            "tokens_per_second": 76_800,
            "devices": 8,
            "headline": 1979 * TERA,
            "sparse": True,
        },
        {
            "parameters": 70 * 10**9,
            "tokens_per_second": 5_400,
            "devices": 24,
            "headline": 275 * TERA,
            "sparse": False,
        },
        {
            "parameters": 1_300 * 10**6,
            "tokens_per_second": 61_000,
            "devices": 3,
            "headline": 624 * TERA,
            "sparse": True,
        },
    ],
    draw=draw_calculator,
    case_text=(
        "{parameters} parameters, {tokens_per_second} tokens/s on {devices} devices, headline {headline} FLOP/s, "
        "sparse: {sparse}"
    ),
    mistakes=[
        Mistake(
            "sparse-peak",
            "The denominator is still the headline. Where that is for 2:4 sparsity, a dense product reaches half of it.",
            Edit("headline / 2 if sparse else headline", "headline"),
            see="06-peak",
        ),
        Mistake(
            "always-halved",
            "You halve every headline; where `sparse` is False it is the dense peak already.",
            Edit("headline / 2 if sparse else headline", "headline / 2"),
            see="06-peak",
        ),
        Mistake(
            "one-device",
            "`tokens_per_second` is of all {devices} devices; the denominator is one device's peak.",
            Edit("(devices * peak)", "peak"),
            see="06-mfu",
        ),
        Mistake(
            "unchanged",
            "Both faults are still there: the denominator is one device's, and not always a dense peak.",
            [Edit("headline / 2 if sparse else headline", "headline"), Edit("(devices * peak)", "peak")],
            see="06-ex6-fault",
        ),
        Mistake(
            "forward-only",
            "That is the forward alone, 2 FLOPs for each parameter and token; training takes 6.",
            Edit("6 *", "2 *"),
            see="06-mfu",
        ),
        Mistake(
            "recompute-counted",
            "With 8 for each parameter and token, recomputation is in it: that is HFU.",
            Edit("6 *", "8 *"),
            see="06-hfu",
        ),
        Mistake(
            "halved-the-wrong-one",
            "You halved the dense figures and left the sparse ones whole; it is the other way round.",
            Edit("headline / 2 if sparse else headline", "headline if sparse else headline / 2"),
            see="06-peak",
        ),
        Mistake(
            "doubled",
            "You doubled the sparse figures; a dense product reaches half of one.",
            Edit("headline / 2 if sparse else headline", "headline * 2 if sparse else headline"),
            see="06-peak",
        ),
        Mistake(
            "quartered",
            "You took a quarter of the sparse figures; a dense product reaches half of one.",
            Edit("headline / 2 if sparse else headline", "headline / 4 if sparse else headline"),
            see="06-peak",
        ),
        Mistake(
            "fma-as-one",
            "With 3 for each parameter and token a multiply and its add are one FLOP; in the peak they are two.",
            Edit("6 *", "3 *"),
            see="06-mfu-agree",
        ),
    ],
    hints=[
        "Which arguments of the function are never used?",
        "The numerator is of all devices, so the denominator has to be; and `sparse` says what the headline is.",
        "Take headline / 2 if sparse else headline, times devices, in the denominator.",
    ],
)


# -- HFU


def hfu_from_mfu(mfu, share):
    return mfu * (1 + share / 3)


RECOMPUTED = Exercise(
    id="6.7",
    title="The missing row: recomputed",
    notebook="06_mfu",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=4,
    answer=hfu_from_mfu,
    cases=[
        {"mfu": 0.375, "share": 1.0},
        {"mfu": 0.42, "share": 0.25},
        {"mfu": 0.31, "share": 0.0},
        {"mfu": 0.288, "share": 0.6},
    ],
    draw=lambda rng: {"mfu": rng.randint(50, 600) / 1000, "share": rng.randint(0, 20) / 20},
    case_text="MFU {mfu}, {share} of the forward recomputed",
    mistakes=[
        Mistake(
            "always-four-thirds",
            "4/3 is right where the whole forward runs again; here {share} of it does.",
            Edit("(1 + share / 3)", "4 / 3"),
            see="06-hfu",
        ),
        Mistake(
            "share-of-the-step",
            "You took the share of the whole step; it is of the forward, which is a third of the step.",
            Edit("share / 3", "share"),
            see="06-hfu",
        ),
        Mistake(
            "forward-is-half",
            "You took the forward for half of the step; the backward is twice as much, so it is a third.",
            Edit("share / 3", "share / 2"),
            see="06-hfu",
        ),
        Mistake(
            "forward-is-a-quarter",
            "The forward is a quarter of the step with its repetition, and a third of what the model needs; MFU counts that.",
            Edit("share / 3", "share / 4"),
            see="06-hfu",
        ),
        Mistake(
            "downwards",
            "You divided: HFU counts more FLOPs in the same time, so it is the larger of the two.",
            Edit("mfu * (1", "mfu / (1"),
            see="06-hfu",
        ),
        Mistake(
            "nothing-again",
            "That is the MFU itself; what is recomputed counts in HFU.",
            Edit("mfu * (1 + share / 3)", "mfu"),
            see="06-hfu",
        ),
        Mistake(
            "backward-again",
            "You counted the repetition as 4·P·T; that is the backward, and the forward is 2·P·T.",
            Edit("share / 3", "2 * share / 3"),
            see="06-hfu",
        ),
        Mistake(
            "half-a-forward",
            "You counted the repetition as P·T; a forward is 2·P·T.",
            Edit("share / 3", "share / 6"),
            see="06-hfu",
        ),
        Mistake(
            "the-other-share",
            "You took `share` for what is kept; it is what runs again.",
            Edit("share / 3", "(1 - share) / 3"),
            see="06-ex7-prompt",
        ),
        Mistake(
            "added",
            "You added to the MFU; HFU is a multiple of it, so the third is a third of the MFU.",
            Edit("mfu * (1 + share / 3)", "mfu + share / 3"),
            see="06-hfu",
        ),
        Mistake(
            "share-of-four-thirds",
            "You multiplied 4/3 by the share; where nothing runs again, HFU and MFU are equal.",
            Edit("(1 + share / 3)", "share * 4 / 3"),
            see="06-hfu",
        ),
    ],
    hints=[
        "Both have the same denominator. What is the ratio of their numerators?",
        "6·P·T for the model, share · 2·P·T again.",
        "mfu * (6 + 2 * share) / 6.",
    ],
)

RECOMPUTE_BUDGET = Exercise(
    id="6.8",
    title="Recompute everything: which budget changed?",
    notebook="06_mfu",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=2,
    answer="a",
    options={
        "a": "Storage fell and arithmetic rose by a third: HFU is what it was, MFU three quarters of that.",
        "b": "Storage fell, and the arithmetic is the same: MFU and HFU are what they were.",
        "c": "Arithmetic rose by a third, and MFU with it: the device does more in each second.",
        "d": "Data movement rose: the device waits more, and MFU and HFU both fall to three quarters.",
    },
    mistakes=[
        Mistake(
            "free",
            "The forward runs twice: 8·P·T where it was 6·P·T, and the time says so.",
            "b",
            see="06-hfu",
        ),
        Mistake(
            "work-is-progress",
            "MFU counts what the model needs, which is the same; in 4/3 of the time that is less each second.",
            "c",
            see="06-hfu",
        ),
        Mistake(
            "waiting",
            "The device did 4/3 of the FLOPs in 4/3 of the time: HFU, which counts all of them, is unchanged.",
            "d",
            see="06-hfu",
        ),
    ],
    hints=[
        "What does the device do in the third of the time that was added?",
        "It computes: the forward a second time. Which of the two figures counts that?",
        "HFU: (4/3 of the FLOPs) / (4/3 of the time). MFU: the same FLOPs / (4/3 of the time).",
    ],
)


# -- timing


def mfu_from_log(log, warmup, parameters, devices, peak):
    import statistics

    seconds = statistics.median(record["seconds"] for record in log[warmup:])
    return 6 * parameters * log[0]["tokens"] / (seconds * devices * peak)


def made_log(tokens, seconds):
    return [{"step": i, "tokens": tokens, "seconds": s} for i, s in enumerate(seconds, start=1)]


def draw_log(rng):
    case = draw_step(rng)
    least = 6 * case["parameters"] * case["tokens"] / (case["devices"] * case["peak"])
    usual = least * rng.uniform(1.6, 5)
    warmup, steps = rng.randint(1, 3), rng.randint(3, 7)
    slow = [round(usual * rng.uniform(2, 6), 4) for _ in range(warmup)]
    rest = [round(usual * rng.uniform(0.97, 1.06), 4) for _ in range(steps)]
    rest[rng.randrange(steps)] = round(usual * rng.uniform(1.5, 3), 4)  # an interrupted one
    return {
        "log": made_log(case["tokens"], [max(0.0001, s) for s in slow + rest]),
        "warmup": warmup,
        "parameters": case["parameters"],
        "devices": case["devices"],
        "peak": case["peak"],
    }


def middle_of_the_log(log, warmup, parameters, devices, peak):
    seconds = [record["seconds"] for record in log[warmup:]]
    return 6 * parameters * log[0]["tokens"] / (seconds[len(seconds) // 2] * devices * peak)


def upper_middle(log, warmup, parameters, devices, peak):
    seconds = sorted(record["seconds"] for record in log[warmup:])
    return 6 * parameters * log[0]["tokens"] / (seconds[len(seconds) // 2] * devices * peak)


def lower_middle(log, warmup, parameters, devices, peak):
    seconds = sorted(record["seconds"] for record in log[warmup:])
    return 6 * parameters * log[0]["tokens"] / (seconds[(len(seconds) - 1) // 2] * devices * peak)


def median_of_shares(log, warmup, parameters, devices, peak):
    import statistics

    work = 6 * parameters * log[0]["tokens"] / (devices * peak)
    return statistics.median(work / record["seconds"] for record in log[warmup:])


def mean_of_shares(log, warmup, parameters, devices, peak):
    import statistics

    work = 6 * parameters * log[0]["tokens"] / (devices * peak)
    return statistics.mean(work / record["seconds"] for record in log[warmup:])


LOG = Exercise(
    id="6.9",
    title="MFU from a log",
    notebook="06_mfu",
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    answer=mfu_from_log,
    cases=[
        {
            "log": made_log(524_288, [19.2, 7.3, 7.1, 11.8, 7.2, 7.0]),
            "warmup": 1,
            "parameters": 1_300 * 10**6,
            "devices": 4,
            "peak": 312 * TERA,
        },
        {
            "log": made_log(2_097_152, [41.0, 22.0, 13.1, 12.9, 13.0, 17.5]),
            "warmup": 2,
            "parameters": 7 * 10**9,
            "devices": 24,
            "peak": 756 * TERA,
        },
        {
            "log": made_log(65_536, [9.5, 6.1, 5.3, 1.22, 1.9, 1.24, 1.21, 1.2]),
            "warmup": 3,
            "parameters": 110 * 10**6,
            "devices": 3,
            "peak": 65 * TERA,
        },
    ],
    draw=draw_log,
    case_text="{parameters} parameters, {devices} devices of {peak} FLOP/s, first {warmup} left out",
    mistakes=[
        Mistake(
            "warm-up-counted",
            "Your median takes in the first {warmup}, which were to warm up.",
            Edit("log[warmup:]", "log"),
            see="06-warmup",
        ),
        Mistake(
            "one-too-many-left-out",
            "You left out {warmup} and one more: `log[warmup:]` begins with the first step that counts.",
            Edit("log[warmup:]", "log[warmup + 1:]"),
            see="06-warmup",
        ),
        Mistake(
            "mean",
            "You took the mean, and one interrupted step moves it; the median has half of the steps on each side.",
            Edit("statistics.median(", "statistics.mean("),
            see="06-warmup",
        ),
        Mistake(
            "fastest",
            "You took the fastest step: the MFU of a good moment, not of the run.",
            Edit("statistics.median(", "min("),
            see="06-warmup",
        ),
        Mistake(
            "all-the-time",
            "You divided one step's FLOPs by the seconds of all steps.",
            Edit("statistics.median(", "sum("),
            see="06-mfu",
        ),
        Mistake(
            "forward-only",
            "That is 2·P·T, the forward alone; a training step takes 6·P·T.",
            Edit("6 *", "2 *"),
            see="06-mfu",
        ),
        Mistake(
            "fma-as-one",
            "That is 3·P·T over the peak, or 6·P·T over twice the peak: a multiply and its add are two FLOPs on both "
            "sides, and `peak` is dense as given.",
            Edit("6 *", "3 *"),
            see="06-mfu",
        ),
        Mistake(
            "recompute-counted",
            "That is 8·P·T: with recomputation it would be HFU, and none is logged.",
            Edit("6 *", "8 *"),
            see="06-hfu",
        ),
        Mistake(
            "one-device",
            "You divided by the peak of one device; the tokens are of all {devices}.",
            Edit("seconds * devices * peak", "seconds * peak"),
            see="06-mfu",
        ),
        Mistake(
            "middle-of-the-log",
            "You took the time in the middle of the log; a median is the middle of the sorted times.",
            middle_of_the_log,
            see="06-warmup",
        ),
        Mistake(
            "upper-middle",
            "Of an even number of times you took the upper middle one; the median is the mean of the two.",
            upper_middle,
            see="06-warmup",
        ),
        Mistake(
            "lower-middle",
            "Of an even number of times you took the lower middle one; the median is the mean of the two.",
            lower_middle,
            see="06-warmup",
        ),
        Mistake(
            "median-of-shares",
            "You took the median of the steps' MFUs; of an even number that is another mean than the MFU at the median time.",
            median_of_shares,
            see="06-ex9-prompt",
        ),
        Mistake(
            "mean-of-shares",
            "You took the mean of the steps' MFUs; asked is the MFU at the median time.",
            mean_of_shares,
            see="06-ex9-prompt",
        ),
        Mistake(
            "last-step",
            "You took the last step's time; the median of all that count stands for the run.",
            Edit('statistics.median(record["seconds"] for record in log[warmup:])', 'log[-1]["seconds"]'),
            see="06-warmup",
        ),
        Mistake(
            "slowest",
            "You took the slowest step: an interruption, not the run.",
            Edit("statistics.median(", "max("),
            see="06-warmup",
        ),
        Mistake(
            "tokens-of-all-steps",
            "You put the tokens of all steps over the time of one.",
            Edit('log[0]["tokens"]', 'sum(record["tokens"] for record in log[warmup:])'),
            see="06-mfu",
        ),
        Mistake(
            "warm-up-alone",
            "Your median is of the first {warmup} alone, which are the ones to leave out.",
            Edit("log[warmup:]", "log[:warmup]"),
            see="06-warmup",
        ),
        Mistake(
            "mean-with-the-warm-up",
            "You took the mean, and of all records: leave out the first {warmup}, and take the median.",
            [Edit("statistics.median(", "statistics.mean("), Edit("log[warmup:]", "log")],
            see="06-warmup",
        ),
    ],
    equivalent=[
        "return 6 * parameters * log[1]['tokens'] / (seconds * devices * peak)  # every step reads equally many",
        "return 6 * parameters * log[-1]['tokens'] / (seconds * devices * peak)  # every step reads equally many",
    ],
    hints=[
        "Which records count, and what stands for all of their times?",
        'seconds = the median of record["seconds"] over log[warmup:]; the tokens of a step are in each record.',
        "6 * parameters * tokens / (seconds * devices * peak).",
    ],
)


def median_time(work, device, warmup, repeats):
    import statistics

    for _ in range(warmup):
        work()
    times = []
    for _ in range(repeats):
        device.synchronize()
        start = device.now()
        work()
        device.synchronize()
        times.append(device.now() - start)
    return statistics.median(times)


def one_clock_around_all(work, device, warmup, repeats):
    for _ in range(warmup):
        work()
    device.synchronize()
    start = device.now()
    for _ in range(repeats):
        work()
    device.synchronize()
    return (device.now() - start) / repeats


def draw_timer(rng):
    warmup, repeats = rng.randint(1, 3), rng.choice((1, 2, 2, 3, 4, 5))
    usual = rng.randint(400, 3_000)
    durations = [usual * rng.randint(3, 7) + rng.randint(1, 99) for _ in range(warmup)]
    durations += [usual + rng.randint(1, usual // 5) for _ in range(repeats + 1)]
    if repeats > 2:
        durations[rng.randrange(warmup, warmup + repeats)] = usual * 2 + rng.randint(1, 99)
    return {
        "launch": rng.randint(5, 60),
        "pending": usual * rng.randint(4, 9) + rng.randint(1, 99),
        "durations": durations,
        "warmup": warmup,
        "repeats": repeats,
    }


TIMER = Exercise(
    id="6.10",
    title="A timer that waits",
    notebook="06_mfu",
    kind="driver",
    driver="asynchronous_device",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    unit="µs",
    answer=median_time,
    cases=[
        {
            "launch": 11,
            "pending": 9_000,
            "durations": [7_301, 1_203, 1_450, 2_907, 1_219],
            "warmup": 1,
            "repeats": 4,
        },
        {"launch": 23, "pending": 4_007, "durations": [5_100, 2_950, 613, 640], "warmup": 2, "repeats": 1},
        {
            "launch": 7,
            "pending": 31_000,
            "durations": [8_017, 1_904, 2_111, 2_350],
            "warmup": 1,
            "repeats": 2,
        },
        {
            "launch": 41,
            "pending": 15_013,
            "durations": [9_001, 7_040, 3_907, 905, 951, 930, 1_880, 917, 939],
            "warmup": 3,
            "repeats": 5,
        },
    ],
    draw=draw_timer,
    case_text="launch {launch} µs, {pending} µs queued before, kernels of {durations} µs",
    mistakes=[
        Mistake(
            "not-waited-before",
            "Your first reading starts while the device still works on what was queued before, and counts that too.",
            Edit("        device.synchronize()\n        start", "        start"),
            see="06-clock",
        ),
        Mistake(
            "not-waited-after",
            "Each reading is the launch, {launch} µs: `work()` returns before the device has begun, and your clock stops without a wait.",
            Edit("work()\n        device.synchronize()\n        times", "work()\n        times"),
            see="06-clock",
        ),
        Mistake(
            "no-warm-up",
            "Your readings take in the first calls, which were to warm up and are slower.",
            Edit("for _ in range(warmup):\n        work()", "pass"),
            see="06-warmup",
        ),
        Mistake(
            "mean",
            "You took the mean of the readings; one interrupted call moves it.",
            Edit("statistics.median(times)", "statistics.mean(times)"),
            see="06-warmup",
        ),
        Mistake(
            "fastest",
            "You took the fastest reading; the median was asked for.",
            Edit("statistics.median(times)", "min(times)"),
            see="06-warmup",
        ),
        Mistake(
            "total",
            "That is the time of all {repeats} repeats together.",
            Edit("statistics.median(times)", "sum(times)"),
            see="06-warmup",
        ),
        Mistake(
            "one-clock-around-all",
            "One clock around all repeats gives their mean, and hides each launch behind the kernel before it.",
            one_clock_around_all,
            see="06-clock",
        ),
        Mistake(
            "slowest",
            "You took the slowest reading; the median was asked for.",
            Edit("statistics.median(times)", "max(times)"),
            see="06-warmup",
        ),
        Mistake(
            "upper-middle",
            "Of an even number of readings you took the upper middle one; the median is the mean of the two.",
            Edit("statistics.median(times)", "sorted(times)[len(times) // 2]"),
            see="06-ex10-prompt",
        ),
        Mistake(
            "clock-before-the-wait",
            "Your clock starts before the wait, so the first reading has in it what was queued before.",
            Edit(
                "        device.synchronize()\n        start = device.now()\n",
                "        start = device.now()\n        device.synchronize()\n",
            ),
            see="06-clock-wrong-ask",
        ),
        Mistake(
            "warm-up-timed",
            "You timed the warm-up too: {warmup} calls come first, without a reading.",
            [Edit("range(warmup)", "range(0)"), Edit("range(repeats)", "range(warmup + repeats)")],
            see="06-ex10-prompt",
        ),
        Mistake(
            "mean-without-the-first-wait",
            "You took the mean, and your first reading counts what was queued before.",
            [
                Edit("statistics.median(", "statistics.mean("),
                Edit("        device.synchronize()\n        start", "        start"),
            ],
            see="06-clock-wrong-ask",
        ),
    ],
    hints=[
        "When has a kernel ended, as far as the host can know?",
        "After `device.synchronize()`, and only then. The queue must also be empty when the clock starts.",
        "For each repeat: synchronize, start = now, work, synchronize, now − start; then the median.",
    ],
)

LOSS_READ = Exercise(
    id="6.11",
    title="Print the loss at every step: which budget changed?",
    notebook="06_mfu",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=2,
    answer="d",
    options={
        "a": "Arithmetic: the loss is computed once more to be printed.",
        "b": "Data movement: copying the loss to the host takes its share of the memory's bandwidth.",
        "c": "Storage: each printed loss keeps its graph alive.",
        "d": "None of the three: the host waits for the device and launches the next step late; t grows, and F does not.",
    },
    mistakes=[
        Mistake(
            "computed-again",
            "`loss.item()` reads a value that is there already; no FLOP is added.",
            "a",
            see="06-clock",
        ),
        Mistake(
            "copied",
            "It is four bytes a step, against gigabytes: what costs is the waiting.",
            "b",
            see="06-clock",
        ),
        Mistake("kept", "`.item()` makes a Python number, which keeps no graph.", "c", see="06-clock"),
    ],
    hints=[
        "What must have happened before `loss.item()` can return a number?",
        "The device must have finished everything queued before it: a synchronization.",
        "While the host waited it launched nothing, and so the device has nothing to do next.",
    ],
)


# -- a real step


def mfu_after(parts, faster, factor, peak):
    flops = sum(part["flops"] for part in parts.values())
    seconds = sum(part["seconds"] / (factor if name == faster else 1) for name, part in parts.items())
    return flops / (seconds * peak)


def mean_of_parts(parts, faster, factor, peak):
    shares = [
        part["flops"] / (part["seconds"] / (factor if name == faster else 1) * peak)
        for name, part in parts.items()
    ]
    return sum(shares) / len(shares)


def part(teraflops, milliseconds):
    return {"flops": int(teraflops * TERA), "seconds": milliseconds / 1000}


def draw_parts(rng):
    peak = rng.choice((121, 312, 756, 1307)) * TERA
    parts = {}
    for name, share in (("products", 0.7), ("attention", 0.3), ("norms", 0), ("update", 0)):
        seconds = rng.randint(20, 400) / 1000
        parts[name] = {"flops": int(peak * seconds * share * rng.uniform(0.5, 1)), "seconds": seconds}
    return {
        "parts": parts,
        "faster": rng.choice(sorted(parts)),
        "factor": rng.choice((1.5, 2, 2.5, 3, 4)),
        "peak": peak,
    }


def flops_divided_too(parts, faster, factor, peak):
    speed = {name: factor if name == faster else 1 for name in parts}
    flops = sum(part["flops"] / speed[name] for name, part in parts.items())
    return flops / (sum(part["seconds"] / speed[name] for name, part in parts.items()) * peak)


def flops_multiplied(parts, faster, factor, peak):
    flops = sum(part["flops"] * (factor if name == faster else 1) for name, part in parts.items())
    return flops / (sum(part["seconds"] for part in parts.values()) * peak)


def rest_for_gain(parts, faster, factor, peak):
    seconds = sum(part["seconds"] for part in parts.values()) - parts[faster]["seconds"] / factor
    return sum(part["flops"] for part in parts.values()) / (seconds * peak)


def sum_of_shares(parts, faster, factor, peak):
    return len(parts) * mean_of_parts(parts, faster, factor, peak)


FASTER_PART = Exercise(
    id="6.12",
    title="The missing row: one part made faster",
    notebook="06_mfu",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=5,
    answer=mfu_after,
    cases=[
        {
            "parts": {
                "products": part(90, 400),
                "attention": part(9, 180),
                "norms": part(0, 100),
                "update": part(0, 120),
            },
            "faster": "attention",
            "factor": 3,
            "peak": 312 * TERA,
        },
        {
            "parts": {
                "products": part(90, 400),
                "attention": part(9, 180),
                "norms": part(0, 100),
                "update": part(0, 120),
            },
            "faster": "update",
            "factor": 4,
            "peak": 312 * TERA,
        },
        {
            "parts": {
                "products": part(21, 75),
                "attention": part(5, 52),
                "norms": part(0, 31),
                "update": part(0, 11),
            },
            "faster": "products",
            "factor": 1.5,
            "peak": 756 * TERA,
        },
    ],
    draw=draw_parts,
    case_text="{faster} {factor} times as fast, {peak} FLOP/s",
    mistakes=[
        Mistake(
            "everything-faster",
            "You made the whole step {factor} times as fast; only {faster} is.",
            Edit("(factor if name == faster else 1)", "factor"),
            see="06-step-parts",
        ),
        Mistake(
            "nothing-faster",
            "That is the MFU before the change: {faster} still takes its old time.",
            Edit("(factor if name == faster else 1)", "1"),
            see="06-step-parts",
        ),
        Mistake(
            "the-others-faster",
            "You made every part but {faster} faster.",
            Edit("(factor if name == faster else 1)", "(1 if name == faster else factor)"),
            see="06-step-parts",
        ),
        Mistake(
            "slower",
            "You made {faster} slower: {factor} times as fast is its seconds divided by {factor}.",
            Edit('part["seconds"] / (factor', 'part["seconds"] * (factor'),
            see="06-step-parts",
        ),
        Mistake(
            "mean-of-shares",
            "You averaged the parts' own shares of the peak; a part that takes longer weighs more.",
            mean_of_parts,
            see="06-step-parts",
        ),
        Mistake(
            "only-that-part",
            "You took the FLOPs of {faster} alone; the numerator is the whole step's.",
            Edit('sum(part["flops"] for part in parts.values())', 'parts[faster]["flops"]'),
            see="06-step-parts",
        ),
        Mistake(
            "part-removed",
            "You took {faster} out altogether; it still takes its seconds divided by {factor}.",
            Edit(
                'part["seconds"] / (factor if name == faster else 1)',
                '(0 if name == faster else part["seconds"])',
            ),
            see="06-step-parts",
        ),
        Mistake(
            "flops-divided-too",
            "You divided the FLOPs of {faster} as well; it does the same work, sooner.",
            flops_divided_too,
            see="06-step-parts",
        ),
        Mistake(
            "flops-multiplied",
            "You multiplied the FLOPs of {faster}; the work stays, and the time falls.",
            flops_multiplied,
            see="06-step-parts",
        ),
        Mistake(
            "rest-for-gain",
            "You took off what {faster} still takes, s / {factor}; saved is the rest, s − s / {factor}.",
            rest_for_gain,
            see="06-step-parts",
        ),
        Mistake(
            "sum-of-shares",
            "You added up the parts' own shares of the peak; each is of another time.",
            sum_of_shares,
            see="06-step-parts",
        ),
        Mistake(
            "seconds",
            "That is the step's time after the change, in seconds; the MFU is FLOPs over that time and the peak.",
            Edit("flops / (seconds * peak)", "seconds"),
            see="06-ex12-prompt",
        ),
    ],
    hints=[
        "What does the change do to F_model, and what to t?",
        "F stays. t loses what the part took before, and gains that divided by the factor.",
        "sum of all FLOPs / ((sum of all seconds − s + s / factor) · peak), with s the part's seconds.",
    ],
)


def estimated_ns(flops, peak_tflops, share):
    peak = peak_tflops * 10**12
    return flops / (share * peak) * 10**9


FLOPS_TO_NS = Exercise(
    id="6.13",
    title="What is wrong in this calculator: nanoseconds from FLOPs",
    notebook="06_mfu",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=2,
    minutes=6,
    unit="ns",
    answer=estimated_ns,
    cases=[
        {"flops": 10**12, "peak_tflops": 989.5, "share": 0.75},
        {"flops": 6 * 10**9, "peak_tflops": 65, "share": 0.4},
        {"flops": 734_003_200, "peak_tflops": 312, "share": 0.9},
    ],
    draw=lambda rng: {
        "flops": rng.randint(10**6, 10**13),
        "peak_tflops": rng.choice((65, 121, 275, 312, 459, 756, 989.5)),
        "share": rng.randint(20, 95) / 100,
    },
    case_text="{flops} FLOP at {share} of {peak_tflops} TFLOP/s",
    mistakes=[
        Mistake(
            "macs",
            "You still halve the work. A multiply-add is two FLOPs in the count, and two in the peak.",
            Edit("return flops", "return flops / 2"),
            see="06-mfu-agree",
        ),
        Mistake(
            "peta",
            "That is a thousandth: a tera is 10^12, not 10^15. (Or it is in microseconds; nanoseconds were asked for.)",
            Edit("10**12", "10**15"),
            see="06-ex13-fault",
        ),
        Mistake(
            "unchanged",
            "Both faults are still there: the work is halved where the rate is not, and tera is not 10^15.",
            [Edit("return flops", "return flops / 2"), Edit("10**12", "10**15")],
            see="06-ex13-fault",
        ),
        Mistake(
            "share-upside-down",
            "You multiplied by the share: at {share} of the peak the work takes longer, not shorter.",
            Edit("flops / (share * peak)", "flops * share / peak"),
            see="06-ex13-prompt",
        ),
        Mistake(
            "in-seconds",
            "That is in seconds; a second is 10^9 nanoseconds.",
            Edit(" * 10**9", ""),
            see="06-ex13-prompt",
        ),
        Mistake(
            "share-left-out",
            "You took the whole peak; the product sustains {share} of it.",
            Edit("share * peak", "peak"),
            see="06-ex13-prompt",
        ),
        Mistake(
            "doubled",
            "You doubled the work. `flops` counts a multiply-add as two already: leave it as it is.",
            Edit("return flops", "return 2 * flops"),
            see="06-mfu-agree",
        ),
        Mistake(
            "tera-as-giga",
            "That is a thousand times the time: a tera is 10^12, not 10^9. (Or it is in picoseconds.)",
            Edit("10**12", "10**9"),
            see="06-ex13-prompt",
        ),
    ],
    hints=[
        "Write the unit behind each factor. Where do FLOPs meet something that is no FLOP/s?",
        "FLOP over FLOP/s is seconds: nothing is to be halved. How many FLOP/s is one TFLOP/s?",
        "flops / (share * peak_tflops * 10**12) * 10**9.",
    ],
)


# -- days


def calendar_days(parameters, tokens, devices, peak, mfu, waiting, stops, hours_each):
    seconds = 6 * parameters * tokens / (devices * peak * mfu)
    return seconds / 86_400 + stops * hours_each / 24


def draw_run(rng):
    return {
        "parameters": whole_number(rng, 10**9, 4 * 10**11, 10**8),
        "tokens": whole_number(rng, 10**11, 2 * 10**13, 10**10),
        "devices": rng.choice((96, 384, 768, 1_536, 6_144)),
        "peak": rng.choice((275, 312, 459, 756, 1307)) * TERA,
        "mfu": rng.randint(15, 60) / 100,
        "waiting": rng.randint(5, 45) / 100,
        "stops": rng.randint(3, 90),
        "hours_each": rng.choice((0.5, 1.5, 2, 2.5, 3, 5)),
    }


def waiting_on_all(parameters, tokens, devices, peak, mfu, waiting, stops, hours_each):
    return calendar_days(parameters, tokens, devices, peak, mfu, waiting, stops, hours_each) / (1 - waiting)


CALENDAR = Exercise(
    id="6.14",
    title="Days on the calendar",
    notebook="06_mfu",
    kind="function",
    level="core",
    difficulty="steady",
    points=2,
    minutes=6,
    unit="day",
    tolerance=1e-6,
    answer=calendar_days,
    cases=[
        {
            "parameters": 70 * 10**9,
            "tokens": 15 * 10**12,
            "devices": 1_024,
            "peak": 989_500 * 10**9,
            "mfu": 0.5,
            "waiting": 0.2,
            "stops": 78,
            "hours_each": 3,
        },
        {
            "parameters": 8 * 10**9,
            "tokens": 2 * 10**12,
            "devices": 96,
            "peak": 312 * TERA,
            "mfu": 0.4,
            "waiting": 0.1,
            "stops": 11,
            "hours_each": 1.5,
        },
        {
            "parameters": 175 * 10**9,
            "tokens": 300 * 10**9,
            "devices": 768,
            "peak": 275 * TERA,
            "mfu": 0.35,
            "waiting": 0.3,
            "stops": 5,
            "hours_each": 0.5,
        },
    ],
    draw=draw_run,
    case_text="{parameters} parameters, {tokens} tokens, {devices} devices, MFU {mfu}, waiting {waiting}, {stops} stops of {hours_each} h",
    mistakes=[
        Mistake(
            "charged-twice",
            "You charged the waiting again. It lengthened the steps that the MFU was measured on, so it is in the {mfu}.",
            Edit("peak * mfu", "peak * mfu * (1 - waiting)"),
            see="06-days-twice",
        ),
        Mistake(
            "charged-twice-on-top",
            "You added the waiting to the time. It lengthened the steps that the MFU was measured on, so it is in the {mfu}.",
            Edit("seconds / 86_400", "seconds * (1 + waiting) / 86_400"),
            see="06-days-twice",
        ),
        Mistake(
            "stops-left-out",
            "The {stops} interruptions are missing: they are no part of the MFU.",
            Edit(" + stops * hours_each / 24", ""),
            see="06-days-apart",
        ),
        Mistake(
            "one-stop",
            "You counted one interruption; there are {stops}.",
            Edit("stops * hours_each", "hours_each"),
            see="06-days-apart",
        ),
        Mistake(
            "hours-as-days",
            "The hours lost are added as days: 24 of them make one.",
            Edit("hours_each / 24", "hours_each"),
            see="06-days-apart",
        ),
        Mistake(
            "mfu-left-out",
            "You took the devices at their peak; they sustain {mfu} of it.",
            Edit("peak * mfu", "peak"),
            see="06-days",
        ),
        Mistake(
            "forward-only",
            "That is 2·P·T, the forward alone; training takes 6·P·T.",
            Edit("6 *", "2 *"),
            see="06-days",
        ),
        Mistake(
            "one-device",
            "You gave the run to one device; {devices} share it.",
            Edit("devices * peak", "peak"),
            see="06-days",
        ),
        Mistake(
            "mfu-upside-down",
            "You multiplied by the MFU: at {mfu} of the peak a run takes longer, not shorter.",
            Edit("(devices * peak * mfu)", "(devices * peak) * mfu"),
            see="06-days",
        ),
        Mistake(
            "waiting-taken-off",
            "You took the waiting off. It is time that passes, and is in the MFU of {mfu} already.",
            Edit("seconds / 86_400", "seconds * (1 - waiting) / 86_400"),
            see="06-days-twice",
        ),
        Mistake(
            "recompute-counted",
            "That is 8·P·T; an MFU has 6·P·T in it, whatever is recomputed.",
            Edit("6 *", "8 *"),
            see="06-hfu",
        ),
        Mistake(
            "fma-as-one",
            "That is 3·P·T over the peak, or 6·P·T over twice the peak: a multiply and its add are two FLOPs on both sides.",
            Edit("6 *", "3 *"),
            see="06-mfu-agree",
        ),
        Mistake(
            "waiting-on-all",
            "You charged the waiting again, and on the stops too. It is in the MFU of {mfu} already.",
            waiting_on_all,
            see="06-days-twice",
        ),
        Mistake(
            "stops-for-each-device",
            "You divided the stops among the devices; a stop stops all of them.",
            Edit("hours_each / 24", "hours_each / 24 / devices"),
            see="06-days-apart",
        ),
    ],
    hints=[
        "Two rows: what the training takes, and what the stops lose. Which inputs belong to which?",
        "6·P·T/(G·C·MFU) in days, and stops · hours_each in days. `waiting` is in the MFU already.",
        "6 * parameters * tokens / (devices * peak * mfu) / 86_400 + stops * hours_each / 24.",
    ],
)

TWICE_THE_DEVICES = Exercise(
    id="6.15",
    title="Twice the devices: which budget changed?",
    notebook="06_mfu",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="c",
    options={
        "a": "Arithmetic: twice the devices do twice the FLOPs, in the same 144 days.",
        "b": "None: the same FLOPs on twice the devices take half of the time, 72 days.",
        "c": (
            "Data movement: each device exchanges as many gradients for half of the arithmetic; 90 days, and a "
            "quarter more device-hours."
        ),
        "d": "Storage: each device holds half of the batch, so the run takes half of the device-hours.",
    },
    mistakes=[
        Mistake("work-grows", "6·P·T has no G in it: the run's FLOPs are the same.", "a", see="06-days"),
        Mistake(
            "share-kept",
            "It would be 72 days at an MFU of 0.5; it is 0.4, and the question is why.",
            "b",
            see="06-days",
        ),
        Mistake(
            "half-the-hours",
            "Device-hours are G·t: twice the devices for more than half of the days is more of them.",
            "d",
            see="06-days",
        ),
    ],
    hints=[
        "Which of F, G, C and MFU changed?",
        "The days are F/(G·C·MFU): F is the same, G twice, MFU 0.4 in place of 0.5.",
        "A device's share of the batch halves, and with it its products; the gradients it exchanges do not.",
    ],
)

EXERCISES = [
    RUN_FLOPS,
    SUM_INTENSITY,
    AUTOCAST,
    AT_PEAK,
    RIGHT_PEAK,
    MFU_FAULTS,
    RECOMPUTED,
    RECOMPUTE_BUDGET,
    LOG,
    TIMER,
    LOSS_READ,
    FASTER_PART,
    FLOPS_TO_NS,
    CALENDAR,
    TWICE_THE_DEVICES,
]
