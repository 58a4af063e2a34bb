"""The template language: syntax tree, parser and compiler."""
