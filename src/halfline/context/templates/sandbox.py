"""The template of a task's input: Jinja's language, of which only what is bounded is left.

Of the syntax a short list is allowed: showing placeholders, conditions, loops over lists, a few filters. No calls, no
assignment, no arithmetic, no other files: so a template reaches nothing but its values, and nothing grows in it. What
it does is counted while it runs (operations.py), and the text ends at its limit.
Compiling is what costs (measured in docs/tasks.md): one object of this kind is one compiled template.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from halfline.context.templates.operations import FILTERS, Budget, compared, shown, turns
from halfline.errors import BadTemplate, PlaceholdersRefused

if TYPE_CHECKING:
    from jinja2 import nodes

_MAX_NUMBER_BITS = 1024  # as a float's
_MAX_NESTED = 100  # nodes within each other
_LOOP = frozenset(("index", "index0", "first", "last", "length"))
_JINJAS = frozenset(
    ("self", "super", "caller", "varargs", "kwargs")
)  # names that have a meaning of their own
_NODES = frozenset(
    (
        *("Template", "Output", "TemplateData", "Name", "Const", "If", "For", "CondExpr"),
        *("Filter", "Test", "Getattr", "Getitem", "Not", "And", "Or", "Compare", "Operand", "Keyword"),
    )
)


class InputTemplate:
    """`names` are the placeholders that the text may use."""

    def __init__(self, where: str, source: str, names: frozenset[str]) -> None:
        """`where` names the template in errors. Raises BadTemplate."""
        # Start-up time: most servers complete code and are never asked for a task.
        from jinja2 import TemplateError, meta, nodes

        environment = _environment()
        try:
            tree = environment.parse(source)
            _check(where, tree, 0)
            used = (
                meta.find_undeclared_variables(tree)
                | {each.name for each in tree.find_all(nodes.Name)} & _JINJAS
            )
            unknown = sorted(used - names)
            if unknown:
                raise BadTemplate(where, f"`input` uses {unknown[0]!r}, which is no placeholder")
            _let_pay(tree)
            code = environment.compile(tree)
        except TemplateError as error:
            raise BadTemplate(where, f"`input`: {str(error)[:300]}") from None
        except (SyntaxError, RecursionError, MemoryError):  # of the Python that it would become
            raise BadTemplate(where, "`input` is nested too deeply") from None
        except ValueError as error:  # a number in it that Python reads none as large as
            raise BadTemplate(where, f"`input`: {str(error)[:300]}") from None
        self.source = source
        self._template = environment.template_class.from_code(environment, code, {})

    def render(self, values: Mapping[str, object], max_characters: int) -> str:
        """Raises PlaceholdersRefused where these values make too long a text, too long a way, or none."""
        from jinja2 import TemplateError

        pieces: list[str] = []
        num_characters = 0
        try:
            for piece in self._template.generate(**values, _budget=Budget()):
                num_characters += len(piece)
                if num_characters > max_characters:
                    raise PlaceholdersRefused(
                        {"placeholders": f"make a text of more than {max_characters} characters"}
                    )
                pieces.append(piece)
        except (TemplateError, TypeError, ValueError, RecursionError) as error:
            raise PlaceholdersRefused({"placeholders": f"cannot be shown: {str(error)[:300]}"}) from None
        return "".join(pieces)


def _check(where: str, node: "nodes.Node", depth: int) -> None:
    from jinja2 import nodes

    kind = type(node).__name__
    if kind not in _NODES:
        raise BadTemplate(where, f"`input` uses {kind} in line {node.lineno}, which templates may not")
    if depth > _MAX_NESTED:
        raise BadTemplate(where, "`input` is nested too deeply")
    if isinstance(node, nodes.For) and node.recursive:
        raise BadTemplate(where, f"`input` has a recursive loop in line {node.lineno}")
    if isinstance(node, nodes.Filter) and (node.name not in FILTERS or node.node is None):
        raise BadTemplate(where, f"`input` uses the filter {node.name}; there are {', '.join(FILTERS)}")
    if isinstance(node, nodes.Test) and node.name != "none":
        raise BadTemplate(where, f"`input` uses the test {node.name}; there is only none")
    if isinstance(node, nodes.Getitem) and not isinstance(node.arg, nodes.Const):
        raise BadTemplate(where, f"`input` uses an index in line {node.lineno} that is no constant")
    if isinstance(node, nodes.Const) and not _is_plain(node.value):
        raise BadTemplate(where, f"`input` has a constant in line {node.lineno} that cannot be shown")
    for child in node.iter_child_nodes():
        _check(where, child, depth + 1)


def _is_plain(constant: object) -> bool:
    """Whether it is the same in the Python that the template becomes, and can be encoded."""
    if isinstance(constant, str):
        return not any("\ud800" <= each <= "\udfff" for each in constant)
    if isinstance(constant, float):
        return math.isfinite(constant)
    return not isinstance(constant, int) or constant.bit_length() <= _MAX_NUMBER_BITS


def _let_pay(tree: "nodes.Template") -> None:
    """Make calls of comparisons, and let every loop pay for its turns before it begins."""
    from jinja2 import nodes
    from jinja2.visitor import NodeTransformer

    def call(name: str, value: Any, arguments: "list[nodes.Expr]", like: "nodes.Node") -> "nodes.Filter":
        return nodes.Filter(
            value, name, arguments, [], None, None, lineno=like.lineno, environment=like.environment
        )

    class Comparisons(NodeTransformer):
        def visit_Compare(self, node: "nodes.Compare") -> "nodes.Filter":
            self.generic_visit(node)
            others = [each for operand in node.ops for each in (nodes.Const(operand.op), operand.expr)]
            return call("compared", node.expr, others, node)

    Comparisons().visit(tree)
    for loop in list(tree.find_all(nodes.For)):
        num_nodes = sum(map(_num_nodes, (*loop.body, *((loop.test,) if loop.test else ()))))
        loop.iter = call("turns", loop.iter, [nodes.Const(num_nodes)], loop)


def _num_nodes(node: "nodes.Node") -> int:
    """With all within it, but of a loop only what it goes over: its turns are paid for by itself."""
    from jinja2 import nodes

    inner = (node.iter, *node.else_) if isinstance(node, nodes.For) else node.iter_child_nodes()
    return 1 + sum(map(_num_nodes, inner))


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.runtime import LoopContext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        """Nothing has attributes but loops and objects of JSON."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            if isinstance(obj, LoopContext) and attribute in _LOOP:
                return getattr(obj, attribute)
            return self.getitem(obj, attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            if isinstance(obj, dict | list):
                try:
                    return obj[argument]
                except (LookupError, TypeError):
                    pass
            return self.undefined(obj=obj, name=argument)

    environment = Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=shown,
    )
    environment.globals.clear()
    environment.tests = {"none": lambda value: value is None}
    environment.filters = {**_with_budget(FILTERS), **_with_budget({"turns": turns, "compared": compared})}
    return environment


def _with_budget(filters: Mapping[str, Callable[..., object]]) -> dict[str, Callable[..., Any]]:
    """What Jinja passes them is the rendering's context; none of them is run ahead, when a template is compiled."""
    from jinja2 import pass_context

    def paying(function: Callable[..., object]) -> Callable[..., object]:
        @pass_context
        def run(context: Any, *arguments: object, **named: object) -> object:
            return function(context["_budget"], *arguments, **named)

        return run

    return {name: paying(function) for name, function in filters.items()}
