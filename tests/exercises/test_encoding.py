from __future__ import annotations

import collections
import json
import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from lecture_lib.exercises import encoding
from lecture_lib.exercises.encoding import Array, Other, decode, encode, loads
from lecture_lib.quantity import LectureError, Ledger, Quantity


def there_and_back(value: object) -> Any:
    return decode(loads(json.dumps(encode(value))))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -7,
        2**53 + 1,
        -(10**300),
        1.5,
        0.1,
        math.inf,
        -math.inf,
        "",
        "text with é and \x00",
        [],
        [1, [2.0, "x"]],
        (),
        (1, (2,)),
        {"a": 1, 2: [3]},
        Fraction(1, 3),
        ...,
        Quantity(84, "GB"),
        Quantity(1.5, "FLOP/s"),
    ],
)
def test_there_and_back(value: object) -> None:
    back = there_and_back(value)
    assert type(back) is type(value) and back == value


def test_special_floats() -> None:
    assert math.isnan(there_and_back(math.nan))
    assert math.copysign(1, there_and_back(-0.0)) == -1
    assert there_and_back(Decimal("0.1")) == Fraction(1, 10)
    assert math.isnan(there_and_back(Decimal("nan")))


class _Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__

    def __int__(self) -> int:
        return 210

    __index__ = __int__

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return bool


class _FloatLiar(float):
    def __float__(self) -> float:
        return 210.0

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


class _ListLiar(list[Any]):
    def __iter__(self) -> Any:
        return iter([210])

    def __len__(self) -> int:
        return 1


class _StrLiar(str):
    def encode(self, *_: Any) -> Any:
        raise RuntimeError("encode")

    def __str__(self) -> str:
        return "b"


class _DictLiar(dict[Any, Any]):
    def items(self) -> Any:
        raise RuntimeError("items")


