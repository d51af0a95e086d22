"""Building members: one factory call each, each with its own seed."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.seeding import member_seeds, seeded
from tepui.core.warning import warn
from tepui.data.identity import tensors_hash
from tepui.modules.sharing import share_frozen

Factory = Callable[[], nn.Module]


def built_members(
    factory: Factory | Sequence[Factory], members: int | None, seed: int | Sequence[int]
) -> list[nn.Module]:
    """Call the factory for every member, each time with another seed."""
    check_factory(factory)
    count = _count(factory, members, seed)
    pairs = zip(factories_for(factory, count), member_seeds(seed, count), strict=True)
    modules: list[nn.Module] = []
    for make, member_seed in pairs:
        # A key: another spelling would draw other weights.
        with seeded(member_seed, "initialisation"):
            modules.append(made_by(make))
        share_frozen([modules[0], modules[-1]])
    return modules


def made_by(factory: Factory) -> nn.Module:
    """Return what a factory makes, a module."""
    module = factory()
    rule, actual = "return an nn.Module", type(module).__name__
    require(isinstance(module, nn.Module), "factory", rule, actual)
    return module


def check_factory(factory: Factory | Sequence[Factory]) -> None:
    """Raise if a module is given, which can be called but does not return one."""
    rule = "be a callable that returns a new module, or one per member"
    actual = f"a module of type {type(factory).__name__}"
    require(not isinstance(factory, nn.Module), "factory", rule, actual)


def factories_for(factory: Factory | Sequence[Factory], count: int) -> list[Factory]:
    """Return one factory per member."""
    check_factory(factory)
    factories = [factory] * count if callable(factory) else list(factory)
    require(len(factories) == count, "factory", f"be one or {count}", len(factories))
    return factories


def _count(
    factory: Factory | Sequence[Factory], members: int | None, seed: int | Sequence[int]
) -> int:
    if members is None:
        if not callable(factory):
            return len(factory)
        rule = "be given unless factories or seeds are listed, one per member"
        require(isinstance(seed, Sequence), "members", rule, None)
        return len(seed)  # type: ignore[arg-type]
    require(members > 0, "members", "be positive", members)
    return members


def warn_of_identical(modules: Sequence[nn.Module]) -> None:
    """Warn, once, when members start from the same weights."""
    states = (module.state_dict().items() for module in modules)
    digests = [
        tensors_hash({name: v for name, v in state if isinstance(v, Tensor)})
        for state in states
    ]
    alike = [n for n, digest in enumerate(digests) if digests.count(digest) > 1]
    if alike:
        warn(
            f"members {alike} start from identical weights: only data order, "
            "augmentation and the method will tell those apart"
        )
