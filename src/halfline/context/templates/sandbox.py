"""The template of a task's input: Jinja's language, of which only what is bounded is left.

Of the syntax a short list is allowed: showing placeholders, conditions, loops over lists, a few filters. No calls, no
assignment, no arithmetic, no other files: so a template reaches nothing but its values, and nothing grows in it. What
it does is counted while it runs: a loop pays for all its turns before the first, and the text ends at its limit.
Compiling is what costs (measured in docs/tasks.md): one object of this kind is one compiled template.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from halfline.errors import BadTemplate, PlaceholdersRefused

if TYPE_CHECKING:
    from jinja2 import nodes

_MAX_STEPS = 100_000
_MAX_INDENT = 16
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
            _count_loops(tree)
            code = environment.compile(tree)
        except TemplateError as error:
            raise BadTemplate(where, f"`input`: {error}") from None
        except (SyntaxError, RecursionError, MemoryError):  # of the Python that it would become
            raise BadTemplate(where, "`input` is nested too deeply") from None
        self.source = source
        self._template = environment.template_class.from_code(environment, code, {})

    def render(self, values: Mapping[str, object], max_characters: int) -> str:
        """Raises PlaceholdersRefused where these values make too long a text, too long a way, or none."""
        from jinja2 import TemplateError

        pieces: list[str] = []
        num_characters = 0
        try:
            for piece in self._template.generate(**values, _budget=_Budget()):
                num_characters += len(piece)
                if num_characters > max_characters:
                    raise PlaceholdersRefused(
                        {"placeholders": f"make a text of more than {max_characters} characters"}
                    )
                pieces.append(piece)
        except (TemplateError, TypeError, ValueError) as error:
            raise PlaceholdersRefused({"placeholders": f"cannot be shown: {str(error)[:300]}"}) from None
        return "".join(pieces)


class _Budget:
    """What one rendering may still do: a turn of a loop is a step, and so are 64 characters that a filter looks at."""

    def __init__(self) -> None:
        self._left = _MAX_STEPS

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise ValueError(f"it takes more than {_MAX_STEPS} steps")


def _check(where: str, node: "nodes.Node", depth: int) -> None:
    from jinja2 import nodes

    kind = type(node).__name__
    if kind not in _NODES:
        raise BadTemplate(where, f"`input` uses {kind} in line {node.lineno}, which templates may not")
    if depth > _MAX_NESTED:
        raise BadTemplate(where, "`input` is nested too deeply")
    if isinstance(node, nodes.For) and node.recursive:
        raise BadTemplate(where, f"`input` has a recursive loop in line {node.lineno}")
    if isinstance(node, nodes.Filter) and (node.name not in _FILTERS or node.node is None):
        raise BadTemplate(where, f"`input` uses the filter {node.name}; there are {', '.join(_FILTERS)}")
    if isinstance(node, nodes.Test) and node.name != "none":
        raise BadTemplate(where, f"`input` uses the test {node.name}; there is only none")
    if isinstance(node, nodes.Getitem) and not isinstance(node.arg, nodes.Const):
        raise BadTemplate(where, f"`input` uses an index in line {node.lineno} that is no constant")
    for child in node.iter_child_nodes():
        _check(where, child, depth + 1)


def _count_loops(tree: "nodes.Template") -> None:
    """Let every loop pay for its turns before it begins."""
    from jinja2 import nodes

    for loop in list(tree.find_all(nodes.For)):
        loop.iter = nodes.Filter(
            loop.iter, "turns", [], [], None, None, lineno=loop.lineno, environment=loop.environment
        )


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
        finalize=_shown,
    )
    environment.globals.clear()
    environment.tests = {"none": lambda value: value is None}
    environment.filters = {**_with_budget(_FILTERS), **_with_budget({"turns": _turns})}
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


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("a list or a table is no text; loop over it")


def _turns(budget: _Budget, value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("a loop needs a list")
    budget.spend(1 + len(value))
    return value


def _read(budget: _Budget, value: object) -> str:
    """The value as text, paid for."""
    text = _shown(value)
    budget.spend(1 + len(text) // 64)
    return text


def _default(budget: _Budget, value: object, otherwise: object = "") -> object:
    """Also for an empty text, which is as good as none."""
    return otherwise if value is None or value == "" else value


def _indent(budget: _Budget, value: object, width: int = 4) -> str:
    """All lines but the first and the empty ones."""
    if not isinstance(width, int) or not 0 <= width <= _MAX_INDENT:
        raise ValueError(f"indent takes at most {_MAX_INDENT}")
    first, *others = _read(budget, value).split("\n")
    return "\n".join([first, *(" " * width + line if line.strip() else line for line in others)])


def _join(budget: _Budget, value: object, between: object = "") -> str:
    texts = [_read(budget, each) for each in _turns(budget, value)]
    separator = _shown(between)
    budget.spend(len(separator) * len(texts) // 64)
    return separator.join(texts)


def _first(budget: _Budget, value: object) -> object:
    return value[0] if isinstance(value, list) and value else None


def _last(budget: _Budget, value: object) -> object:
    return value[-1] if isinstance(value, list) and value else None


def _length(budget: _Budget, value: object) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0


_FILTERS: Mapping[str, Callable[..., object]] = {
    "default": _default,
    "first": _first,
    "indent": _indent,
    "join": _join,
    "last": _last,
    "length": _length,
    "lower": lambda budget, value: _read(budget, value).lower(),
    "trim": lambda budget, value: _read(budget, value).strip(),
    "upper": lambda budget, value: _read(budget, value).upper(),
}
