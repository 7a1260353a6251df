"""Where a name is bound in nine languages' syntax trees: parameters, local variables, the function's own name.

A name that is bound within a scope may be called otherwise there and nothing else changes; all others mean something
outside of it. The table says in which child (`field`, or any) of which node a name is bound, or what it passes through
on its way there: in `for (a, b) in pairs` the names are bound by the loop, through a tuple.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

NAME = "identifier"
"""What leaves are called that name variables and functions; most grammars call fields and types otherwise."""

_NAMES_ELSEWHERE = frozenset(
    {
        ("attribute", "attribute"),
        ("keyword_argument", "name"),
        ("method_invocation", "name"),
        ("field_access", "field"),
    }
)
"""Nodes and their fields in which a name means something of another's."""

SCOPES = frozenset(
    {
        "function_definition",
        "function_declaration",
        "function_expression",
        "function_item",
        "generator_function_declaration",
        "method_definition",
        "method_declaration",
        "constructor_declaration",
    }
)

_ANY = None

_BINDS: dict[str, frozenset[str | None]] = {
    # Python
    "parameters": frozenset({_ANY}),
    "lambda_parameters": frozenset({_ANY}),
    "default_parameter": frozenset({"name"}),
    "typed_default_parameter": frozenset({"name"}),
    "assignment": frozenset({"left"}),
    "augmented_assignment": frozenset({"left"}),
    "for_statement": frozenset({"left"}),
    "for_in_clause": frozenset({"left"}),
    "named_expression": frozenset({"name"}),
    "as_pattern_target": frozenset({_ANY}),
    # JavaScript and TypeScript
    "variable_declarator": frozenset({"name"}),
    "formal_parameters": frozenset({_ANY}),
    "required_parameter": frozenset({"pattern"}),
    "optional_parameter": frozenset({"pattern"}),
    "arrow_function": frozenset({"parameter"}),
    "catch_clause": frozenset({"parameter"}),
    "for_in_statement": frozenset({"left"}),
    "function_expression": frozenset({"name"}),
    # Rust
    "let_declaration": frozenset({"pattern"}),
    "let_condition": frozenset({"pattern"}),
    "parameter": frozenset({"pattern"}),
    "for_expression": frozenset({"pattern"}),
    "closure_parameters": frozenset({_ANY}),
    "match_pattern": frozenset({_ANY}),
    "function_item": frozenset({"name"}),
    # Go
    "short_var_declaration": frozenset({"left"}),
    "range_clause": frozenset({"left"}),
    "parameter_declaration": frozenset({"name", "declarator"}),
    "var_spec": frozenset({"name"}),
    # Java
    "formal_parameter": frozenset({"name"}),
    "catch_formal_parameter": frozenset({"name"}),
    "enhanced_for_statement": frozenset({"name"}),
    "inferred_parameters": frozenset({_ANY}),
    "method_declaration": frozenset({"name"}),
    # C and C++
    "declaration": frozenset({"declarator"}),
    "init_declarator": frozenset({"declarator"}),
    "for_range_loop": frozenset({"declarator"}),
    # several
    "function_definition": frozenset({"name", "declarator"}),
    "function_declaration": frozenset({"name"}),
}

_PASSES: dict[str, frozenset[str | None]] = {
    "typed_parameter": frozenset({_ANY}),
    "list_splat_pattern": frozenset({_ANY}),
    "dictionary_splat_pattern": frozenset({_ANY}),
    "pattern_list": frozenset({_ANY}),
    "tuple_pattern": frozenset({_ANY}),
    "list_pattern": frozenset({_ANY}),
    "expression_list": frozenset({_ANY}),
    "object_pattern": frozenset({_ANY}),
    "array_pattern": frozenset({_ANY}),
    "pair_pattern": frozenset({"value"}),
    "assignment_pattern": frozenset({"left"}),
    "rest_pattern": frozenset({_ANY}),
    "mut_pattern": frozenset({_ANY}),
    "ref_pattern": frozenset({_ANY}),
    "reference_pattern": frozenset({_ANY}),
    "tuple_struct_pattern": frozenset({_ANY}),
    "pointer_declarator": frozenset({"declarator"}),
    "reference_declarator": frozenset({_ANY}),
    "array_declarator": frozenset({"declarator"}),
    "function_declarator": frozenset({"declarator"}),
}


def is_variable(leaf: "Node") -> bool:
    """Whether this leaf names what may be bound here."""
    if leaf.type != NAME:
        return False
    parent = leaf.parent
    return parent is None or (parent.type, _field(parent, leaf)) not in _NAMES_ELSEWHERE


def is_bound(leaf: "Node") -> bool:
    """Whether this name is bound here, and not only used."""
    node = leaf
    while (parent := node.parent) is not None:
        field = _field(parent, node)
        if field in ("type", "value") and parent.type in ("typed_parameter", "tuple_struct_pattern"):
            return False
        if _allows(_BINDS, parent.type, field):
            return True
        if not _allows(_PASSES, parent.type, field):
            return False
        node = parent
    return False


def _allows(table: dict[str, frozenset[str | None]], kind: str, field: str | None) -> bool:
    fields = table.get(kind)
    return fields is not None and (_ANY in fields or field in fields)


def _field(parent: "Node", child: "Node") -> str | None:
    for position in range(parent.child_count):
        if parent.child(position) == child:
            return parent.field_name_for_child(position)
    return None
