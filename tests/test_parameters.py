"""Parameters as data: the constructor, checks and documentation that follow from declarations."""

import copy
import inspect
import pickle

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError, UnknownParameterError
from tagloom.parameters import (
    Parameterised,
    attribute,
    choice,
    count,
    flag,
    names,
    number,
    parameter,
)


class Base(Parameterised):
    """A base."""

    order: int = count(default=1, least=1, help="Labels before.", details="More take longer.")
    l2: float | None = number(default=None, least=0, help="Penalty.")
    labels: list[str] | None = names(default=None, help="Labels.")


class Model(Base):
    """A model.

    It has two paragraphs.

    Examples
    --------
    >>> Model()
    """

    features: object = parameter(default="auto", kw_only=False, type="str or None", help="What.")
    kind: str = choice(default="a", choices=("a", None), also=("builtins.int",), help="Kind.")
    average: bool = flag(default=True, help="Whether to average.")
    order: int = count(default=2)
    state: object = attribute(init=False)


class Fixed(Model):
    """A model of order 1."""

    order = 1


def test_the_constructor_stores_its_arguments():
    model = Model("words", l2=0.5, kind=None)
    assert (model.features, model.l2, model.kind, model.order) == ("words", 0.5, None, 2)
    assert Model.order == 2
    assert not hasattr(model, "state")
    assert repr(model) == "Model(features='words', kind=None, l2=0.5)"
    for make in (lambda: Model(ordr=1), lambda: Model().set_params(ordr=1)):
        with raises(UnknownParameterError, parameter="ordr", hint="Did you mean order?") as caught:
            make()
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ValueError)
    with raises(UnknownParameterError, parameter="zzz", hint="It has: features"):
        Model(zzz=1)
    with raises(UnknownParameterError, parameter="c1", hint="c1 is l1 here."):
        tl.CRF(c1=0.1)
    with raises(UnknownParameterError, hint='all_possible_transitions is transitions="all" here.'):
        tl.CRF(all_possible_transitions=True)
    with pytest.raises(TypeError, match=r"^Model\(\) too many positional"):
        Model("words", "a")


def test_the_signature_is_that_of_the_declarations():
    assert str(inspect.signature(Model)) == (
        "(features='auto', *, kind='a', average=True, order=2, l2=None, labels=None)"
    )
    assert list(Model.parameters) == Model.parameter_names()


def test_a_declaration_is_inherited_where_it_is_silent():
    declared = Model.parameters["order"]
    assert (declared.default, declared.least, declared.help) == (2, 1, "Labels before.")
    assert Base.parameters["order"].default == 1
    with raises(ParameterError, parameter="order", expected="at least 1"):
        Model(order=0).check_parameters()


def test_a_plain_value_fixes_a_parameter():
    assert "order" not in Fixed.parameters
    assert Fixed().order == 1
    assert "order" not in Fixed().get_params()
    with pytest.raises(TypeError, match="order"):
        Fixed(order=1)


@pytest.mark.parametrize(
    ("values", "name", "found"),
    [
        ({"order": 1.5}, "order", "1.5"),
        ({"order": None}, "order", "None"),
        ({"l2": -1}, "l2", "-1"),
        ({"l2": "big"}, "l2", "'big'"),
        ({"average": 1}, "average", "1"),
        ({"kind": "b"}, "kind", "'b'"),
    ],
)
def test_values_are_checked_when_asked_for(values, name, found):
    model = Model(**values)  # the constructor only stores, as scikit-learn wants
    with raises(ParameterError, parameter=name, found=found):
        model.check_parameters()


def test_values_that_fit():
    Model(order=3, l2=0, kind=7, average=False, labels=["A"]).check_parameters()
    Model(kind=None, l2=None).check_parameters()


def test_the_docstring_has_the_parameters():
    assert inspect.getdoc(Model) == (
        "A model.\n\nIt has two paragraphs.\n\nParameters\n----------\n"
        'features : str or None, default "auto"\n    What.\n'
        'kind : {"a", None} or int, default "a"\n    Kind.\n'
        "average : bool, default True\n    Whether to average.\n"
        "order : int, default 2\n    Labels before. More take longer.\n"
        "l2 : float, optional\n    Penalty.\n"
        "labels : list of str, optional\n    Labels.\n\n"
        "Examples\n--------\n>>> Model()"
    )


def test_a_constructor_of_ones_own():
    class Own(Model):
        """A model with its own constructor."""

        def __init__(self, depth=3):
            super().__init__("words", order=depth)
            self.depth = depth

    own = Own(4)
    assert (own.order, own.get_params()) == (4, {"depth": 4})
    own.set_params(depth=5)
    assert repr(own) == "Own(depth=5)"


def test_parameters_can_be_set_copied_and_pickled():
    model = Model(l2=0.5)
    assert model.set_params(l2=2, kind=None) is model
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.get_params() == model.get_params()
    with raises(ParameterError, found="'depth'", hint="It has: features, kind"):
        model.set_params(depth=1)


# ---- models ------------------------------------------------------------------------------------

TAGGERS = [getattr(tl, name) for name in tl.__all__ if isinstance(getattr(tl, name), type)]
TAGGERS = [cls for cls in TAGGERS if issubclass(cls, tl.Tagger) and cls is not tl.Tagger]


@pytest.mark.parametrize("cls", TAGGERS)
def test_every_parameter_of_a_model_is_declared_and_documented(cls):
    assert list(cls.parameters) == cls.parameter_names()
    for declared in cls.parameters.values():
        assert declared.help.endswith("."), declared
        assert declared.document() in inspect.getdoc(cls)
        if declared.default is not None:
            declared.check_value(declared.default)
