"""Answers, hints and known mistakes of notebooks/05_roofline.ipynb."""

from lecture_lib.exercises.key import Edit, Exercise, Mistake

# Dense peak in FLOP/s and bandwidth in B/s, by the width of the operands; T4, V100 and TPUs have no sparsity.
DEVICES = (
    (989_500_000_000_000, 3_350_000_000_000),  # H100 SXM, BF16
    (1_979_000_000_000_000, 3_350_000_000_000),  # H100 SXM, FP8
    (312_000_000_000_000, 2_039_000_000_000),  # A100 SXM 80 GB, BF16
    (65_000_000_000_000, 320_000_000_000),  # T4, FP16
    (15_700_000_000_000, 900_000_000_000),  # V100 SXM, FP32
    (197_000_000_000_000, 819_000_000_000),  # TPU v5e, BF16
)

# -- recall

FLOPS = Exercise(
    id="5.1",
    title="The arithmetic of a product",
    notebook="05_roofline",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="GFLOP",
    answer="4.294967296 GFLOP",
    mistakes=[
        Mistake(
            "fma-as-one", "You counted a multiply and its add as one; they are two FLOPs.", "2.147 GFLOP"
        ),
        Mistake("whole-step", "That is forward and backward; the forward product is a third.", "12.88 GFLOP"),
        Mistake("one-row", "That is one row of X; there are 128.", "0.03355 GFLOP"),
        Mistake(
            "without-the-width",
            "Each output is a sum of 4096 products, so 4096 stands there twice.",
            "0.001048576 GFLOP",
        ),
    ],
    hints=[
        "Each of the outputs is a sum of 4096 products. How many outputs are there?",
        "128 × 4096 outputs, 2 × 4096 FLOPs each.",
        "2 × 128 × 4096 × 4096 FLOPs, divided by 10^9.",
    ],
)

BITS = Exercise(
    id="5.2",
    title="What a value in MXFP8 weighs",
    notebook="05_roofline",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="bit",
    answer="8.25 bit",
    mistakes=[
        Mistake("scale-left-out", "That is the value alone; its share of the scale counts.", "8 bit"),
        Mistake("scale-each", "That gives every value a scale of its own; 32 share one.", "16 bit"),
        Mistake("one-bit-shared", "The scale has 8 bits, not one: a 32nd of 8.", "8.03125 bit"),
        Mistake(
            "scale-of-four-bytes", "That scale would have 32 bits, as one in FP32; MXFP8's has 8.", "9 bit"
        ),
        Mistake("half-a-block", "That is a scale for every 16 values; in MXFP8 32 share one.", "8.5 bit"),
    ],
    hints=[
        "Count the bits of a whole block of 32 values, then divide.",
        "32 × 8 bits for the values and 8 for the scale.",
        "264 bits for 32 values.",
    ],
)

OUTPUT_BYTES = Exercise(
    id="5.3",
    title="The missing row: what a product moves",
    notebook="05_roofline",
    kind="quantity",
    level="recall",
    difficulty="warm-up",
    points=0,
    minutes=1,
    unit="MB",
    answer="2.818048 MB",
    mistakes=[
        Mistake("shape-of-x", "That is X again; Y has 11008 columns, as many as W.", "1.049 MB"),
        Mistake("as-fp32", "You gave each value four bytes; BF16 has two.", "5.636 MB"),
        Mistake("elements", "That is the number of values; each takes two bytes.", "1.409 MB"),
        Mistake("mib-for-mb", "It is 2.69 MiB (2^20 bytes each); a megabyte is 10^6 bytes.", "2.69 MB"),
        Mistake("bits-for-bytes", "That is in megabits: BF16 has 16 bits, two bytes.", "22.54 MB"),
        Mistake("all-three", "That is X, W and Y together; the row is Y alone.", "94.05 MB"),
        Mistake(
            "as-fp32-in-mib",
            "That is FP32, four bytes a value, and in MiB of 2^20 bytes; BF16 has two, and a megabyte is 10^6.",
            "5.375 MB",
        ),
    ],
    hints=[
        "What is the shape of Y = X·W?",
        "128 rows, as X; 11008 columns, as W.",
        "128 × 11008 × 2 bytes, divided by 10^6.",
    ],
)


# -- a product on the roofline


def rows_to_ridge(d_in, d_out, bytes_per_value, peak, bandwidth):
    from math import ceil

    ridge = peak / bandwidth
    gain = 2 * d_in * d_out - ridge * bytes_per_value * (d_in + d_out)
    if gain <= 0:
        return None
    return ceil(ridge * bytes_per_value * d_in * d_out / gain)


def ridge_rounded_up(d_in, d_out, bytes_per_value, peak, bandwidth):
    from math import ceil

    return ceil(peak / bandwidth)


def weights_alone(d_in, d_out, bytes_per_value, peak, bandwidth):
    from math import ceil

    return ceil(peak / bandwidth * bytes_per_value / 2)


def draw_ridge(rng):
    while True:
        d_in, d_out = rng.sample((512, 640, 896, 1536, 2560, 4096, 5120, 11008, 14336, 28672), 2)
        peak, bandwidth = rng.choice(DEVICES)
        case = {
            "d_in": d_in,
            "d_out": d_out,
            "bytes_per_value": rng.choice((1, 2, 4)),
            "peak": peak,
            "bandwidth": bandwidth,
        }
        # Exact in whole numbers; far from a whole result, so that no order of operations rounds to another one.
        over = peak * case["bytes_per_value"] * d_in * d_out
        gain = 2 * d_in * d_out * bandwidth - peak * case["bytes_per_value"] * (d_in + d_out)
        if gain < -bandwidth or (
            gain > bandwidth and over // gain < 10**6 and 0.01 < over % gain / gain < 0.99
        ):
            return case


H100 = {"peak": 989_500_000_000_000, "bandwidth": 3_350_000_000_000}

