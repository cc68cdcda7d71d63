"""What happens to the rows between source and sinks, and what is told when it fails."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    TransformFailed,
)

from .world import World

pytestmark = pytest.mark.spark


def test_select_and_where(world: World) -> None:
    """Rows and columns are chosen in SQL."""
    world.configure(keys="where = \"paise >= 20\"\nselect = ['id', 'paise / 10 as rupees']")
    world.add(5)

    world.run()

    assert world.lake("id", "rupees") == {(i, float(i)): 1 for i in (2, 3, 4)}


def test_a_query_over_each_batch(world: World) -> None:
    """A query sees one micro-batch as the view `batch`."""
    world.configure(keys='sql = "select merchant, count(*) as n from batch group by merchant"')
    world.add(6)
    world.add(3)

    world.run()

    assert world.lake("merchant", "n") == {("m0", 2): 1, ("m1", 2): 1, ("m2", 2): 1} | {
        ("m0", 1): 1,
        ("m1", 1): 1,
        ("m2", 1): 1,
    }


def test_a_python_function(world: World) -> None:
    """A function of a module beside the configuration takes and returns a DataFrame."""
    (world.root / "shaping.py").write_text(
        "def doubled(frame):\n    return frame.selectExpr('id', 'paise * 2 as paise')\n"
    )
    world.configure(keys='python = "shaping:doubled"')
    world.add(2)

    world.run()

    assert world.lake("id", "paise") == {(0, 0): 1, (1, 20): 1}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('select = ["no_such_column"]', "no_such_column"),
        ('sql = "select nothing from batch"', "nothing"),
        ('python = "no_such_module:f"', "no_such_module"),
    ],
)
def test_a_wrong_transform_is_named(world: World, keys: str, said: str) -> None:
    """A mistake in SQL or Python ends the run with its words, and nothing is delivered."""
    world.configure(keys=keys)
    world.add()

    with pytest.raises(TransformFailed, match=said):
        world.run()
    assert world.lake() == {}


def test_a_function_that_raises_is_named(world: World) -> None:
    """The user's own exception is told with the place it was raised at."""
    (world.root / "failing.py").write_text("def f(frame):\n    return 1 / 0\n")
    world.configure(keys='python = "failing:f"')
    world.add()

    with pytest.raises(TransformFailed, match=r"ZeroDivisionError.*failing\.py:2"):
        world.run()


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("def f(frame):\n    return frame.select('nope')\n", r"nope.*wrong\.py:2"),
        ("def f(frame:\n", r"SyntaxError.*wrong\.py"),
        ("raise NameError('x')\n", r"NameError: x.*wrong\.py:1"),
        ("import sys\ndef f(frame):\n    sys.exit(3)\n", r"SystemExit: 3.*wrong\.py:3"),
        ("f = 3\n", r"wrong:f is a int, not a function"),
        ("def g(frame): ...\n", r"has no f"),
    ],
)
def test_mistakes_in_a_users_module_are_the_users(world: World, module: str, said: str) -> None:
    """Whatever is wrong with it is told with its place, and never called a mistake of ours."""
    (world.root / "wrong.py").write_text(module)
    world.configure(keys='python = "wrong:f"')
    world.add()

    with pytest.raises(TransformFailed, match=said):
        world.run()


def test_a_function_on_the_workers_keeps_its_words(world: World) -> None:
    """What a user's function on Spark's workers raises is told, not that it raised."""
    (world.root / "working.py").write_text(
        "from pyspark.sql import functions as F\n"
        "@F.udf('long')\n"
        "def broken(x):\n    raise ValueError('no such luck')\n"
        "def f(frame):\n    return frame.withColumn('id', broken('id'))\n"
    )
    world.configure(keys='python = "working:f"')
    world.add()

    with pytest.raises(TransformFailed, match="ValueError: no such luck"):
        world.run()
