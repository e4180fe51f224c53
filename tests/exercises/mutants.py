"""Every one-edit mutant of a reference: what a public case has to catch.

`of_function(source)` edits a function's body through its syntax tree, `of_pattern(text)` an einops pattern. A
mutant is named by its changed line as `ast.unparse` writes it (or the changed pattern): that is what
`equivalent` lists.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`line`: the changed line, for people and for `equivalent`; `source`: the whole mutant."""

    line: str
    source: str


_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.Mult,
    ast.RShift: ast.Mult,
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_TWINS = {
    "float32": "bfloat16",
    "bfloat16": "float32",
    "float16": "float32",
    "float64": "float32",
    "fp32": "bf16",
    "bf16": "fp32",
    "int64": "int32",
    "int32": "int64",
    "ceil": "floor",
    "floor": "ceil",
    "max": "min",
    "min": "max",
    "sum": "max",
    "mean": "sum",
    "any": "all",
    "all": "any",
}
_TRANSPOSES = {"T", "mT", "t"}


def of_function(source: str) -> list[Mutant]:
    """All mutants of the one function that `source` defines, each once, in the order of the text."""
    tree = ast.parse(source)
    found: dict[str, Mutant] = {ast.unparse(tree): Mutant("", "")}
    for index, node in enumerate(ast.walk(tree)):
        if not _in_body(tree, node):
            continue
        for replacement in _replacements(node, _parameters(tree)):
            mutated = copy.deepcopy(tree)
            target = list(ast.walk(mutated))[index]
            fresh = ast.fix_missing_locations(ast.copy_location(copy.deepcopy(replacement), target))
            _Replace(target, fresh).visit(mutated)
            text = ast.unparse(ast.fix_missing_locations(mutated))
            found.setdefault(text, Mutant(_line_of(mutated, fresh), text + "\n"))
    return list(found.values())[1:]


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self.target, self.replacement = target, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self.replacement if node is self.target else self.generic_visit(node)


def _function(tree: ast.Module) -> ast.FunctionDef:
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef), "expected the source of one function"
    return function


def _parameters(tree: ast.Module) -> list[str]:
    return [argument.arg for argument in _function(tree).args.args]


def _in_body(tree: ast.Module, node: ast.AST) -> bool:
    for outer in ast.walk(tree):
        if isinstance(outer, ast.keyword) and outer.arg == "strict" and outer.value is node:
            return False  # zip's strict changes no value
    return any(node is inner for statement in _function(tree).body for inner in ast.walk(statement))


def _line_of(tree: ast.Module, node: ast.AST) -> str:
    """First line of the innermost statement that holds `node`."""
    holding = [s for s in ast.walk(tree) if isinstance(s, ast.stmt) and any(node is n for n in ast.walk(s))]
    return ast.unparse(min(holding, key=lambda s: sum(1 for _ in ast.walk(s)))).partition("\n")[0]


def _replacements(node: ast.AST, parameters: list[str]) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp):
        yield from _of_operation(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in _COMPARISONS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [other()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.If):
        yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    elif isinstance(node, ast.Name):
        yield from _of_name(node, parameters)
    elif isinstance(node, ast.Attribute):
        if node.attr in _TRANSPOSES:
            yield node.value
        if node.attr in _TWINS:
            yield ast.Attribute(node.value, _TWINS[node.attr], node.ctx)
    elif isinstance(node, ast.Call):
        if (
            len(node.args) == 1
            and not node.keywords
            and not isinstance(node.args[0], ast.GeneratorExp | ast.Starred)
        ):
            yield node.args[0]
        elif isinstance(node.func, ast.Attribute):
            yield node.func.value  # x.contiguous() -> x
    elif isinstance(node, ast.AugAssign):
        yield ast.Pass()
        yield ast.Assign([node.target], node.value)
    elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
        yield ast.Pass()
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _of_return(node.value)


def _of_operation(node: ast.BinOp) -> Iterator[ast.AST]:
    yield node.left
    yield node.right
    if type(node.op) in _OPERATORS:
        yield ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right)
    if not isinstance(node.op, ast.Add | ast.Mult):
        yield ast.BinOp(node.right, node.op, node.left)


def _of_constant(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        yield ast.Constant(value - 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 2)
    elif isinstance(value, str):
        if "->" in value:
            for mutant in of_pattern(value):
                yield ast.Constant(mutant.source)
        else:
            yield ast.Constant(_TWINS.get(value, value + "_"))


def _of_name(node: ast.Name, parameters: list[str]) -> Iterator[ast.AST]:
    if not isinstance(node.ctx, ast.Load):
        return
    if node.id in _TWINS:
        yield ast.Name(_TWINS[node.id], ast.Load())
    if node.id in parameters:
        for other in parameters:
            if other != node.id:
                yield ast.Name(other, ast.Load())


def _of_return(value: ast.expr) -> Iterator[ast.AST]:
    if isinstance(value, ast.Tuple):
        for i, item in enumerate(value.elts):
            doubled = ast.BinOp(ast.Constant(2), ast.Mult(), item)
            yield ast.Return(ast.Tuple([*value.elts[:i], doubled, *value.elts[i + 1 :]], ast.Load()))
        if len(value.elts) == 2:
            yield ast.Return(ast.Tuple(value.elts[::-1], ast.Load()))
    elif not isinstance(value, ast.Constant):
        yield ast.Return(ast.BinOp(ast.Constant(2), ast.Mult(), value))


def of_pattern(pattern: str) -> list[Mutant]:
    """An einops pattern with two neighbours of one term swapped, or one axis left out of its result."""
    left, _, right = pattern.partition("->")
    terms = [term.split() for term in left.split(",")] + [right.split()]
    found: dict[str, Mutant] = {}
    for t, term in enumerate(terms):
        for i in range(len(term) - 1):
            swapped = [*term[:i], term[i + 1], term[i], *term[i + 2 :]]
            _add(found, [*terms[:t], swapped, *terms[t + 1 :]])
    for i in range(len(terms[-1])):
        _add(found, [*terms[:-1], terms[-1][:i] + terms[-1][i + 1 :]])
    return list(found.values())


def _add(found: dict[str, Mutant], terms: list[list[str]]) -> None:
    text = f"{', '.join(' '.join(term) for term in terms[:-1])} -> {' '.join(terms[-1])}"
    if text.count("(") == text.count(")"):
        found.setdefault(text, Mutant(text, text))
