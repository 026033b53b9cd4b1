"""A second reading of a command, by tree-sitter's grammar of bash.

Two readers that know nothing of each other have to find the same simple commands, word by word. So a mistake of one of
them, about where a word, a quote or a comment ends, makes somebody be asked, and lets nothing run.
"""

from typing import Final

import tree_sitter
import tree_sitter_bash

_LANGUAGE: Final = tree_sitter.Language(tree_sitter_bash.language())
# Whatever else there is in a tree cannot be judged.
_KNOWN: Final = frozenset(
    {"program", "list", "pipeline", "command", "redirected_statement", "subshell", "compound_statement"}
    | {"negated_command", "file_redirect", "comment", "command_name", "word", "number", "string", "string_content"}
    | {"raw_string", "concatenation", "variable_assignment", "variable_name", "file_descriptor"}
)
_PARTS: Final = frozenset({"command_name", "variable_assignment", "word", "number", "string", "raw_string"})


def commands(text: str) -> list[tuple[str, ...]] | None:
    """The assignments and words of every simple command as they are written, in the text's order; None: it cannot be
    told. The text is short (command_words.LONGEST), and has few commands: a pipeline takes the square of its length."""
    # A parser of its own each time: threads must not share one.
    tree = tree_sitter.Parser(_LANGUAGE).parse(text.encode())
    if tree.root_node.has_error:
        return None
    found: list[tuple[str, ...]] = []
    left = [tree.root_node]
    while left:
        node = left.pop()
        if node.is_missing or (node.is_named and node.type not in _KNOWN):
            return None
        if node.type == "file_redirect" and len(node.children_by_field_name("destination")) != 1:
            return None  # words behind a redirection, of which bash makes arguments
        if node.type == "command":
            parts = [each for each in node.named_children if each.type in _PARTS or each.type == "concatenation"]
            found.append(tuple((each.text or b"").decode() for each in parts))
        left += reversed(node.children)
    return found