ROWS = Exercise(
    id="5.4",
    title="Rows to the ridge",
    notebook="05_roofline",
    kind="function",
    level="core",
    difficulty="steady",
    points=2,
    minutes=6,
    answer=rows_to_ridge,
    cases=[
        {"d_in": 4096, "d_out": 4096, "bytes_per_value": 2, **H100},
        {"d_in": 4096, "d_out": 16384, "bytes_per_value": 2, **H100},
        {"d_in": 512, "d_out": 512, "bytes_per_value": 2, **H100},
        {
            "d_in": 8192,
            "d_out": 3072,
            "bytes_per_value": 1,
            "peak": 1_979_000_000_000_000,
            "bandwidth": 3_350_000_000_000,
        },
        {
            "d_in": 640,
            "d_out": 2560,
            "bytes_per_value": 4,
            "peak": 15_700_000_000_000,
            "bandwidth": 900_000_000_000,
        },
        # A toy device, and one whose ridge a product of any number of rows would meet and never reaches.
        {"d_in": 2, "d_out": 3, "bytes_per_value": 1, "peak": 23, "bandwidth": 10},
        {"d_in": 200, "d_out": 200, "bytes_per_value": 2, "peak": 100, "bandwidth": 1},
    ],
    draw=draw_ridge,
    case_text="d_in={d_in}, d_out={d_out}, {bytes_per_value} B a value, {peak} FLOP/s, {bandwidth} B/s",
    mistakes=[
        Mistake(
            "ridge-rounded-up",
            "You set the intensity equal to M. That is its limit for large d in two bytes; here inputs and outputs"
            " move too, so it takes more rows: 346 at d = 4096 on an H100.",
            ridge_rounded_up,
            see="05-gemm-small",
        ),
        Mistake(
            "weights-alone",
            "You counted the traffic of the weights alone. That is its limit for large d; here inputs and outputs "
            "move too, so it takes more rows: 346 at d = 4096 on an H100 in BF16.",
            weights_alone,
            see="05-gemm-small",
        ),
        Mistake(
            "one-row-short",
            "At {got} rows the bandwidth is still the limit: the smallest whole number that reaches the ridge "
            "is one more.",
            Edit("return ceil(", "return int("),
            see="05-ridge",
        ),
        Mistake(
            "rounded-to-nearest",
            "You rounded to the nearest whole number: {got} is below the ridge in this case. Any part of a row takes "
            "a whole row more.",
            Edit("return ceil(", "return round("),
            see="05-ex4-prompt",
        ),
        Mistake(
            "not-a-whole-number",
            "{got} rows are no whole number: round up to the smallest one that reaches the ridge.",
            Edit("return ceil(", "return ("),
            see="05-ex4-prompt",
        ),
        Mistake(
            "fma-as-one",
            "Your intensity is half of what it should be: a multiply and its add are two FLOPs. (Twice the peak, as with "
            "sparsity, would look the same; `peak` is right as given.)",
            Edit("gain = 2 * ", "gain = "),
            see="05-gemm",
        ),
        Mistake(
            "elements-for-bytes",
            "Your intensity is {bytes_per_value} times what it should be. Traffic is in bytes, and each value has "
            "{bytes_per_value}.",
            [
                Edit("ridge * bytes_per_value * (d_in", "ridge * (d_in"),
                Edit("ridge * bytes_per_value * d_in", "ridge * d_in"),
            ],
            see="05-gemm",
        ),
        Mistake(
            "no-number-suffices",
            "For d up to 2 × the ridge no number of rows is enough: the intensity stays under d/2. Say so with "
            "`None`.",
            Edit("if gain <= 0:", "if False:"),
            see="05-ex4-prompt",
        ),
        Mistake(
            "inputs-left-out",
            "You left X out of the traffic: M × d_in values are read as well.",
            Edit("(d_in + d_out)", "d_out"),
            see="05-gemm",
        ),
        Mistake(
            "outputs-left-out",
            "You left Y out of the traffic: M × d_out values are written as well.",
            Edit("(d_in + d_out)", "d_in"),
            see="05-gemm",
        ),
        Mistake(
            "ridge-inverted",
            "The ridge is C/β, FLOP/s over B/s; you divided the other way round.",
            Edit("peak / bandwidth", "bandwidth / peak"),
            see="05-ridge",
        ),
        Mistake(
            "zero-for-none",
            "0 rows do not reach the ridge. Where no number of rows does, the answer is `None`.",
            Edit("return None", "return 0"),
            see="05-ex4-prompt",
        ),
        Mistake(
            "bits-for-bytes",
            "Your traffic is in bits: bytes_per_value and the bandwidth are in bytes, with nothing to multiply by 8.",
            Edit("ridge = peak / bandwidth", "ridge = 8 * peak / bandwidth"),
            see="05-gemm",
        ),
    ],
    hints=[
        "Write F/Q ≥ C/β with F and Q of the product, both in M.",
        "2·M·d_in·d_out · β ≥ C · s·(M·d_in + d_in·d_out + M·d_out). Collect what has M in it on one side.",
        "M = ⌈I*·s·d_in·d_out / (2·d_in·d_out − I*·s·(d_in + d_out))⌉, and None where the denominator is not "
        "positive.",
    ],
)


def least_time(M, d_in, d_out, x_bytes, w_bytes, y_bytes, peak, bandwidth):
    flops = 2 * M * d_in * d_out
    traffic = x_bytes * M * d_in + w_bytes * d_in * d_out + y_bytes * M * d_out
    return max(flops / peak, traffic / bandwidth)


def draw_product(rng):
    d_in, d_out = rng.sample((640, 1536, 4096, 5120, 11008, 14336), 2)
    peak, bandwidth = rng.choice(DEVICES)
    x_bytes, w_bytes, y_bytes = rng.sample((1, 2, 4), 3)
    return {
        "M": rng.choice((1, 3, 17, 130, 900, 7000)),
        "d_in": d_in,
        "d_out": d_out,
        "x_bytes": x_bytes,
        "w_bytes": w_bytes,
        "y_bytes": y_bytes,
        "peak": peak,
        "bandwidth": bandwidth,
    }


def exact_count(M, d_in, d_out, x_bytes, w_bytes, y_bytes, peak, bandwidth):
    flops = M * d_out * (2 * d_in - 1)
    traffic = x_bytes * M * d_in + w_bytes * d_in * d_out + y_bytes * M * d_out
    return max(flops / peak, traffic / bandwidth)


