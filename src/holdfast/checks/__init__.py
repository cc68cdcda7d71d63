"""What is worth a look: verdicts over numbers that were measured elsewhere."""

from holdfast.checks.evaluation import Facts, evaluate

__all__ = ["Facts", "evaluate"]