class _Mute:
    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class _MetaLiar(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("name")


class _Named(metaclass=_MetaLiar):
    pass


def test_a_class_that_lies_is_reduced_to_what_it_holds() -> None:
    assert there_and_back(_Liar(3)) == 3 and type(there_and_back(_Liar(3))) is int
    assert type(there_and_back(_FloatLiar(1.5))) is float and there_and_back(_FloatLiar(1.5)) == 1.5
    assert there_and_back(_ListLiar([1, 2])) == [1, 2]
    assert there_and_back(_StrLiar("a")) == "a"
    assert there_and_back(_DictLiar(a=1)) == {"a": 1}
    assert there_and_back(_Mute()) == Other("_Mute")
    assert there_and_back(_Named()) == Other("_Named")
    assert there_and_back(_Named) == Other("class", "_Named")


def test_standard_containers_are_their_plain_kind() -> None:
    Pair = collections.namedtuple("Pair", "a b")
    assert there_and_back(Pair(1, 2)) == (1, 2)
    assert there_and_back(collections.Counter("aab")) == {"a": 2, "b": 1}
    assert there_and_back(collections.OrderedDict(a=1)) == {"a": 1}
    ledger = Ledger({"weights": Quantity(14, "GB"), "gradients": Quantity(14, "GB")})
    assert there_and_back(ledger) == {"weights": Quantity(14, "GB"), "gradients": Quantity(14, "GB")}


def test_what_cannot_be_compared_is_named_by_its_type() -> None:
    async def coroutine() -> None: ...

    assert there_and_back(x for x in ()) == Other("generator")
    assert there_and_back(coroutine()) == Other("coroutine")
    assert there_and_back(lambda: 1) == Other("function")
    assert there_and_back(math) == Other("module")
    assert there_and_back(1j) == Other("complex", "1j")
    assert there_and_back({1, 2}) == Other("set")
    assert there_and_back(object()) == Other("object"), "no address, which differs every time"


def test_too_large_is_said_and_not_sent() -> None:
    assert there_and_back("x" * 10**7) == Other("str", "text longer than 2,000 characters")
    assert there_and_back(10**100_000).type == "int"
    assert there_and_back(list(range(10**6))).type == "list"
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    assert there_and_back(cyclic).type == "list"
    assert len(json.dumps(encode([["x" * 1_999] * 100] * 1_000))) < 10**6


def test_lone_surrogates_become_harmless() -> None:
    assert there_and_back("a\ud800b") == "a\\ud800b"
    assert there_and_back({"\udfff": 1}) == {"\\udfff": 1}
    json.dumps(encode("\ud800")).encode("utf-8")


@pytest.mark.parametrize("dtype", encoding.DTYPES)
def test_tensors_of_every_dtype(dtype: str) -> None:
    import torch

    values = [True, False] if dtype == "bool" else [0, 2]
    kept = getattr(torch, dtype)
    tensor = (
        torch.tensor(values, dtype=torch.float32).to(kept)
        if "float8" in dtype
        else torch.tensor(values, dtype=kept)
    )
    assert there_and_back(tensor) == Array(dtype, (2,), tuple(values))


def test_arrays() -> None:
    import numpy
    import torch

    third = torch.tensor(1 / 3, dtype=torch.bfloat16)
    assert there_and_back(third) == Array("bfloat16", (), (0.333984375,))
    assert there_and_back(torch.nn.Parameter(torch.ones(2, 1))) == Array("float32", (2, 1), (1.0, 1.0))
    assert there_and_back(torch.arange(6).reshape(2, 3).T) == Array("int64", (3, 2), (0, 3, 1, 4, 2, 5))
    assert there_and_back(torch.ones(0, 3)) == Array("float32", (0, 3), ())
    assert there_and_back(torch.tensor(2**62)) == Array("int64", (), (2**62,))
    assert math.isnan(there_and_back(torch.tensor([math.nan])).values[0])
    assert there_and_back(numpy.arange(3, dtype="int32")) == Array("int32", (3,), (0, 1, 2))
    assert there_and_back(numpy.float32(0.5)) == Array("float32", (), (0.5,))
    assert there_and_back(numpy.int64(5)) == Array("int64", (), (5,))
    assert there_and_back(numpy.float64(0.5)) == 0.5 and there_and_back(numpy.bool_(True)) is True
    assert there_and_back(torch.ones(2, device="meta")).type == "tensor"
    assert there_and_back(torch.ones(2, dtype=torch.complex64)).type == "tensor"
    assert there_and_back(torch.eye(2).to_sparse()).type == "tensor"
    assert there_and_back(torch.ones(1000, 1000)).type == "Tensor"
    assert there_and_back(torch.float32) == Other("dtype", "torch.float32")
    assert there_and_back(torch.Size([2, 3])) == (2, 3)


def test_an_array_as_a_key_writes_it() -> None:
    spec = {"array": [[1, 2], [3, 4], [5, 6]], "dtype": "bfloat16"}
    assert there_and_back(spec) == Array("bfloat16", (3, 2), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    assert there_and_back({"array": [[1], [2, 3]], "dtype": "float32"}).type == "dict"


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "Infinity",
        "1e999",
        "9007199254740993",
        '{"int": 3}',
        '{"int": "3e5"}',
        '{"int": "٣"}',
        '{"int": "' + "9" * 5_000 + '"}',
        '{"float": "1.5"}',
        '{"fraction": ["1", "0"]}',
        '{"fraction": ["1", "-3"]}',
        '{"tuple": {"a": 1}}',
        '{"dict": [[1]]}',
        '{"dict": [[{"dict": []}, 1]]}',
        '{"quantity": [1, "furlong"]}',
        '{"quantity": ["1", "GB"]}',
        '{"quantity": [1, "GB^99999999999"]}',
        '{"array": {"dtype": "float32", "shape": [2], "values": [1.0]}}',
        '{"array": {"dtype": "float31", "shape": [1], "values": [1.0]}}',
        '{"array": {"dtype": "int64", "shape": [1], "values": [1.5]}}',
        '{"array": {"dtype": "bool", "shape": [1], "values": [1]}}',
        '{"array": {"dtype": "float32", "shape": [-1], "values": []}}',
        '{"array": {"dtype": "float32", "shape": [true], "values": [1.0]}}',
        '{"ellipsis": false}',
        '{"other": 3}',
        '{"other": "x", "more": 1}',
        '{"__class__": "os.system"}',
        "{}",
        '"\\ud800"',
        '"' + "x" * 3_000 + '"',
        "[" * 100 + "]" * 100,
        "[" * 100_000 + "]" * 100_000,
        "[" + "1," * 30_000 + "1]",
        "not json",
        "",
    ],
)
def test_what_encode_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(LectureError):
        decode(loads(text))


def test_the_text_has_a_limit() -> None:
    with pytest.raises(LectureError, match="at most 10 characters"):
        loads("[" + "1," * 20 + "1]", limit=10)


def test_torch_and_pint_stay_out() -> None:
    code = "import lecture_lib.exercises, sys; assert not {'torch', 'pint', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