LEAST_TIME = Exercise(
    id="5.5",
    title="A product's least time, each matrix in its own width",
    notebook="05_roofline",
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    unit="s",
    tolerance=1e-6,
    answer=least_time,
    cases=[
        {"M": 1, "d_in": 4096, "d_out": 14336, "x_bytes": 2, "w_bytes": 1, "y_bytes": 4, **H100},
        {"M": 7000, "d_in": 5120, "d_out": 1536, "x_bytes": 2, "w_bytes": 1, "y_bytes": 4, **H100},
        {
            "M": 130,
            "d_in": 640,
            "d_out": 11008,
            "x_bytes": 4,
            "w_bytes": 2,
            "y_bytes": 1,
            "peak": 65_000_000_000_000,
            "bandwidth": 320_000_000_000,
        },
        {
            "M": 17,
            "d_in": 11008,
            "d_out": 640,
            "x_bytes": 1,
            "w_bytes": 4,
            "y_bytes": 2,
            "peak": 15_700_000_000_000,
            "bandwidth": 900_000_000_000,
        },
    ],
    draw=draw_product,
    case_text=(
        "M={M}, {d_in}→{d_out}; X, W, Y in {x_bytes}, {w_bytes}, {y_bytes} B; {peak} FLOP/s, {bandwidth} B/s"
    ),
    mistakes=[
        Mistake(
            "sum-of-both",
            "You added the two times. The bound lets arithmetic and traffic overlap: the longer one counts.",
            Edit("max(flops / peak, traffic / bandwidth)", "flops / peak + traffic / bandwidth"),
            see="05-bound",
        ),
        Mistake(
            "shorter-of-both",
            "You took the shorter time; both have to pass, so the longer one is the bound.",
            Edit("max(", "min("),
            see="05-bound",
        ),
        Mistake(
            "arithmetic-alone",
            "That is the time of the arithmetic alone; in this case the bytes take longer.",
            Edit("max(flops / peak, traffic / bandwidth)", "flops / peak"),
            see="05-bound",
        ),
        Mistake(
            "traffic-alone",
            "That is the time of the bytes alone; in this case the arithmetic takes longer.",
            Edit("max(flops / peak, traffic / bandwidth)", "traffic / bandwidth"),
            see="05-bound",
        ),
        Mistake(
            "fma-as-one",
            "You counted a multiply and its add as one; they are two FLOPs.",
            Edit("flops = 2 * ", "flops = "),
            see="05-gemm",
        ),
        Mistake(
            "weights-for-each-row",
            "You read W once for each of the {M} rows. The rows share one reading; that is how a product earns its "
            "intensity.",
            Edit("w_bytes * d_in", "w_bytes * M * d_in"),
            see="05-gemm",
        ),
        Mistake(
            "inputs-left-out",
            "You left X out of the traffic: M × d_in values are read as well.",
            Edit("x_bytes * M * d_in + ", ""),
            see="05-gemm",
        ),
        Mistake(
            "outputs-left-out",
            "You left Y out of the traffic: M × d_out values are written as well.",
            Edit(" + y_bytes * M * d_out", ""),
            see="05-gemm",
        ),
        Mistake(
            "all-as-the-weights",
            "You gave X and Y the weights' width, {w_bytes} bytes; they have {x_bytes} and {y_bytes}.",
            [Edit("x_bytes * M", "w_bytes * M"), Edit("y_bytes * M", "w_bytes * M")],
            see="05-ex5-prompt",
        ),
        Mistake(
            "exact-count",
            "You counted 2·d_in − 1 FLOPs for each output. The roofline takes the leading count, 2·M·d_in·d_out.",
            exact_count,
            see="05-gemm",
        ),
        Mistake(
            "all-as-the-inputs",
            "You gave W and Y the width of X, {x_bytes} bytes; they have {w_bytes} and {y_bytes}.",
            [Edit("w_bytes * d_in", "x_bytes * d_in"), Edit("y_bytes * M", "x_bytes * M")],
            see="05-ex5-prompt",
        ),
        Mistake(
            "output-as-wide-as-the-input",
            "You gave Y the shape of X; it has M × d_out values.",
            Edit("y_bytes * M * d_out", "y_bytes * M * d_in"),
            see="05-gemm",
        ),
        Mistake(
            "rates-exchanged",
            "You divided FLOPs by the bandwidth and bytes by the peak; it is the other way round.",
            Edit("flops / peak, traffic / bandwidth", "flops / bandwidth, traffic / peak"),
            see="05-bound",
        ),
    ],
    hints=[
        "Two times, of the FLOPs and of the bytes. Which of them is the bound?",
        "X has M·d_in values, W d_in·d_out, Y M·d_out; multiply each by its own width.",
        "max(2·M·d_in·d_out / peak, (x_bytes·M·d_in + w_bytes·d_in·d_out + y_bytes·M·d_out) / bandwidth).",
    ],
)


def estimated_ns(flops, traffic, peak_tflops, gb_per_s):
    arithmetic = flops / (0.75 * peak_tflops * 1e12) * 1e9
    movement = traffic / (gb_per_s * 1e9) * 1e9
    return max(arithmetic, movement)


def draw_estimate(rng):
    return {
        "flops": rng.choice((10**9, 10**10, 10**11, 10**12)) + rng.randint(0, 10**8),
        "traffic": rng.randint(10**6, 10**9),
        "peak_tflops": rng.choice((989.5, 312.0, 65.0, 121.0, 15.7, 197.0)),
        "gb_per_s": rng.choice((3350, 2039, 320, 300, 900, 819)),
    }


ESTIMATE = Exercise(
    id="5.6",
    title="What is wrong in this calculator: nanoseconds",
    notebook="05_roofline",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=6,
    unit="ns",
    tolerance=1e-6,
    answer=estimated_ns,
    cases=[
        {"flops": 10**12, "traffic": 10**8, "peak_tflops": 989.5, "gb_per_s": 3350},
        {"flops": 4_294_967_296, "traffic": 35_651_584, "peak_tflops": 989.5, "gb_per_s": 3350},
        {"flops": 10**10, "traffic": 12_000_000, "peak_tflops": 65.0, "gb_per_s": 320},
    ],
    draw=draw_estimate,
    case_text="{flops} FLOP, {traffic} B, {peak_tflops} TFLOP/s, {gb_per_s} GB/s",
    mistakes=[
        Mistake(
            "halved-into-macs",
            "The work is still halved. A peak in FLOP/s counts a multiply and its add as two, so the work has to "
            "as well.",
            Edit("arithmetic = flops /", "arithmetic = flops / 2 /"),
            see="05-ex6-fault",
        ),
        Mistake(
            "unchanged",
            "That is the calculator's own figure: the work is halved, and the bytes are left out.",
            [
                Edit("arithmetic = flops /", "arithmetic = flops / 2 /"),
                Edit("max(arithmetic, movement)", "arithmetic"),
            ],
            see="05-ex6-fault",
        ),
        Mistake(
            "traffic-left-out",
            "The bytes are left out: in this case moving them takes longer than the arithmetic.",
            Edit("max(arithmetic, movement)", "arithmetic"),
            see="05-bound",
        ),
        Mistake(
            "whole-peak",
            "You divided by the whole peak; the calculator reckons with three quarters of it.",
            Edit("0.75 * ", ""),
            see="05-ex6-prompt",
        ),
        Mistake(
            "faster-than-the-peak",
            "Three quarters of the peak take longer than the whole peak, not shorter: 0.75 belongs under the line.",
            Edit("(0.75 * peak_tflops * 1e12)", "(peak_tflops * 1e12) * 0.75"),
            see="05-ex6-prompt",
        ),
        Mistake(
            "sum-of-both",
            "You added the two times. The bound lets them overlap: the longer one counts.",
            Edit("max(arithmetic, movement)", "arithmetic + movement"),
            see="05-bound",
        ),
        Mistake(
            "thousand-times",
            "That is a thousandth of the time: a second is 10^9 ns, and 10^6 µs.",
            [
                Edit("peak_tflops * 1e12) * 1e9", "peak_tflops * 1e12) * 1e6"),
                Edit("(gb_per_s * 1e9) * 1e9", "(gb_per_s * 1e9) * 1e6"),
            ],
            see="05-ex6-prompt",
        ),
        Mistake(
            "three-quarters-of-both",
            "You took three quarters of the bandwidth too; bytes move at the whole of it here.",
            Edit("(gb_per_s * 1e9)", "(0.75 * gb_per_s * 1e9)"),
            see="05-ex6-prompt",
        ),
        Mistake(
            "gib-for-gb",
            "You took a GB for 2^30 bytes; it is 10^9.",
            Edit("(gb_per_s * 1e9)", "(gb_per_s * 2**30)"),
            see="05-ex6-prompt",
        ),
        Mistake(
            "bits-for-bytes",
            "You took GB/s for gigabits: traffic and bandwidth are both in bytes.",
            Edit("movement = traffic", "movement = 8 * traffic"),
            see="05-ex6-prompt",
        ),
        Mistake(
            "doubled",
            "You doubled the work. `flops` counts a multiply and its add as two already: leave it as it is.",
            Edit("arithmetic = flops", "arithmetic = 2 * flops"),
            see="05-ex6-fault",
        ),
        Mistake(
            "shorter-of-both",
            "You took the shorter time; both have to pass, so the longer one is the bound.",
            Edit("max(", "min("),
            see="05-bound",
        ),
    ],
    hints=[
        "Does the work count a multiply and its add the same way as the peak does?",
        "Do not halve. Then ask which of the two times is the bound.",
        "max(flops / (0.75 · peak_tflops · 10^12), traffic / (gb_per_s · 10^9)), times 10^9.",
    ],
)


