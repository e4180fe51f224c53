"""The README's picture: what one model spends of each of the three budgets, computed, as an SVG.

Written as text and not with Matplotlib, so that it comes out the same, byte for byte, on every machine.
"""

from __future__ import annotations

from html import escape

from lecture_lib.accounting.flops import training_run
from lecture_lib.accounting.operators import optimizer_step
from lecture_lib.accounting.tensors import tensor_bytes
from lecture_lib.quantity import Ledger, Quantity

P = 7_000_000_000
_FILLS = ("#9ecbea", "#f5c177", "#cfe8b4", "#e7c6e2")  # each with black words on it
_LEFT, _WIDTH = 250, 700


def budgets() -> dict[str, tuple[str, Ledger]]:
    """{budget: (unit, ledger)} for 7 billion parameters trained with AdamW, BF16 weights, FP32 moments."""
    weights, moment = tensor_bytes((P,), "bf16"), tensor_bytes((P,), "fp32")
    storage = {"weights": weights, "gradients": weights, "first moment": moment, "second moment": moment}
    step = training_run(P, 1)
    product = step / 3
    update = optimizer_step(P)
    return {
        "Storage, held all along": ("GB", Ledger(storage)),
        "Arithmetic, for each token": (
            "GFLOP",
            Ledger({"forward": product, "backward, inputs": product, "backward, weights": product}),
        ),
        "Data movement, for each update": ("GB", Ledger({"read": update.reads, "written": update.writes})),
    }


def svg() -> str:
    """The picture: a bar for each budget, its parts named and numbered in it, with a description in words."""
    bars, words = [], []
    for place, (budget, (unit, ledger)) in enumerate(budgets().items()):
        top = 62 + 74 * place
        total = _amount(ledger.total, unit)
        bars.append(f'<text x="{_LEFT - 14}" y="{top + 20}" text-anchor="end">{escape(budget)}</text>')
        bars.append(
            f'<text x="{_LEFT - 14}" y="{top + 40}" text-anchor="end" font-weight="bold">{total}</text>'
        )
        left = float(_LEFT)
        for fill, (part, amount) in zip(_FILLS, ledger.items(), strict=False):
            width = _WIDTH * float(amount.value / ledger.total.value)
            box = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="48"'
            bars.append(f'<rect {box} fill="{fill}" stroke="#222"/>')
            middle = f'x="{left + width / 2:.1f}" text-anchor="middle"'
            bars.append(f'<text {middle} y="{top + 20}">{escape(part)}</text>')
            bars.append(f'<text {middle} y="{top + 39}">{amount.to(unit).value:g}</text>')
            left += width
        parts = ", ".join(f"{part} {_amount(amount, unit)}" for part, amount in ledger.items())
        words.append(f"{budget}: {total} ({parts}).")
    title = "What do 7 billion parameters spend when AdamW trains them?"
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 290" role="img" aria-labelledby="t d"'
            ' font-family="sans-serif" font-size="15">',
            f'<title id="t">{title}</title>',
            f'<desc id="d">{escape(" ".join(words))}</desc>',
            '<rect width="980" height="290" fill="#fff"/>',
            f'<text x="24" y="36" font-size="20" font-weight="bold">{title}</text>',
            *bars,
            "</svg>\n",
        ]
    )


def _amount(quantity: Quantity, unit: str) -> str:
    return f"{quantity.to(unit).value:g} {unit}"
