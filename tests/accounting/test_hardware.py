from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from pathlib import Path

import pytest

from lecture_lib.accounting import hardware
from lecture_lib.accounting.hardware import device, devices, read, stated_peak
from lecture_lib.paths import DATA
from lecture_lib.quantity import LectureError, Quantity

FILE = DATA / "hardware.toml"
ROWS = json.loads((Path(__file__).parents[1] / "data" / "reference_numbers.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("reported", "row"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H200", "H200-SXM"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10", "A10"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("Tesla V100-PCIE-32GB", "V100-PCIe-32GB"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("AMD Instinct MI300X", "MI300X"),
        ("TPU v5 lite", "TPU-v5e"),
        ("TPU7x", "TPU-v7x"),
        ("nvidia h100  80gb hbm3", "H100-SXM"),
        ("rtx 4090", "RTX-4090"),
        ("h100_sxm", "H100-SXM"),
    ],
)
def test_names_resolve(reported: str, row: str) -> None:
    assert device(reported).name == row


@pytest.mark.parametrize(
    "part", ["H100", "A100", "NVIDIA", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A10G", "L40", "T40", ""]
)
def test_no_name_is_guessed_from_a_part(part: str) -> None:
    with pytest.raises(LectureError, match="expected the whole name of a device"):
        device(part)


def test_an_unknown_name_is_answered_with_the_rows_of_that_model_and_the_way_to_add_one() -> None:
    with pytest.raises(LectureError) as problem:
        device("NVIDIA H100")
    words = str(problem.value)
    assert all(row in words for row in ("H100-SXM", "H100-PCIe", "H100-NVL", "data/hardware.toml"))
    assert "H200" not in words


def test_a_cpu_is_measured_not_looked_up() -> None:
    with pytest.raises(LectureError, match="measured"):
        device("cpu")


# Units of the chip × boost clock in MHz × FLOPs a clock and unit, from architecture whitepapers: no figure of
# the file goes into it.
UNITS_AND_CLOCKS = [
    ("V100-SXM2-16GB", "fp16", 80, 1530, 1024),
    ("V100-SXM2-16GB", "fp32", 80, 1530, 128),
    ("T4", "fp16", 40, 1590, 1024),
    ("T4", "fp32", 40, 1590, 128),
    ("L4", "bf16", 58, 2040, 1024),
    ("L4", "fp32", 58, 2040, 256),
    ("A10", "bf16", 72, 1695, 1024),
    ("A10", "fp32", 72, 1695, 256),
    ("A100-SXM-80GB", "bf16", 108, 1410, 2048),
    ("A100-PCIe-40GB", "tf32", 108, 1410, 1024),
    ("A100-SXM-40GB", "fp32", 108, 1410, 128),
    ("A100-SXM-40GB", "fp64", 108, 1410, 128),
    ("H100-SXM", "bf16", 132, 1830, 4096),
    ("H100-SXM", "fp8", 132, 1830, 8192),
    ("H100-SXM", "tf32", 132, 1830, 2048),
    ("H100-PCIe", "bf16", 114, 1620, 4096),
    ("MI300X", "bf16", 304, 2100, 2048),
    ("MI300X", "fp8", 304, 2100, 4096),
    ("MI300X", "fp32", 304, 2100, 256),
    ("MI355X", "bf16", 256, 2400, 4096),
    ("MI355X", "fp8", 256, 2400, 8192),
    ("MI355X", "fp4", 256, 2400, 16384),
    ("RTX-3090", "bf16", 82, 1695, 512),
    ("RTX-3090", "fp32", 82, 1695, 256),
    ("RTX-4090", "bf16", 128, 2520, 512),
    ("RTX-4090", "fp8", 128, 2520, 1024),
    ("RTX-4090", "fp32", 128, 2520, 256),
    ("RTX-5090", "bf16", 170, 2407, 512),
    ("RTX-5090", "fp32", 170, 2407, 256),
    ("RTX-A6000", "bf16", 84, 1800, 1024),
    ("RTX-A6000", "tf32", 84, 1800, 512),
    ("TPU-v4", "bf16", 8, 1050, 2 * 128 * 128),
]


@pytest.mark.parametrize(("row", "dtype", "units", "megahertz", "each"), UNITS_AND_CLOCKS)
def test_peaks_follow_from_units_and_clocks(
    row: str, dtype: str, units: int, megahertz: int, each: int
) -> None:
    assert float(device(row).peak(dtype)) == pytest.approx(units * megahertz * 1e6 * each, rel=0.01)


# Memory bus in bits × data rate in Gbit/s a pin, over 8.
@pytest.mark.parametrize(
    ("row", "bits", "rate"),
    [
        ("T4", 256, 10.0),
        ("L4", 192, 12.5),
        ("A10", 384, 12.5),
        ("L40S", 384, 18),
        ("RTX-3090", 384, 19.5),
        ("RTX-4090", 384, 21),
        ("RTX-5090", 512, 28),
        ("RTX-A6000", 384, 16),
        ("V100-SXM2-32GB", 4096, 1.756),
        ("A100-SXM-40GB", 5120, 2.43),
        ("A100-SXM-80GB", 5120, 3.186),
        ("H100-SXM", 5120, 5.23),
        ("H200-SXM", 6144, 6.25),
        ("MI300X", 8192, 5.2),
        ("MI325X", 8192, 6.0),
        ("MI355X", 8192, 8.0),
    ],
)
def test_bandwidth_follows_from_bus_and_data_rate(row: str, bits: int, rate: float) -> None:
    assert float(device(row).bandwidth) == pytest.approx(bits * rate * 1e9 / 8, rel=0.025)


def test_figures_are_exact_sourced_and_say_what_they_are() -> None:
    h100 = device("H100-SXM")
    peak = h100.peak("torch.bfloat16")
    assert peak.value == 989_500_000_000_000 and isinstance(peak.value, int)
    assert peak.unit == "FLOP/s"
    assert {"dense peak", "BF16 operands", "accumulated in FP32"} <= set(peak.conventions)
    assert "1,979" in peak.source and peak.name == "H100-SXM BF16 dense peak"
    assert h100.bandwidth == Quantity(3.35, "TB/s") and h100.memory == Quantity(80, "GB")
    assert h100.link == Quantity(900, "GB/s") and h100.link is not None
    assert h100.link.conventions == ("total of both directions",)
    for row in devices():
        entry = device(row)
        figures = [entry.memory, entry.bandwidth, *([entry.link] if entry.link else [])]
        figures += [q for table in entry._rates.values() for q in table.values()]
        assert all(q.source and q.conventions and q.name.startswith(row) for q in figures)


def test_every_format_of_a_family_has_the_family_s_peak() -> None:
    b200 = device("B200")
    assert b200.peak("fp8") == b200.peak("fp8_e4m3") == b200.peak("float8_e5m2") == b200.peak("mxfp8")
    assert b200.peak("nvfp4") == b200.peak("fp4") == b200.peak("mxfp4") == Quantity(9, "PFLOP/s")
    assert b200.peak("mxfp6") == b200.peak("fp6")


def test_a_device_without_a_format_says_which_it_has() -> None:
    with pytest.raises(LectureError, match=r"recorded: fp32, fp16;.*\[T4\] in data/hardware.toml"):
        device("T4").peak("bf16")
    with pytest.raises(LectureError, match="expected a number format"):
        device("T4").peak("bf61")


def test_the_sparse_figure_is_nowhere_but_where_it_is_asked_for() -> None:
    found = 0
    for row in devices():
        entry = device(row)
        for dtype in entry._rates["sparse"]:
            sparse, dense = entry.sparse_peak(dtype), entry.peak(dtype)
            assert hardware.SPARSE in sparse.conventions and "dense peak" not in sparse.conventions
            assert hardware.DENSE in dense.conventions and "sparse" not in " ".join(dense.conventions)
            # Twice dense to the rounding of the sheets; Blackwell Ultra's FP4 is the printed exception.
            ratio = float((sparse / dense).value)
            expected = {"B300": 4 / 3, "GB300": 4 / 3}.get(row, 2) if dtype == "fp4" else 2
            assert ratio == pytest.approx(expected, rel=0.015), (row, dtype)
            found += 1
    assert found > 60
    with pytest.raises(LectureError, match="no|none"):
        device("T4").sparse_peak("fp16")


def test_accumulation_in_fp16_is_a_figure_of_its_own() -> None:
    card = device("NVIDIA GeForce RTX 4090")
    assert card.peak("fp16") == Quantity(165.2, "TFLOP/s")
    assert card.peak("fp16", accumulate="fp16") == Quantity(330.3, "TFLOP/s")
    assert "accumulated in FP16" in card.peak("fp16", accumulate="fp16").conventions
    with pytest.raises(LectureError, match="accumulated in FP16 on H100-SXM"):
        device("H100-SXM").peak("fp16", accumulate="fp16")
    with pytest.raises(LectureError, match="'fp32' or 'fp16'"):
        card.peak("fp16", accumulate="bf16")


def test_vector_peaks_are_not_matrix_peaks() -> None:
    a100 = device("A100-SXM-80GB")
    assert a100.vector_peak("fp64") == Quantity(9.7, "TFLOP/s") and a100.peak("fp64").value > 9.7e12
    assert a100.vector_peak() == Quantity(19.5, "TFLOP/s")
    assert a100.vector_peak().conventions == (hardware.VECTOR,)
    with pytest.raises(LectureError, match="fp32"):
        a100.vector_peak("bf16")


def test_devices_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        device("T4").memory = Quantity(1, "GB")  # type: ignore[misc]
    with pytest.raises(TypeError):
        device("T4")._rates["dense"]["fp16"] = Quantity(1, "FLOP/s")  # type: ignore[index]


def test_stated_peaks() -> None:
    v3 = stated_peak(Quantity(123, "TFLOP/s"), "bf16", "TPU v3, PaLM Table 3")
    assert v3.value == 123 * 10**12 and set(v3.conventions) == {"dense peak", "BF16 operands"}
    with pytest.raises(LectureError, match="2:4"):
        stated_peak(device("H100-SXM").sparse_peak("bf16"), "bf16", "data sheet")
    for rate, source in [(123e12, "x"), (Quantity(1, "B/s"), "x"), (Quantity(0, "FLOP/s"), "x")]:
        with pytest.raises(LectureError):
            stated_peak(rate, "bf16", source)  # type: ignore[arg-type]
    with pytest.raises(LectureError, match="source"):
        stated_peak(Quantity(123, "TFLOP/s"), "bf16", " ")


# -- the file

GOOD = """
[sources]
sheet = "Data sheet, p. 1"
brief = "Brief, p. 2"
[X]
names = ["Vendor X"]
memory = "16 GB"
bandwidth = "320 GB/s"
link = "32 GB/s"
link_kind = "PCIe 3"
source = "sheet"
source_of = { bandwidth = "brief" }
dense = { unit = "TFLOP/s", fp16 = 65 }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "hardware.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_figure_s_own_source_wins(tmp_path: Path) -> None:
    x = read(written(tmp_path, GOOD))[0]["X"]
    assert x.bandwidth.source == "Brief, p. 2"
    assert x.memory.source == x.peak("fp16").source == x.source == "Data sheet, p. 1"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("memory =", "memroy =", "memory.*memroy"),
        ("names =", "name =", "names.*'name'"),
        ("source_of =", "sources =", r"source.*\[X\].*'sources'"),
        ('memory = "16 GB"\n', "", "memory as a number and its unit.*None"),
        ('"16 GB"', "16", "memory as a number and its unit"),
        ('"16 GB"', '"16 GBs"', "memory in a unit of B.*GBs"),
        ('"16 GB"', '"16 GB/s"', "memory in a unit of B"),
        ('"16 GB"', '"0 GB"', "memory above 0"),
        ('"16 GB"', '"-16 GB"', "memory as a number"),
        ('"320 GB/s"', '"320 GB"', "bandwidth in a unit of B/s"),
        ('source = "sheet"', 'source = "shete"', "source.*sheet.*'shete'"),
        ('source = "sheet"', "", "source.*None"),
        ('"Data sheet, p. 1"', '""', "none empty"),
        ('bandwidth = "brief"', 'bandwith = "brief"', "source_of.*'bandwith'"),
        ('bandwidth = "brief"', 'bandwidth = "breif"', "source of bandwidth.*'breif'"),
        ("fp16 = 65", "fp61 = 65", "fp16.*'fp61'"),
        ("fp16 = 65", 'fp16 = "65"', "dense.fp16 as a number"),
        ("fp16 = 65", "fp16 = true", "dense.fp16 as a number"),
        ("fp16 = 65", "fp16 = 0", "dense.fp16 above 0"),
        ("fp16 = 65", "fp16 = inf", "TOML"),
        (", fp16 = 65 }", " }", "at least one peak"),
        ('unit = "TFLOP/s", ', "", "with its unit"),
        ('"TFLOP/s"', '"TFLOPS"', "unit of FLOP/s.*TFLOPS"),
        ("dense =", "dens =", "dense.*'dens'"),
        ('["Vendor X"]', "[]", "at least one name"),
        ('["Vendor X"]', '"Vendor X"', "list of at least one name"),
        ('link_kind = "PCIe 3"\n', "", "link and link_kind together"),
        ("[X]", "[X", "TOML"),
        ("[X]\n", "[Y]\nnames = ['vendor-x']\n[X]\n", r"\[Y\]"),
    ],
)
def test_slips_in_the_file_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(LectureError, match=f"(?s){words}"):
        read(written(tmp_path, GOOD.replace(old, new, 1)))


def test_two_rows_cannot_share_a_name(tmp_path: Path) -> None:
    again = GOOD + GOOD.partition("[X]")[2].join(["\n[Z]", ""]).replace("Vendor X", "vendor-x")
    with pytest.raises(LectureError, match="names that no other row has.*'vendor x', also of X"):
        read(written(tmp_path, again))


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(LectureError, match="expected the devices in"):
        read(tmp_path / "hardware.toml")


def test_no_source_is_left_over() -> None:
    table = tomllib.loads(FILE.read_text(encoding="utf-8"))
    used = {row.get("source") for row in table.values()} | {
        key
        for row in table.values()
        if isinstance(row.get("source_of"), dict)
        for key in row["source_of"].values()
    }
    assert set(table["sources"]) == used - {None}


def test_no_code_holds_a_peak() -> None:
    """A bare peak (989.5e12, 312e12, 1979 …) stands in no module of the library."""
    peaks = {
        str(float(q.to("TFLOP/s").value)).removesuffix(".0")
        for row in devices()
        for table in device(row)._rates.values()
        for q in table.values()
        if q.value >= 100 * 10**12
    }
    pattern = re.compile(r"(?<![\d.])(\d{3,5}(?:\.\d+)?)e1[25]\b")
    for path in (Path(hardware.__file__).parents[1]).rglob("*.py"):
        assert not peaks & set(pattern.findall(path.read_text(encoding="utf-8"))), path