def dense_ridge(printed_tflops, with_sparsity, bus_bits, gbit_per_pin):
    dense = printed_tflops / 2 if with_sparsity else printed_tflops
    gb_per_s = bus_bits * gbit_per_pin / 8
    return dense * 1e12 / (gb_per_s * 1e9)


def draw_sheet(rng):
    return {
        "printed_tflops": rng.choice((242, 65, 125, 250, 660.6, 142, 838, 419.5)),
        "with_sparsity": rng.choice((True, False)),
        "bus_bits": rng.choice((192, 256, 320, 384, 512, 4096, 5120)),
        "gbit_per_pin": rng.choice((1.75, 5.25, 10, 12.5, 14, 21, 28)),
    }


SHEET = Exercise(
    id="5.7",
    title="What is wrong in this calculator: a table of devices",
    notebook="05_roofline",
    kind="function",
    level="stretch",
    difficulty="steady",
    points=2,
    minutes=6,
    unit="FLOP/B",
    tolerance=1e-6,
    answer=dense_ridge,
    cases=[
        {"printed_tflops": 242, "with_sparsity": True, "bus_bits": 192, "gbit_per_pin": 12.5},
        {"printed_tflops": 65, "with_sparsity": False, "bus_bits": 256, "gbit_per_pin": 10},
        {"printed_tflops": 330.3, "with_sparsity": True, "bus_bits": 384, "gbit_per_pin": 21},
    ],
    draw=draw_sheet,
    case_text="{printed_tflops} TFLOP/s printed, sparsity {with_sparsity}, {bus_bits} pins of {gbit_per_pin} Gbit/s",
    mistakes=[
        Mistake(
            "sparse-peak",
            "That takes the figure printed for structured sparsity; a dense product has half of it.",
            Edit("printed_tflops / 2 if with_sparsity else printed_tflops", "printed_tflops"),
            see="05-sparse",
        ),
        Mistake(
            "always-halved",
            "You halved a figure that is dense already: this device has no sparsity to print.",
            Edit("printed_tflops / 2 if with_sparsity else printed_tflops", "printed_tflops / 2"),
            see="05-sparse",
        ),
        Mistake(
            "halved-the-wrong-one",
            "You halved the dense figure and left the sparse one whole; it is the other way round.",
            Edit(
                "printed_tflops / 2 if with_sparsity else printed_tflops",
                "printed_tflops if with_sparsity else printed_tflops / 2",
            ),
            see="05-sparse",
        ),
        Mistake(
            "bits-for-bytes",
            "A pin moves bits; eight of them are a byte.",
            Edit(" / 8", ""),
            see="05-ex7-prompt",
        ),
        Mistake(
            "tera-over-giga",
            "Tera over giga is a thousand: bring both to FLOP/s and B/s before you divide.",
            Edit("dense * 1e12 / (gb_per_s * 1e9)", "dense / gb_per_s"),
            see="05-ridge",
        ),
        Mistake(
            "inverted",
            "The ridge is C/β, FLOP/s over B/s; you divided the other way round.",
            Edit("dense * 1e12 / (gb_per_s * 1e9)", "gb_per_s * 1e9 / (dense * 1e12)"),
            see="05-ridge",
        ),
        Mistake(
            "doubled",
            "You doubled the figure printed with sparsity; it is twice the dense one already, so halve it.",
            Edit("printed_tflops / 2 if", "printed_tflops * 2 if"),
            see="05-sparse",
        ),
        Mistake(
            "quartered",
            "You took a quarter of the figure printed with sparsity; a dense product reaches half of it.",
            Edit("printed_tflops / 2 if", "printed_tflops / 4 if"),
            see="05-sparse",
        ),
        Mistake(
            "eight-twice",
            "You divided by 8 twice: eight bits are one byte.",
            Edit(" / 8", " / 64"),
            see="05-ex7-prompt",
        ),
    ],
    hints=[
        "Two figures of the table are not what their columns say. What should the peak be, and what the bandwidth?",
        "Halve the peak only where it was printed with sparsity. Bandwidth is pins × Gbit/s a pin, in bytes.",
        "dense · 10^12 / (bus_bits · gbit_per_pin / 8 · 10^9).",
    ],
)

NARROW = Exercise(
    id="5.8",
    title="Weights in one byte: which budget changed?",
    notebook="05_roofline",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="b",
    options={
        "a": "Arithmetic: the peak for one-byte operands is twice as high, so the product takes half the time.",
        "b": "Data movement: W is nearly all of the traffic and has half the bytes; the FLOPs are the same.",
        "c": "Storage alone: half the memory, but the same FLOPs take the same time.",
        "d": "None: the intensity of one row is 1 FLOP/B whatever the width.",
    },
    mistakes=[
        Mistake(
            "peak-doubled",
            "The peak doubles, but at M = 1 it was not the limit: 0.03 µs of arithmetic beside 10 µs of traffic.",
            "a",
            see="05-bound",
        ),
        Mistake(
            "flops-take-the-time",
            "At M = 1 the FLOPs do not set the time; the bytes do, and they are half as many.",
            "c",
            see="05-bound",
        ),
        Mistake(
            "intensity-stays-one",
            "The intensity of one row is 2 FLOPs for each value of W, so 2/s: 1 in two bytes, 2 in one.",
            "d",
            see="05-gemm-small",
        ),
    ],
    hints=[
        "Which of the two times of the bound is the longer one at M = 1?",
        "Q/β. What happens to Q when each value of W takes one byte?",
        "W is 33.6 MB of 33.6 MB moved, and becomes 16.8 MB.",
    ],
)


