"""What a device can do at most: peak rates by format, memory, bandwidth, link, each with its source.

The figures are in `data/hardware.toml` and nowhere else. `device("NVIDIA H100 80GB HBM3")` takes the names
that torch reports, matched whole. A peak is dense unless it is asked for as `sparse_peak`, and says so in its
conventions, which `lecture_lib.accounting.utilization` reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from lecture_lib.accounting.dtypes import BlockFormat, resolve
from lecture_lib.accounting.inputs import amount, closest
from lecture_lib.paths import DATA
from lecture_lib.quantity import LectureError, Quantity

DENSE = "dense peak"
SPARSE = "sparse peak (2:4 structured sparsity): no ceiling of a dense product"
VECTOR = "vector units, no matrix units"
BOTH_WAYS = "total of both directions"

_FILE = "data/hardware.toml"
_FORMATS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4")
_RATES = ("dense", "dense_fp16_accumulate", "vector", "sparse")
_FIGURES = {"memory": "B", "bandwidth": "B/s", "link": "B/s"}
_KEYS = {"names", "link_kind", "source", "source_of", *_FIGURES, *_RATES}


def rate_format(dtype: object) -> str:
    """The name under which a format's peaks are kept: "bf16" for torch.bfloat16, "fp8" for every 8-bit float.

    Units run all formats of one width alike, so "fp8", "fp6" and "fp4" stand for their families here.
    """
    name = str(dtype).strip().lower()
    if name in _FORMATS:
        return name
    found = resolve(dtype)
    base = found.element.name if isinstance(found, BlockFormat) else found.name
    return base.partition("_")[0]


def operands(dtype: object) -> str:
    """The convention that a peak and a utilization must share: "BF16 operands"."""
    return f"{rate_format(dtype).upper()} operands"


@dataclass(frozen=True)
class Device:
    """A device's ceilings, as its vendor prints them.

    name:      the row in data/hardware.toml; names: what drivers and people call it
    memory:    nominal capacity, B; bandwidth: of that memory, B/s
    link:      to other devices, B/s, the total of both directions; None where no source gives it
    """

    name: str
    names: tuple[str, ...]
    memory: Quantity
    bandwidth: Quantity
    link: Quantity | None
    link_kind: str
    source: str
    _rates: Mapping[str, Mapping[str, Quantity]] = field(repr=False)

    def peak(self, dtype: object, accumulate: object = "fp32") -> Quantity:
        """Dense matrix-product peak in FLOP/s for operands of `dtype`, never the sparse figure.

        accumulate: "fp32", or "fp16" for the consumer cards that are faster so.
        LectureError where no such figure is recorded.
        """
        tables = {"fp32": "dense", "fp16": "dense_fp16_accumulate"}
        kind = tables.get(rate_format(accumulate))
        if kind is None:
            raise LectureError(
                f"expected accumulation in 'fp32' or 'fp16'; got {accumulate!r}; "
                "most products accumulate in FP32, the default"
            )
        return self._rate(kind, dtype)

    def vector_peak(self, dtype: object = "fp32") -> Quantity:
        """Peak in FLOP/s of multiply-adds outside the matrix units: the ceiling of elementwise work."""
        # Where no vector figure stands beside it, a dense FP32 or FP64 peak is the vector lanes' own.
        recorded = "vector" if rate_format(dtype) in self._rates["vector"] else "dense"
        if recorded == "dense" and rate_format(dtype) not in ("fp32", "fp64"):
            raise LectureError(
                f"expected a format whose vector peak is recorded for {self.name}; got {dtype!r}; "
                "ask for 'fp32', in which elementwise kernels compute"
            )
        peak = self._rate(recorded, dtype)
        return peak.with_(name=f"{self.name} {rate_format(dtype).upper()} vector peak", conventions=(VECTOR,))

    def sparse_peak(self, dtype: object) -> Quantity:
        """The figure printed for 2:4 structured sparsity: here to be recognised, refused by utilization."""
        return self._rate("sparse", dtype)

    def _rate(self, kind: str, dtype: object) -> Quantity:
        key, table = rate_format(dtype), self._rates[kind]
        if key not in table:
            what = {"sparse": "sparse peak", "dense_fp16_accumulate": "peak accumulated in FP16"}.get(
                kind, "peak"
            )
            known = ", ".join(table) or "none"
            raise LectureError(
                f"expected a format with a recorded {what} on {self.name}; got {dtype!r}; recorded: {known}; "
                f"with a source, add it to [{self.name}] in {_FILE}"
            )
        return table[key]


def device(name: str) -> Device:
    """The device of this name: torch.cuda.get_device_name()'s, JAX's device_kind, or the course's short one.

    Capitals, spaces, "-" and "_" make no difference; nothing else is guessed. LectureError names the close
    ones ("H100" alone is three devices) and how to add one; for a CPU it says how its ceilings are measured.
    """
    devices, by_name, measured = _registry()
    key = _key(name) if isinstance(name, str) else ""
    if key in by_name:
        return devices[by_name[key]]
    if key in measured:
        raise LectureError(f"expected a device with printed ceilings; got {name!r}; {measured[key]}")
    # A model number that a row has ("H100") says more than a likeness of letters ("NVIDIA H200").
    models = {word for word in key.split() if any(letter.isdigit() for letter in word)}
    same = [
        row for row, entry in devices.items() if models & set(_key(f"{row} {' '.join(entry.names)}").split())
    ]
    spelled = [name for entry in devices.values() for name in (entry.name, *entry.names)]
    near = same or closest(str(name), spelled)
    hint = f"did you mean {', '.join(map(repr, near))}?" if near else f"known are {', '.join(devices)}"
    raise LectureError(
        f"expected the whole name of a device; got {name!r}; {hint}; to add one, give it a table with "
        f"figures and sources in {_FILE}"
    )


def devices() -> tuple[str, ...]:
    """The names of all recorded devices, in the order of data/hardware.toml."""
    return tuple(_registry()[0])


def dense_rate(peak: object) -> int | float | Fraction:
    """A compute ceiling as a number in FLOP/s; LectureError for a sparse one: no dense product reaches it."""
    if isinstance(peak, Quantity) and SPARSE in peak.conventions:
        raise LectureError(
            f"expected a dense peak; got {peak.name or 'a sparse one'} = {peak}, printed for 2:4 structured "
            "sparsity, twice what a dense product can reach; take the dense one: device(...).peak(dtype)"
        )
    return amount("peak", peak, "FLOP/s")


def stated_peak(rate: Quantity, dtype: object, source: str) -> Quantity:
    """A dense peak from elsewhere (a paper, another data sheet, a measurement), ready for `utilization`.

    rate: Quantity in FLOP/s; source: where it is from, not empty.
    """
    if not isinstance(rate, Quantity):
        raise LectureError(f"expected a rate with its unit; got {rate!r}; write Quantity(123, 'TFLOP/s')")
    dense_rate(rate)
    if not isinstance(source, str) or not source.strip():
        raise LectureError(
            f"expected the source of {rate}; got {source!r}; name the document, or the measurement"
        )
    conventions = tuple(dict.fromkeys((*rate.conventions, DENSE, operands(dtype))))
    name = rate.name or f"stated {rate_format(dtype).upper()} peak"
    return rate.to("FLOP/s").with_(name=name, conventions=conventions, source=source)


def _key(name: str) -> str:
    return " ".join(re.split(r"[\s_-]+", name.strip().casefold()))


# -- reading the file


@lru_cache(maxsize=1)
def _registry() -> tuple[dict[str, Device], dict[str, str], dict[str, str]]:
    return read(DATA / "hardware.toml")


def read(path: Path) -> tuple[dict[str, Device], dict[str, str], dict[str, str]]:
    """Devices by row, rows by every (folded) name, and the words for devices that are measured instead.

    LectureError for a file that cannot be read, an unknown key, unit, format or source, a missing figure, or
    a name that two rows claim.
    """
    import tomllib  # only where a device is looked up

    try:
        with path.open("rb") as file:
            table = tomllib.load(file, parse_float=Fraction)
    except OSError as problem:
        raise LectureError(
            f"expected the devices in {path}; got {problem.strerror}; reinstall the course"
        ) from None
    except ValueError as problem:  # not TOML, not UTF-8, or a float such as inf
        raise LectureError(f"expected TOML in {path}; got: {problem}; mend that line") from None
    sources = _texts("sources", table.pop("sources", {}))
    measured = {_key(name): how for name, how in _texts("measured", table.pop("measured", {})).items()}
    devices = {name: _entry(name, row, sources) for name, row in table.items()}
    by_name: dict[str, str] = {}
    for entry in devices.values():
        for key in {_key(spelled) for spelled in (entry.name, *entry.names)}:
            if key in by_name or key in measured:
                raise _wrong(
                    entry.name,
                    "names that no other row has",
                    f"{key!r}, also of {by_name.get(key, 'measured')}",
                )
            by_name[key] = entry.name
    return devices, by_name, measured


def _entry(name: str, row: object, sources: Mapping[str, str]) -> Device:
    if not isinstance(row, dict):
        raise _wrong(name, "a table", repr(row))
    if unknown := sorted(set(row) - _KEYS):
        near = closest(unknown[0], _KEYS)
        raise _wrong(name, f"keys among {', '.join(near or sorted(_KEYS))}", f"{unknown[0]!r}")
    names, kind = row.get("names"), row.get("link_kind", "")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n.strip() for n in names):
        raise _wrong(name, "names as a list of at least one name", repr(names))
    if not isinstance(kind, str) or ("link" in row) != bool(kind):
        raise _wrong(name, "link and link_kind together, or neither", f"link_kind = {kind!r}")
    exceptions = _texts(f"{name}.source_of", row.get("source_of", {}))
    if stray := sorted(set(exceptions) - set(row) & {*_FIGURES, *_RATES}) or sorted(
        set(exceptions) - set(row)
    ):
        raise _wrong(name, "source_of for figures that the row has", repr(stray[0]))

    def source(figure: str) -> str:
        key = exceptions.get(figure, row.get("source"))
        if not isinstance(key, str) or key not in sources:
            near = closest(str(key), sources) if key else []
            raise _wrong(
                name,
                f"a source of {figure} that [sources] lists{': ' + ', '.join(near) if near else ''}",
                repr(key),
            )
        return sources[key]

    def figure(key: str) -> Quantity:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) (\S+)", row[key]) if isinstance(row.get(key), str) else None
        if match is None:
            raise _wrong(name, f'{key} as a number and its unit ("80 GB")', repr(row.get(key)))
        notes = {
            "memory": "nominal capacity",
            "bandwidth": "specification, not a measurement",
            "link": BOTH_WAYS,
        }
        return _quantity(
            name,
            key,
            Fraction(match[1]),
            match[2],
            _FIGURES[key],
            (notes[key],),
            source(key),
            f"{name} {key}",
        )

    rates = {key: _rates(name, key, row.get(key, {}), source) for key in _RATES}
    if not rates["dense"]:
        raise _wrong(name, "a table `dense` with at least one peak", repr(row.get("dense")))
    return Device(
        name,
        tuple(names),
        figure("memory"),
        figure("bandwidth"),
        figure("link") if "link" in row else None,
        kind,
        source("source"),
        MappingProxyType(rates),
    )


def _rates(name: str, kind: str, table: object, source: Callable[[str], str]) -> Mapping[str, Quantity]:
    if not isinstance(table, dict) or (table and not isinstance(table.get("unit"), str)):
        raise _wrong(name, f'{kind} as a table with its unit ({{ unit = "TFLOP/s", bf16 = … }})', repr(table))
    notes = {"sparse": SPARSE, "vector": VECTOR}
    word = kind.partition("_")[0]
    found: dict[str, Quantity] = {}
    for key, value in table.items():
        if key == "unit":
            continue
        if key not in _FORMATS:
            raise _wrong(name, f"{kind} rates of {', '.join(_FORMATS)}", repr(key))
        conventions = [notes.get(kind, DENSE), operands(key)]
        if kind.startswith("dense"):
            conventions.append(f"accumulated in {'FP16' if kind.endswith('accumulate') else 'FP32'}")
        if isinstance(value, bool) or not isinstance(value, int | Fraction):
            raise _wrong(name, f"{kind}.{key} as a number", repr(value))
        words = f"{name} {key.upper()} {word} peak"
        found[key] = _quantity(
            name,
            f"{kind}.{key}",
            Fraction(value),
            table["unit"],
            "FLOP/s",
            tuple(conventions),
            source(kind),
            words,
        )
    return MappingProxyType(found)


def _quantity(
    name: str,
    key: str,
    value: Fraction,
    unit: str,
    base: str,
    conventions: tuple[str, ...],
    source: str,
    words: str,
) -> Quantity:
    try:
        quantity = Quantity(value, unit).to(base)
    except LectureError as problem:
        raise _wrong(name, f"{key} in a unit of {base}", f"{unit!r} ({problem})") from None
    if value <= 0:
        raise _wrong(name, f"{key} above 0", str(value))
    return quantity.with_(name=words, conventions=conventions, source=source)


def _texts(where: str, table: object) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(t, str) and t.strip() for t in table.values()):
        raise _wrong(where, "a table of texts, none empty", repr(table))
    return dict(table)


def _wrong(where: str, expected: str, got: str) -> LectureError:
    return LectureError(f"expected {expected} in [{where}]; got {got}; mend {_FILE}")
