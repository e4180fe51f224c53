from __future__ import annotations

import ast

import mutants
import pytest


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "return 2 * M * n",
            {
                "return 2 * (2 * M * n)",
                "return 2 * M",
                "return n",
                "return 2 * M + n",
                "return 2 * n",
                "return M * n",
                "return (2 + M) * n",
                "return 3 * M * n",
                "return 1 * M * n",
                "return 2 * n * n",
                "return 2 * M * M",
            },
        ),
        (
            "return M - 1",
            {"return M", "return 1", "return 1 - M", "return M + 1", "return M - 2", "return M - 0"},
        ),
        ("return M < n", {"return M <= n", "return M >= n"}),
        ("return M // n", {"return n // M", "return M * n"}),
        ("return math.ceil(M)", {"return M", "return math.floor(M)"}),
        ("return x.to(torch.float32)", {"return x.to(torch.bfloat16)"}),
        ("return f(x, 'bf16')", {"return f(x, 'fp32')"}),
        ("return W.T @ X", {"return W @ X", "return X @ W.T"}),
        ("return M, n", {"return (2 * M, n)", "return (M, 2 * n)", "return (n, M)"}),
        ("return M if M > n else n", {"return M", "return n", "return M if M >= n else n"}),
        ("total = 0\n    total += M\n    return total", {"pass", "total = M"}),
        ("if M > n:\n        return M\n    return n", {"if not M > n:", "if M >= n:"}),
        (
            "return einsum(x, 'a b -> b a')",
            {"return einsum(x, 'b a -> b a')", "return einsum(x, 'a b -> a b')"},
        ),
        ("return not M", {"return M"}),
        ("return M and n", {"return M or n"}),
        ("return 0.5", {"return 1.0"}),
        ("return True", {"return False"}),
    ],
)
def test_the_edits_of_a_function(body: str, expected: set[str]) -> None:
    source = f"def f(M, n):\n    {body}\n"
    found = mutants.of_function(source)
    assert expected <= {m.line for m in found}, sorted(m.line for m in found)
    texts = [m.source for m in found]
    assert len(set(texts)) == len(texts) and ast.unparse(ast.parse(source)) + "\n" not in texts
    for mutant in found:
        compile(mutant.source, "<mutant>", "exec")


def test_what_is_no_edit() -> None:
    found = mutants.of_function(
        'def f(xs, n=3):\n    """Words with 3 in them."""\n    return zip(xs, xs, strict=True)\n'
    )
    assert all("n=3" in m.source and "Words with 3" in m.source and "strict=True" in m.source for m in found)


def test_the_edits_of_a_pattern() -> None:
    found = {m.line for m in mutants.of_pattern("b m i, b m o -> i o")}
    assert {"m b i, b m o -> i o", "b m i, b o m -> i o", "b m i, b m o -> o i", "b m i, b m o -> i"} <= found
    assert "b m i, b m o -> i o" not in found