# -- decoding


def cache_bytes(batch, context, layers, kv_heads, head_dim, bytes_per_value):
    return 2 * batch * context * layers * kv_heads * head_dim * bytes_per_value


def draw_cache(rng):
    return {
        "batch": rng.randint(2, 64),
        "context": rng.randint(100, 9000),
        "layers": rng.choice((16, 28, 32, 48, 80)),
        "kv_heads": rng.choice((1, 4, 8, 40)),
        "head_dim": rng.choice((64, 96, 128, 256)),
        "bytes_per_value": rng.choice((1, 2, 4)),
    }


CACHE = Exercise(
    id="5.9",
    title="The missing row: caches",
    notebook="05_roofline",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=3,
    unit="B",
    answer=cache_bytes,
    cases=[
        {
            "batch": 16,
            "context": 8192,
            "layers": 32,
            "kv_heads": 8,
            "head_dim": 128,
            "bytes_per_value": 2,
        },
        {"batch": 3, "context": 7, "layers": 11, "kv_heads": 5, "head_dim": 13, "bytes_per_value": 1},
        {"batch": 9, "context": 1000, "layers": 28, "kv_heads": 4, "head_dim": 96, "bytes_per_value": 4},
    ],
    draw=draw_cache,
    case_text=(
        "{batch} sequences, context {context}, {layers} layers, {kv_heads} key heads of {head_dim}, "
        "{bytes_per_value} B a value"
    ),
    mistakes=[
        Mistake(
            "keys-alone",
            "That is half of it: keys and values are both kept, and both are read.",
            Edit("2 * ", ""),
            see="05-decode-cache",
        ),
        Mistake(
            "one-sequence",
            "That is the cache of one sequence; each of the {batch} has its own.",
            Edit("batch * ", ""),
            see="05-decode-cache",
        ),
        Mistake(
            "one-layer",
            "That is one layer; each of the {layers} keeps keys and values of its own.",
            Edit("layers * ", ""),
            see="05-decode-cache",
        ),
        Mistake(
            "new-position-alone",
            "That is the new position alone; its query meets all {context} positions of the context.",
            Edit("context * ", ""),
            see="05-decode-cache",
        ),
        Mistake(
            "elements",
            "That is the number of values; each takes {bytes_per_value} bytes.",
            Edit(" * bytes_per_value", ""),
            see="05-decode-cache",
        ),
        Mistake(
            "twice-too-many",
            "That is twice too many: one 2 stands for keys and values, and each value has {bytes_per_value} bytes.",
            Edit("2 * ", "4 * "),
            see="05-decode-cache",
        ),
        Mistake(
            "one-position-short",
            "You left one position out: the new one has a key and a value too, and is one of the {context}.",
            Edit("context * ", "(context - 1) * "),
            see="05-decode-cache",
        ),
        Mistake(
            "one-position-more",
            "You counted one position more; the new one is among the {context}.",
            Edit("context * ", "(context + 1) * "),
            see="05-decode-cache",
        ),
    ],
    hints=[
        "What does one position keep in one layer?",
        "A key and a value of kv_heads · head_dim each; then layers, positions, sequences.",
        "2 · batch · context · layers · kv_heads · head_dim · bytes_per_value.",
    ],
)


def tokens_per_second(parameters, batch, cache, bytes_per_value, peak, bandwidth):
    flops = 2 * parameters * batch
    traffic = bytes_per_value * parameters + batch * cache
    return batch / max(flops / peak, traffic / bandwidth)


def draw_decoding(rng):
    peak, bandwidth = rng.choice(DEVICES)
    return {
        "parameters": rng.randint(10**9, 7 * 10**10),
        "batch": rng.choice((2, 7, 30, 130, 700)),
        "cache": rng.choice((0, 10**5, 3 * 10**6, 10**8, 2 * 10**9)) + rng.randint(1, 1000),
        "bytes_per_value": rng.choice((1, 2, 4)),
        "peak": peak,
        "bandwidth": bandwidth,
    }


DECODE = Exercise(
    id="5.10",
    title="Tokens a second at most",
    notebook="05_roofline",
    kind="function",
    level="core",
    difficulty="steady",
    points=3,
    minutes=8,
    unit="token/s",
    tolerance=1e-6,
    answer=tokens_per_second,
    cases=[
        {"parameters": 7_504_658_432, "batch": 16, "cache": 1_073_741_824, "bytes_per_value": 2, **H100},
        {"parameters": 7_504_658_432, "batch": 700, "cache": 131_072, "bytes_per_value": 2, **H100},
        {
            "parameters": 1_235_814_400,
            "batch": 7,
            "cache": 33_554_432,
            "bytes_per_value": 1,
            "peak": 65_000_000_000_000,
            "bandwidth": 320_000_000_000,
        },
    ],
    draw=draw_decoding,
    case_text=(
        "{parameters} parameters of {bytes_per_value} B, {batch} sequences, {cache} B of cache each, "
        "{peak} FLOP/s, {bandwidth} B/s"
    ),
    mistakes=[
        Mistake(
            "weights-for-each-sequence",
            "You read the weights once for each of the {batch} sequences; they share one reading.",
            Edit("bytes_per_value * parameters + batch", "bytes_per_value * parameters * batch + batch"),
            see="05-decode",
        ),
        Mistake(
            "one-cache",
            "You read one cache; each of the {batch} sequences has its own, and shares it with no other.",
            Edit("batch * cache", "cache"),
            see="05-decode-cache",
        ),
        Mistake(
            "caches-left-out",
            "You left the caches out of the traffic: {cache} bytes for each sequence.",
            Edit(" + batch * cache", ""),
            see="05-decode-cache",
        ),
        Mistake(
            "steps-a-second",
            "That is steps a second; each step makes a token for each of the {batch} sequences.",
            Edit("batch / max(", "1 / max("),
            see="05-decode",
        ),
        Mistake(
            "bandwidth-alone",
            "That lets the bandwidth alone set the time; with the FLOPs of all {batch} sequences, arithmetic takes longer.",
            Edit("max(flops / peak, traffic / bandwidth)", "(traffic / bandwidth)"),
            see="05-bound",
        ),
        Mistake(
            "arithmetic-alone",
            "That lets the arithmetic alone set the time; here the bytes take longer.",
            Edit("max(flops / peak, traffic / bandwidth)", "(flops / peak)"),
            see="05-bound",
        ),
        Mistake(
            "fma-as-one",
            "You counted a multiply and its add as one; a parameter takes two FLOPs for each token.",
            Edit("flops = 2 * ", "flops = "),
            see="05-decode",
        ),
        Mistake(
            "sum-of-both",
            "You added the two times. The bound lets them overlap: the longer one counts.",
            Edit("max(flops / peak, traffic / bandwidth)", "(flops / peak + traffic / bandwidth)"),
            see="05-bound",
        ),
        Mistake(
            "training-count",
            "6 FLOPs for each parameter is training; decoding is a forward alone, 2.",
            Edit("flops = 2 * ", "flops = 6 * "),
            see="05-decode",
        ),
        Mistake(
            "cache-in-values",
            "`cache` is in bytes already; you multiplied it by the bytes of a value.",
            Edit("batch * cache", "batch * cache * bytes_per_value"),
            see="05-ex10-prompt",
        ),
        Mistake(
            "shorter-of-both",
            "You took the shorter of the two times; both have to pass, so the longer one is the bound.",
            Edit("max(", "min("),
            see="05-bound",
        ),
        Mistake(
            "seconds-for-a-token",
            "That is the time of a token; tokens a second are its inverse.",
            Edit(
                "batch / max(flops / peak, traffic / bandwidth)",
                "max(flops / peak, traffic / bandwidth) / batch",
            ),
            see="05-decode",
        ),
    ],
    hints=[
        "First the least time of one step, which makes one token for each sequence.",
        "F = 2·P·b. Q has the weights once, and each sequence's cache.",
        "batch / max(2·P·batch / peak, (bytes_per_value·P + batch·cache) / bandwidth).",
    ],
)

CONCURRENCY = Exercise(
    id="5.11",
    title="Twice as many sequences: which budget changed?",
    notebook="05_roofline",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="c",
    options={
        "a": "None: the weights are read once for all of them, so tokens a second double.",
        "b": "Arithmetic: twice the FLOPs, and the ridge is passed.",
        "c": "Data movement: the caches double, and at 16 they are more than the weights already.",
        "d": "Data movement: the weights are read twice as often.",
    },
    mistakes=[
        Mistake(
            "weights-are-all",
            "The weights are shared; a cache is not. At a context of 8,192 each sequence brings 1.07 GB of its own.",
            "a",
            see="05-decode-cache",
        ),
        Mistake(
            "ridge-passed",
            "The FLOPs double, and still take less than a tenth of the time that the bytes take.",
            "b",
            see="05-decode-cache",
        ),
        Mistake(
            "weights-twice",
            "One reading of the weights serves all sequences of a step, 16 or 32.",
            "d",
            see="05-decode",
        ),
    ],
    hints=[
        "Write the step's traffic as two rows, for 16 sequences and for 32.",
        "Weights: 15.0 GB both times. Caches: 16 × 1.07 GB, then 32 × 1.07 GB.",
        "32.2 GB become 49.4 GB, so a step takes 1.53 times as long and makes twice as many tokens.",
    ],
)


# -- tiles


def weight_traffic(M, d_in, d_out, m, n, bytes_per_value):
    rows_of_tiles = -(-M // m)
    return bytes_per_value * d_in * d_out * rows_of_tiles


def draw_tiles(rng):
    m, n = rng.sample((32, 48, 64, 96, 128, 160), 2)
    return {
        "M": rng.choice((rng.randint(200, 9000), m * rng.randint(3, 60))),
        "d_in": rng.randint(200, 9000),
        "d_out": rng.randint(200, 9000),
        "m": m,
        "n": n,
        "bytes_per_value": rng.choice((1, 2, 4)),
    }


def input_traffic(M, d_in, d_out, m, n, bytes_per_value):
    return bytes_per_value * M * d_in * -(-d_out // n)


TILE_ROW = Exercise(
    id="5.12",
    title="The missing row: the weights, read again",
    notebook="05_roofline",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=1,
    minutes=4,
    unit="B",
    answer=weight_traffic,
    cases=[
        {"M": 300, "d_in": 1000, "d_out": 700, "m": 128, "n": 64, "bytes_per_value": 2},
        {"M": 17, "d_in": 30, "d_out": 50, "m": 5, "n": 7, "bytes_per_value": 4},
        {"M": 4096, "d_in": 4096, "d_out": 14336, "m": 256, "n": 128, "bytes_per_value": 1},
    ],
    draw=draw_tiles,
    case_text="X {M} × {d_in}, W {d_in} × {d_out}, tiles of {m} × {n}, {bytes_per_value} B a value",
    mistakes=[
        Mistake(
            "read-once",
            "That is W read once. A tile keeps only its own {m} rows of Y on chip; the next {m} rows read W again.",
            Edit(" * rows_of_tiles", ""),
            see="05-tiles",
        ),
        Mistake(
            "columns-of-tiles",
            "You read W once for each column of tiles; that is how often X is read. W is read for each row of them.",
            Edit("-(-M // m)", "-(-d_out // n)"),
            see="05-tiles",
        ),
        Mistake(
            "last-tile-dropped",
            "You dropped the tiles of the last rows: {M} is no multiple of {m}, and a part of a tile reads W as well.",
            Edit("-(-M // m)", "M // m"),
            see="05-tiles",
        ),
        Mistake(
            "for-each-row",
            "You read W for each row of X; the {m} rows of a tile share one reading.",
            Edit("-(-M // m)", "M"),
            see="05-tiles",
        ),
        Mistake(
            "for-each-tile",
            "You read all of W for each tile. A tile reads its own {n} columns of W; a whole row of tiles reads all.",
            Edit("* rows_of_tiles", "* rows_of_tiles * -(-d_out // n)"),
            see="05-tiles",
        ),
        Mistake(
            "elements",
            "That is the number of values read; each takes {bytes_per_value} bytes.",
            Edit("bytes_per_value * ", ""),
            see="05-tiles",
        ),
        Mistake(
            "unrounded",
            "You took {M}/{m} rows of tiles; a part of a tile reads W as well, so the number is whole: round it up.",
            Edit("-(-M // m)", "M / m"),
            see="05-tiles",
        ),
        Mistake(
            "columns-for-rows",
            "You cut the rows of Y by n; a tile has m = {m} rows and n = {n} columns.",
            Edit("-(-M // m)", "-(-M // n)"),
            see="05-ex12-prompt",
        ),
        Mistake(
            "a-row-of-tiles-too-many",
            "Where m divides M there is no part of a tile left: you counted one row of tiles too many.",
            Edit("-(-M // m)", "M // m + 1"),
            see="05-tiles",
        ),
        Mistake(
            "the-row-above", "That is the row above, what is read of X.", input_traffic, see="05-ex12-prompt"
        ),
    ],
    hints=[
        "How many rows of tiles cover M rows of Y?",
        "⌈M/m⌉, and each of them needs all of W.",
        "bytes_per_value · d_in · d_out · ⌈M/m⌉; in Python ⌈a/b⌉ is -(-a // b).",
    ],
)


def tiled_traffic(M, d_in, d_out, on_chip, bytes_per_value):
    n = 0
    while 4 * (n + 1) ** 2 + 2 * bytes_per_value * (n + 1) <= on_chip:
        n += 1
    x_reads = M * d_in * -(-d_out // n)
    w_reads = d_in * d_out * -(-M // n)
    return bytes_per_value * (x_reads + w_reads + M * d_out)


def draw_chip(rng):
    return {
        "M": rng.randint(200, 3000),
        "d_in": rng.randint(200, 3000),
        "d_out": rng.randint(200, 3000),
        "on_chip": 1000 * rng.randint(3, 240),
        "bytes_per_value": rng.choice((1, 2, 4)),
    }


def three_tiles(M, d_in, d_out, on_chip, bytes_per_value):
    n = 1
    while 3 * bytes_per_value * (n + 1) ** 2 <= on_chip:
        n += 1
    return bytes_per_value * (M * d_in * -(-d_out // n) + d_in * d_out * -(-M // n) + M * d_out)


TILED = Exercise(
    id="5.13",
    title="A small chip reads again",
    notebook="05_roofline",
    kind="function",
    level="stretch",
    difficulty="demanding",
    points=3,
    minutes=10,
    unit="B",
    answer=tiled_traffic,
    cases=[
        {"M": 300, "d_in": 700, "d_out": 6900, "on_chip": 19_879, "bytes_per_value": 2},
        {"M": 500, "d_in": 300, "d_out": 700, "on_chip": 3_000, "bytes_per_value": 4},
        {"M": 301, "d_in": 50, "d_out": 401, "on_chip": 440, "bytes_per_value": 2},
        {"M": 311, "d_in": 45, "d_out": 733, "on_chip": 210, "bytes_per_value": 1},
        {"M": 2048, "d_in": 4096, "d_out": 1000, "on_chip": 233_472, "bytes_per_value": 1},
    ],
    draw=draw_chip,
    case_text="X {M} × {d_in}, W {d_in} × {d_out}, {on_chip} B on chip, {bytes_per_value} B a value",
    mistakes=[
        Mistake(
            "everything-once",
            "That is the ideal traffic, each matrix moved once; a chip of {on_chip} bytes has to read again.",
            [Edit(" * -(-d_out // n)", ""), Edit(" * -(-M // n)", "")],
            see="05-tiles",
        ),
        Mistake(
            "sums-in-the-operands-width",
            "Your tile keeps its sums in {bytes_per_value} bytes each; they are FP32, four.",
            Edit("4 * (n + 1) ** 2", "bytes_per_value * (n + 1) ** 2"),
            see="05-tiles",
        ),
        Mistake(
            "sums-alone",
            "Your tile fills the chip with sums; a column of X and a row of W have to be there as well.",
            Edit(" + 2 * bytes_per_value * (n + 1)", ""),
            see="05-tiles",
        ),
        Mistake(
            "last-tiles-dropped",
            "You dropped the tiles at the edge: a part of a tile reads its row and column as well.",
            [Edit("-(-d_out // n)", "(d_out // n)"), Edit("-(-M // n)", "(M // n)")],
            see="05-tiles",
        ),
        Mistake(
            "reads-swapped",
            "The two are swapped: X is read for each column of tiles, W for each row of them.",
            [
                Edit("M * d_in * -(-d_out // n)", "M * d_in * -(-M // n)"),
                Edit("d_in * d_out * -(-M // n)", "d_in * d_out * -(-d_out // n)"),
            ],
            see="05-tiles",
        ),
        Mistake(
            "output-left-out",
            "You left Y out: its M × d_out values are written once.",
            Edit(" + M * d_out", ""),
            see="05-tiles",
        ),
        Mistake(
            "output-in-fp32",
            "You wrote Y in FP32. Only the sums on chip are; Y has {bytes_per_value} bytes a value, as X and W.",
            Edit(
                "bytes_per_value * (x_reads + w_reads + M * d_out)",
                "(bytes_per_value * (x_reads + w_reads) + 4 * M * d_out)",
            ),
            see="05-ex13-prompt",
        ),
        Mistake(
            "one-of-the-two",
            "You kept room for a column of X or a row of W; both have to be on chip.",
            Edit("2 * bytes_per_value * (n + 1)", "bytes_per_value * (n + 1)"),
            see="05-ex13-prompt",
        ),
        Mistake(
            "unrounded",
            "You took a fraction of a tile; a part of one reads its row and column as well, so round the numbers of tiles up.",
            [Edit("-(-d_out // n)", "(d_out / n)"), Edit("-(-M // n)", "(M / n)")],
            see="05-tiles",
        ),
        Mistake(
            "operands-alone",
            "Your tile leaves no room for its n² sums, four bytes each.",
            Edit("4 * (n + 1) ** 2 + ", ""),
            see="05-ex13-prompt",
        ),
        Mistake(
            "tile-too-small",
            "Your tile could be one larger: n is the largest whole number that fits.",
            Edit("    x_reads", "    n = max(1, n - 1)\n    x_reads"),
            see="05-ex13-prompt",
        ),
        Mistake(
            "three-whole-tiles",
            "You kept three n × n tiles on chip. Of X and W it holds one column and one row at a time, and n² sums in FP32.",
            three_tiles,
            see="05-ex13-prompt",
        ),
    ],
    equivalent=[
        "n = 1  # one output fits in every case",
        "n = -1  # the first round asks whether nothing fits",
    ],
    hints=[
        "First the side n of the tile: what does it keep on chip, and how many bytes is that?",
        "4·n² for the sums and bytes_per_value·2·n for a column of X and a row of W: the largest n that fits.",
        "bytes_per_value · (M·d_in·⌈d_out/n⌉ + d_in·d_out·⌈M/n⌉ + M·d_out).",
    ],
)


LARGER_CHIP = Exercise(
    id="5.14",
    title="Twice the chip: which budget changed?",
    notebook="05_roofline",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="b",
    options={
        "a": "Data movement, by half: twice the memory, half the traffic.",
        "b": "Data movement, by 1.3 times: X and W are read once for each strip of tiles, 13 strips in place of 17.",
        "c": "Storage alone: the same matrices are multiplied.",
        "d": "Arithmetic: each tile does twice the outputs, so there are fewer FLOPs.",
    },
    mistakes=[
        Mistake(
            "half-the-traffic",
            "Twice the memory is twice the outputs in a tile, but only √2 times its side; the side decides how often "
            "X and W are read.",
            "a",
            see="05-tiles",
        ),
        Mistake(
            "matrices-alike",
            "The matrices are the same, but they are read 17 times from the small chip and 13 from the large one.",
            "c",
            see="05-tiles",
        ),
        Mistake(
            "fewer-flops",
            "Fewer tiles with more outputs each: the outputs are as many, and so are the FLOPs.",
            "d",
            see="05-tiles",
        ),
    ],
    hints=[
        "What does a tile's side decide, and what its area?",
        "⌈4096/241⌉ = 17 and ⌈4096/341⌉ = 13.",
        "s·4096²·(17 + 17 + 1) = 1.17 GB becomes s·4096²·(13 + 13 + 1) = 0.91 GB.",
    ],
)


# -- operators


def fused_bytes(n, inputs, bytes_per_value):
    reads = inputs[0]
    for count in inputs[1:]:
        reads += count - 1
    return bytes_per_value * n * (reads + 1)


def first_and_last(n, inputs, bytes_per_value):
    return bytes_per_value * n * (inputs[0] + 1)


def unfused(n, inputs, bytes_per_value):
    return bytes_per_value * n * sum(count + 1 for count in inputs)


def all_inputs(n, inputs, bytes_per_value):
    return bytes_per_value * n * (sum(inputs) + 1)


def one_in_one_out(n, inputs, bytes_per_value):
    return bytes_per_value * n * 2


def largest_alone(n, inputs, bytes_per_value):
    return bytes_per_value * n * (max(inputs) + 1)


def one_for_each(n, inputs, bytes_per_value):
    return bytes_per_value * n * (len(inputs) + 1)


def draw_chain(rng):
    return {
        "n": rng.randint(1000, 10**7),
        "inputs": [rng.choice((1, 2, 3)) for _ in range(rng.randint(2, 6))],
        "bytes_per_value": rng.choice((1, 2, 4)),
    }


FUSED = Exercise(
    id="5.15",
    title="The missing row: fused",
    notebook="05_roofline",
    kind="function",
    level="stretch",
    difficulty="warm-up",
    points=2,
    minutes=5,
    unit="B",
    answer=fused_bytes,
    cases=[
        {"n": 1_000_000, "inputs": [2, 1, 2], "bytes_per_value": 2},
        {"n": 4096, "inputs": [1, 1, 1, 1], "bytes_per_value": 4},
        {"n": 777, "inputs": [3, 2, 3, 1], "bytes_per_value": 1},
        {"n": 1003, "inputs": [1, 3, 2], "bytes_per_value": 2},
    ],
    draw=draw_chain,
    case_text="n={n}, inputs={inputs}, {bytes_per_value} B a value",
    mistakes=[
        Mistake(
            "unfused",
            "That is the chain unfused: every operator reads its inputs and writes its output.",
            unfused,
            see="05-fusion",
        ),
        Mistake(
            "other-inputs-left-out",
            "You kept the first operator's inputs alone. The later ones read tensors too that are no result of the "
            "chain.",
            first_and_last,
            see="05-ex15-prompt",
        ),
        Mistake(
            "intermediates-moved",
            "You still read, or write, what goes from one operator to the next; in one kernel it never leaves the "
            "chip.",
            all_inputs,
            see="05-fusion",
        ),
        Mistake(
            "output-left-out",
            "That is one tensor too few: the result is written once, and every input that no operator made is read.",
            Edit("(reads + 1)", "reads"),
            see="05-fusion",
        ),
        Mistake(
            "one-in-one-out",
            "You read one tensor and write one. Each input that no operator of the chain made has to be read.",
            one_in_one_out,
            see="05-ex15-prompt",
        ),
        Mistake(
            "largest-alone",
            "You took the operator with the most inputs for the whole chain; the others read tensors of their own too.",
            largest_alone,
            see="05-ex15-prompt",
        ),
        Mistake(
            "one-for-each",
            "You counted one tensor for each operator; `inputs` says how many each one reads, and one of these is the output before.",
            one_for_each,
            see="05-ex15-prompt",
        ),
        Mistake(
            "elements",
            "That is the number of values; each has {bytes_per_value} bytes.",
            Edit("bytes_per_value * n", "n"),
            see="05-ex15-prompt",
        ),
    ],
    hints=[
        "Of the inputs of the second operator, how many come from memory?",
        "One less than it has: the other is the first one's output. And one tensor is written, at the end.",
        "inputs[0], plus count − 1 for each later operator, plus 1; times n and bytes_per_value.",
    ],
)

ACTIVATION = Exercise(
    id="5.16",
    title="GELU for ReLU: which budget changed?",
    notebook="05_roofline",
    kind="choice",
    level="stretch",
    difficulty="steady",
    points=1,
    minutes=3,
    answer="d",
    options={
        "a": "Data movement: GELU reads its input twenty times.",
        "b": "Nothing that counts: both are under the ridge, so both take the same time on every machine.",
        "c": "Arithmetic: at 5 operations a byte GELU has passed the ridge of 295 FLOP/B.",
        "d": "Arithmetic: the same bytes, more operations; whether that shows depends on the ceiling of the "
        "exponentials, not on the tensor cores'.",
    },
    mistakes=[
        Mistake(
            "reads-again",
            "A value is read once, and the operations are done on it while it is on chip: 4n bytes for both.",
            "a",
            see="05-operators",
        ),
        Mistake(
            "under-the-ridge-alike",
            "The ridge of 295 is the tensor cores', and neither of the two runs there. Where exponentials are slow, "
            "as on a CPU, GELU takes longer than its bytes.",
            "b",
            see="05-own-ceilings",
        ),
        Mistake(
            "ridge-passed",
            "5 is far below 295; and 295 is the ridge of multiply-adds in tensor cores, which do no exponentials.",
            "c",
            see="05-own-ceilings",
        ),
    ],
    hints=[
        "How many bytes does each of the two move, for n values?",
        "The same. So it is the operations; on which units do they run?",
        "Not on the matrix units: comparisons and exponentials have ceilings of their own.",
    ],
)

EXERCISES = [
    FLOPS,
    BITS,
    OUTPUT_BYTES,
    ROWS,
    LEAST_TIME,
    ESTIMATE,
    SHEET,
    NARROW,
    CACHE,
    DECODE,
    CONCURRENCY,
    TILE_ROW,
    TILED,
    LARGER_CHIP,
    FUSED,
    ACTIVATION,
]
