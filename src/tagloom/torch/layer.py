"""`CRF`: a conditional random field as the last layer of a PyTorch network.

The class checks its arguments, chooses how to compute (`losses`, `sums`, `decoding`) and returns
tensors or lists; everything else that a trellis can answer, `CRF.trellis` passes to `tl.Trellis`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tagloom import checks
from tagloom import labels as label_schemes
from tagloom.errors import LabelError, ParameterError, ShapeError
from tagloom.torch import losses, sums
from tagloom.torch.batches import Padded, Ragged
from tagloom.torch.decoding import best_states
from tagloom.trellis import StateSpace, Trellis
from tagloom.trellis.inputs import check_offsets

Reduction = Literal["none", "sum", "mean", "token_mean"]
_REDUCTIONS = ("none", "sum", "mean", "token_mean")
_HALF = (torch.float16, torch.bfloat16)


class CRF(nn.Module):
    r"""A linear-chain conditional random field over the emissions of a network.

    The log-likelihood of a label path y of a sequence with emissions is::

        llh = start[y_0] + Σ_t emissions[t, y_t] + Σ_t transitions[y_{t-1}, y_t] + stop[y_T] − log_z

    Signature, sign, parameter names, shapes and initialisation are those of pytorch-crf: change the
    import, and load your checkpoints. On the CPU, loss and gradient are one call of the native
    core; on other devices they are computed in PyTorch.

    Parameters
    ----------
    num_tags : int
        Y, the number of labels.
    batch_first : bool, default False
        Whether batches are [B, L, ...] instead of [L, B, ...].
    labels : sequence of str, optional
        Names of the labels, for schemes and for `trellis`.
    constraints : str, StateSpace or array of bool, shape (Y, Y), optional
        Label paths that are allowed, in the loss and in all answers: the name of a scheme ("bio",
        "bioes", ...), which requires ``labels``; a state space; or the allowed transitions,
        from → to.
    order : int, default 1
        Number of preceding labels that each label depends on. For more than one, ``weights``
        has a weight for each label n-gram of length 3 to ``order + 1``.
    states : StateSpace, optional
        A state space of your own instead of ``order``; ``weights`` are its tied weights.
    boundaries : bool, default True
        Whether there are start and end transitions.
    backend : {"auto", "native", "torch"}, default "auto"
        What computes losses: the native core, which requires tensors on the CPU, or PyTorch.
        "auto" chooses by the device.

    Attributes
    ----------
    start_transitions, end_transitions : Parameter, shape (Y,)
    transitions : Parameter, shape (Y, Y)
        Score of y_prev → y, from → to.
    weights : Parameter, shape (K,)
        Tied weights of ``order`` and ``states``; only if there are any. ``states.unpack`` gives
        them by name.
    states : StateSpace
        The label paths.

    Raises
    ------
    ParameterError, LabelError, ShapeError
        If an argument is invalid.

    Notes
    -----
    *Masks* may have holes and may begin late: masked positions are skipped, and their neighbours
    become adjacent. A sequence without positions has log-likelihood 0 and the path ``[]``.

    *Partial labels.* A tag of −100 means unknown. Tags may also be of type bool with one more
    dimension, [B, L, Y], True for each label that is possible. Then
    llh = log Σ_{paths that the labels allow} exp(score) − log_z.

    *Impossible labels.* A sequence whose labels violate the constraints has log-likelihood −inf and
    adds nothing to the gradient.

    *Types.* float16 and bfloat16 are computed in float32. Sums are exact for any scores: where
    scaled probabilities could underflow, log space answers.

    *Second derivatives*, and those by `torch.func.grad`, are computed in log space by autograd.

    Examples
    --------
    >>> import torch
    >>> from tagloom.torch import CRF
    >>> _ = torch.manual_seed(0)
    >>> crf = CRF(3, batch_first=True)
    >>> emissions = torch.randn(2, 4, 3, requires_grad=True)
    >>> tags = torch.tensor([[0, 1, 2, 0], [1, 1, -100, 0]])
    >>> mask = torch.tensor([[True, True, True, True], [True, True, True, False]])
    >>> loss = -crf(emissions, tags, mask, reduction="mean")
    >>> loss.backward()
    >>> [len(path) for path in crf.decode(emissions, mask)]
    [4, 3]
    >>> crf.marginals(emissions, mask).shape
    torch.Size([2, 4, 3])
    """

    start_transitions: nn.Parameter | None
    end_transitions: nn.Parameter | None
    weights: nn.Parameter | None
    _forbidden: Tensor | None

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        labels: Sequence[str] | None = None,
        constraints: str | StateSpace | npt.ArrayLike | None = None,
        order: int = 1,
        states: StateSpace | None = None,
        boundaries: bool = True,
        backend: Literal["auto", "native", "torch"] = "auto",
    ) -> None:
        super().__init__()
        self.num_tags = Y = checks.count(num_tags, "num_tags", least=1)
        self.batch_first = checks.flag(batch_first, "batch_first")
        self.backend = checks.choice(backend, "backend", ("auto", "native", "torch"))
        self.labels = None if labels is None else tuple(checks.label_names(labels))
        if self.labels is not None and len(self.labels) != Y:
            raise LabelError(
                parameter="labels", expected=f"{Y} names, one per tag", found=str(len(self.labels))
            )
        self.states = self._state_space(constraints, order, states)
        is_chain = self.states.kind == "labels"
        #: the state space for `losses`; None where scores of −inf express it
        self._space = None if is_chain else self.states
        self._space_number = losses.number_space(self._space)
        for name in ("start_transitions", "end_transitions"):
            self.register_parameter(name, nn.Parameter(torch.empty(Y)) if boundaries else None)
        self.transitions = nn.Parameter(torch.empty(Y, Y))
        K = self.states.n_weights
        self.register_parameter("weights", nn.Parameter(torch.empty(K)) if K else None)
        self._has_forbidden = is_chain and not (
            self.states.transitions_allowed.all()
            and self.states.initial.all()
            and self.states.final.all()
        )
        if self._has_forbidden:
            space = self.states
            for name, allowed in (
                ("_no_transition", space.transitions_allowed),
                ("_no_start", space.initial),
                ("_no_stop", space.final),
            ):
                self.register_buffer(name, torch.from_numpy(~allowed), persistent=False)
        self.reset_parameters()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._space_number = losses.number_space(self._space)  # of this process

    def _state_space(self, constraints: Any, order: int, states: StateSpace | None) -> StateSpace:
        names = self.labels or self.num_tags
        if states is None:
            space = StateSpace.order(names, checks.count(order, "order", least=1))
        else:
            space = self._checked_space(states, "states")
            if order != 1:
                raise ParameterError(
                    parameter="order", expected="no order if states are given", found=str(order)
                )
        if constraints is None:
            return space
        if isinstance(constraints, str):
            if self.labels is None:
                raise ParameterError(
                    parameter="constraints",
                    expected="label names for a scheme",
                    found=f"{constraints!r} without labels",
                    hint="Pass labels=.",
                )
            allowed = label_schemes.state_space(self.labels, constraints)
        elif isinstance(constraints, StateSpace):
            allowed = self._checked_space(constraints, "constraints")
        else:
            array = constraints.cpu() if isinstance(constraints, Tensor) else constraints
            allowed = StateSpace.from_transitions(names, np.asarray(array))
        return allowed if space.kind == "labels" and states is None else space & allowed

    def _checked_space(self, space: Any, name: str) -> StateSpace:
        if not isinstance(space, StateSpace) or space.n_labels != self.num_tags:
            found = repr(space) if isinstance(space, StateSpace) else checks.show(space)
            expected = f"a StateSpace over {self.num_tags} labels"
            raise ParameterError(parameter=name, expected=expected, found=found)
        return space

    def reset_parameters(self) -> None:
        """Draw all parameters from the uniform distribution between −0.1 and 0.1."""
        for parameter in self.parameters():  # in the order of pytorch-crf: the same numbers
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        """Return the arguments that are shown by ``repr``."""
        parts = [f"num_tags={self.num_tags}"]
        if self._has_forbidden or self._space is not None:
            parts.append(f"states={self.states!r}")
        return ", ".join(parts)

    # ---- losses -----------------------------------------------------------------------------

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: Reduction = "sum",
        *,
        edge: Tensor | None = None,
    ) -> Tensor:
        """Compute the log-likelihood of labels; minimise its negative.

        Parameters
        ----------
        emissions : Tensor, shape (L, B, Y), or (B, L, Y) if ``batch_first``
            Score of each label at each position.
        tags : Tensor of int64, shape (L, B) or (B, L); or of bool, with a last axis Y
            Label ids, −100 for unknown; or the set of possible labels.
        mask : Tensor of bool, shape (L, B) or (B, L), optional
            The positions that count; all by default.
        reduction : {"none", "sum", "mean", "token_mean"}
            "mean" divides by the number of sequences, "token_mean" by that of positions.
        edge : Tensor, shape (L, B, Y, Y) or (B, L, Y, Y), optional
            Scores of transitions into each position, from → to. Those into a sequence's first
            position are not used.

        Returns
        -------
        Tensor
            A scalar, or [B] for reduction "none".

        Raises
        ------
        ShapeError, LabelError, ParameterError
            If shapes do not fit, or a tag is not a label.
        """
        batch, emit, mask, (tags_first, edge_first) = self._padded(emissions, mask, tags, edge)
        assert tags_first is not None
        self._check_tags_shape(tags_first, emit)
        return self._loss(batch, emit, tags_first, reduction, edge_first)

    def forward_ragged(
        self,
        emit: Tensor,
        offsets: Tensor | npt.ArrayLike,
        tags: Tensor,
        reduction: Reduction = "sum",
        *,
        edge: Tensor | None = None,
    ) -> Tensor:
        """Compute the log-likelihood of sequences that lie in a row, without padding.

        Parameters
        ----------
        emit : Tensor, shape (T, Y)
        offsets : Tensor or array of int, shape (N + 1,)
            Sequence i is ``emit[offsets[i]:offsets[i + 1]]``.
        tags : Tensor of int64, shape (T,), or of bool, shape (T, Y)
        reduction : {"none", "sum", "mean", "token_mean"}
        edge : Tensor, shape (T, Y, Y), optional

        Returns
        -------
        Tensor
            A scalar, or [N] for reduction "none".

        Examples
        --------
        >>> crf = CRF(3)
        >>> llh = crf.forward_ragged(torch.zeros(5, 3), [0, 2, 5], torch.zeros(5, dtype=torch.long))
        >>> llh.shape
        torch.Size([])
        """
        batch = self._ragged(emit, offsets)
        self._check_tags_shape(tags, emit)
        if edge is not None:
            _check_shape(edge, "edge", (*emit.shape, emit.shape[1]))
        return self._loss(batch, emit, tags, reduction, edge)

    def log_partition(
        self, emissions: Tensor, mask: Tensor | None = None, *, edge: Tensor | None = None
    ) -> Tensor:
        """Compute log_z [B], the log of the sum over all label paths of exp(score).

        Examples
        --------
        >>> crf = CRF(2, batch_first=True, boundaries=False)
        >>> _ = crf.requires_grad_(False).transitions.zero_()
        >>> crf.log_partition(torch.zeros(1, 3, 2)).exp()
        tensor([8.])
        """
        batch, emit, mask, (edge_first,) = self._padded(emissions, mask, edge)
        return self._loss(batch, emit, None, "none", edge_first)

    def log_prob(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        *,
        edge: Tensor | None = None,
    ) -> Tensor:
        """Compute the log-probability [B] of each sequence's labels: `forward`, not reduced."""
        return self(emissions, tags, mask, "none", edge=edge)

    def _loss(
        self,
        batch: Padded | Ragged,
        emit: Tensor,
        tags: Tensor | None,
        reduction: str,
        edge: Tensor | None,
    ) -> Tensor:
        checks.choice(reduction, "reduction", _REDUCTIONS)
        if tags is not None and tags.dtype not in (torch.int64, torch.bool):
            tags = tags.long()
        emit, (trans, start, stop, weights), edge = self._scores(emit, edge)
        is_native = self._is_native(emit)
        if is_native and torch.compiler.is_compiling():
            return self._compiled(batch, emit, tags, reduction, (trans, start, stop, weights), edge)
        task = losses.Task(batch, tags, reduction, self._space)
        if _is_transformed():
            return losses.in_log_space(task, emit, trans, start, stop, weights, edge)
        if is_native:
            return losses.log_likelihood(task, emit, trans, start, stop, weights, edge)
        if tags is not None:
            losses.check_tags(batch, tags, self.num_tags)
        return losses.by_sums(task, emit, trans, start, stop, weights, edge)

    def _compiled(
        self,
        batch: Padded | Ragged,
        emit: Tensor,
        tags: Tensor | None,
        reduction: str,
        shared: tuple[Tensor, Tensor | None, Tensor | None, Tensor | None],
        edge: Tensor | None,
    ) -> Tensor:
        trans, start, stop, weights = shared
        zeros = trans.new_zeros(self.num_tags)
        start, stop = zeros if start is None else start, zeros if stop is None else stop
        where = batch.mask if isinstance(batch, Padded) else batch.offsets
        llh = losses.compiled_log_likelihood(
            emit, where, tags, trans, start, stop, weights, edge, self._space_number
        )
        if reduction == "none":
            return llh
        if reduction == "mean":
            return llh.mean()
        if reduction == "sum":
            return llh.sum()
        mask = batch.mask if isinstance(batch, Padded) else None
        return llh.sum() / (emit[..., 0].numel() if mask is None else mask.sum())

    # ---- answers ----------------------------------------------------------------------------

    def decode(
        self, emissions: Tensor, mask: Tensor | None = None, *, edge: Tensor | None = None
    ) -> list[list[int]]:
        """Find the best label path of each sequence, as a list of label ids.

        Raises
        ------
        InfeasibleError
            If the constraints leave a sequence no path.

        Examples
        --------
        >>> crf = CRF(2, batch_first=True)
        >>> crf.decode(10 * torch.eye(2)[[0, 1, 1]].unsqueeze(0))
        [[0, 1, 1]]
        """
        trellis = self.trellis(emissions, mask, edge=edge)
        path = trellis.viterbi().path.tolist()
        bounds = trellis.offsets.tolist()
        return [path[i:j] for i, j in itertools.pairwise(bounds)]

    def decode_ragged(self, emit: Tensor, offsets: Tensor | npt.ArrayLike) -> Tensor:
        """Find the best labels [T] of sequences that lie in a row.

        Examples
        --------
        >>> CRF(2).decode_ragged(10 * torch.eye(2)[[0, 1, 1]], [0, 1, 3])
        tensor([0, 1, 1])
        """
        path = self._trellis(self._ragged(emit, offsets), emit, None).viterbi().path
        return torch.from_numpy(path).long().to(emit.device)

    def viterbi(
        self, emissions: Tensor, mask: Tensor | None = None, *, edge: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Find the best paths and their scores as tensors, in PyTorch; `torch.export` works on it.

        Returns
        -------
        paths : Tensor of int64, shape (L, B) or (B, L)
            −1 at masked positions.
        scores : Tensor, shape (B,)

        Examples
        --------
        >>> paths, scores = CRF(2, batch_first=True).viterbi(10 * torch.eye(2).unsqueeze(0))
        >>> paths
        tensor([[0, 1]])
        """
        batch, emit, mask, (edge_first,) = self._padded(emissions, mask, edge)
        emit, shared, edge_first = self._scores(emit, edge_first)
        scores, inside, moves = losses.over_states(self._space, batch, emit, *shared, edge_first)
        states, score = best_states(scores, inside, moves)
        if self._space is not None:
            states = losses.state_labels(self._space, emit.device)[states]
        paths = batch.restored(states.masked_fill(~inside, -1))
        return paths if self.batch_first else paths.t(), score

    def marginals(
        self, emissions: Tensor, mask: Tensor | None = None, *, edge: Tensor | None = None
    ) -> Tensor:
        """Compute Pr(label y at position t), of the shape of the emissions; 0 where masked.

        They are the gradient of `log_partition` by the emissions, and differentiable themselves.

        Examples
        --------
        >>> CRF(2).marginals(torch.zeros(3, 1, 2)).sum(2).squeeze(1)
        tensor([1.0000, 1.0000, 1.0000], grad_fn=<SqueezeBackward1>)
        """
        is_differentiated = torch.is_grad_enabled() and (
            emissions.requires_grad or any(p.requires_grad for p in self.parameters())
        )
        if is_differentiated:
            scores = emissions if emissions.requires_grad else emissions.detach().requires_grad_()
            log_z = self.log_partition(scores, mask, edge=edge).sum()
            marginals: Tensor = torch.autograd.grad(log_z, scores, create_graph=True)[0]
            return marginals
        batch, emit, mask, (edge_first,) = self._padded(emissions, mask, edge)
        rows = self._trellis(batch, emit, edge_first).marginals()
        padded = batch.padded(torch.from_numpy(rows).to(emissions.device, emissions.dtype))
        return padded if self.batch_first else padded.transpose(0, 1)

    def posterior_decode(
        self, emissions: Tensor, mask: Tensor | None = None, *, edge: Tensor | None = None
    ) -> list[list[int]]:
        """Choose at each position the label with the largest marginal probability."""
        trellis = self.trellis(emissions, mask, edge=edge)
        path, bounds = trellis.posterior_decode().path.tolist(), trellis.offsets.tolist()
        return [path[i:j] for i, j in itertools.pairwise(bounds)]

    def nbest(
        self, emissions: Tensor, n: int, mask: Tensor | None = None, *, edge: Tensor | None = None
    ) -> list[Any]:
        """Find the n best paths of each sequence.

        Returns
        -------
        list of NBest
            ``paths`` [k, T], ``scores`` [k] and ``probs`` [k] as NumPy arrays, the best first.

        Examples
        --------
        >>> best = CRF(2).nbest(torch.zeros(3, 1, 2), 4)
        >>> best[0].paths.shape
        (4, 3)
        """
        found: list[Any] = self.trellis(emissions, mask, edge=edge).nbest(n)
        return found

    def sample(
        self,
        emissions: Tensor,
        n: int = 1,
        mask: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        edge: Tensor | None = None,
    ) -> Tensor:
        """Draw n label paths of each sequence with their probabilities.

        Returns
        -------
        Tensor of int64, shape (n, L, B) or (n, B, L)
            −1 at masked positions.

        Examples
        --------
        >>> CRF(2).sample(torch.zeros(3, 1, 2), 5).shape
        torch.Size([5, 3, 1])
        """
        batch, emit, mask, (edge_first,) = self._padded(emissions, mask, edge)
        seed = int(torch.randint(1 << 62, (), generator=generator))
        flat = self._trellis(batch, emit, edge_first).sample(n, random_state=seed)
        paths = [batch.padded(torch.from_numpy(path).long(), fill=-1) for path in flat]
        out = torch.stack(paths).to(emissions.device) if n else emit.new_empty((0, *batch.shape))
        return out.long() if self.batch_first else out.long().transpose(1, 2)

    def entropy(
        self, emissions: Tensor, mask: Tensor | None = None, *, edge: Tensor | None = None
    ) -> Tensor:
        """Compute the entropy [B] of the distribution over label paths, in nats; differentiable.

        Examples
        --------
        >>> crf = CRF(2, boundaries=False).requires_grad_(False)
        >>> _ = crf.transitions.zero_()
        >>> crf.entropy(torch.zeros(3, 1, 2)) / torch.tensor(2.0).log()
        tensor([3.])
        """
        batch, emit, mask, (edge_first,) = self._padded(emissions, mask, edge)
        inputs = (emissions, *self.parameters()) if edge is None else (emissions, edge)
        if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
            emit, shared, edge_first = self._scores(emit, edge_first)
            parts = losses.over_states(self._space, batch, emit, *shared, edge_first)
            return sums.entropy(*parts)
        found = self._trellis(batch, emit, edge_first).entropy()
        return torch.from_numpy(found).to(emissions.device, emissions.dtype)

    def trellis(
        self, emissions: Tensor, mask: Tensor | None = None, *, edge: Tensor | None = None
    ) -> Trellis:
        """Return the `tl.Trellis` of a batch: everything else that can be asked about its paths.

        Examples
        --------
        >>> trellis = CRF(2, batch_first=True, labels=["N", "V"]).trellis(torch.zeros(1, 3, 2))
        >>> trellis.count_paths()
        [8]
        """
        batch, emit, mask, (edge_first,) = self._padded(emissions, mask, edge)
        return self._trellis(batch, emit, edge_first)

    def _trellis(self, batch: Padded | Ragged, emit: Tensor, edge: Tensor | None) -> Trellis:
        emit, shared, edge = self._scores(emit.detach(), None if edge is None else edge.detach())
        trans, start, stop, weights = (None if x is None else _numpy(x) for x in shared)
        return Trellis(
            batch.array(emit),
            trans,
            start,
            stop,
            edge=None if edge is None else batch.array(edge),
            offsets=batch.offsets,
            states=self._space,
            weights=weights,
            labels=self.labels,
            n_threads=torch.get_num_threads(),
        )

    # ---- arguments --------------------------------------------------------------------------

    def _is_native(self, emit: Tensor) -> bool:
        is_cpu = emit.device.type == "cpu"
        if self.backend == "native" and not is_cpu:
            raise ParameterError(
                parameter="emissions",
                expected="a tensor on the CPU, for backend 'native'",
                found=str(emit.device),
                hint="Pass backend='auto'.",
            )
        return is_cpu and self.backend != "torch"

    def _padded(
        self, emissions: Tensor, mask: Tensor | None, *others: Tensor | None
    ) -> tuple[Padded, Tensor, Tensor | None, list[Tensor | None]]:
        """The batch, and its tensors with the batch as the first axis."""
        if emissions.dim() != 3 or emissions.shape[2] != self.num_tags:
            expected = "(B, L, Y)" if self.batch_first else "(L, B, Y)"
            raise ShapeError(
                parameter="emissions",
                expected=f"a tensor of shape {expected} with Y = {self.num_tags}",
                found=str(tuple(emissions.shape)),
            )
        if mask is not None:
            _check_shape(mask, "mask", tuple(emissions.shape[:2]))
            mask = mask if mask.dtype == torch.bool else mask.bool()
        for other in others:
            if other is not None and other.dim() == 4:
                _check_shape(other, "edge", (*emissions.shape, self.num_tags))
        if not self.batch_first:
            emissions = emissions.transpose(0, 1)
            mask = None if mask is None else mask.transpose(0, 1)
            others = tuple(None if other is None else other.transpose(0, 1) for other in others)
        return Padded(emissions, mask), emissions, mask, list(others)

    def _ragged(self, emit: Tensor, offsets: Tensor | npt.ArrayLike) -> Ragged:
        if emit.dim() != 2 or emit.shape[1] != self.num_tags:
            raise ShapeError(
                parameter="emit",
                expected=f"a tensor of shape (T, Y) with Y = {self.num_tags}",
                found=str(tuple(emit.shape)),
            )
        if torch.compiler.is_compiling():  # the operator checks the offsets
            return Ragged(emit, torch.as_tensor(offsets))
        array = offsets.cpu().numpy() if isinstance(offsets, Tensor) else offsets
        return Ragged(emit, check_offsets(array, emit.shape[0]))

    def _check_tags_shape(self, tags: Tensor, emit: Tensor) -> None:
        is_set = tags.dtype == torch.bool
        shape = tuple(emit.shape if is_set else emit.shape[:-1])
        if tuple(tags.shape) != shape or tags.is_floating_point():
            kind = "bool" if is_set else "int64"
            raise ShapeError(
                parameter="tags",
                expected=f"a tensor of {kind} of shape {shape}, with the batch first",
                found=f"{tags.dtype} of shape {tuple(tags.shape)}",
            )

    def _scores(
        self, emit: Tensor, edge: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor | None, Tensor | None, Tensor | None], Tensor | None]:
        """Emissions, (transitions, start, stop, weights), edge, in one type; −inf if forbidden."""
        trans, start, stop = self.transitions, self.start_transitions, self.end_transitions
        dtype = (
            emit.dtype
            if emit.dtype == trans.dtype
            else torch.promote_types(emit.dtype, trans.dtype)
        )
        if dtype in _HALF:
            dtype = torch.float32
        if dtype != torch.float32 and dtype != torch.float64:
            raise ShapeError(
                parameter="emissions", expected="a tensor of floats", found=str(emit.dtype)
            )
        every = (emit, trans, start, stop, self.weights, edge)
        emit_, trans_, start_, stop_, weights, edge = (
            x if x is None or x.dtype == dtype else x.to(dtype) for x in every
        )
        assert emit_ is not None
        assert trans_ is not None
        if self._has_forbidden:
            zeros = trans_.new_zeros(self.num_tags)
            trans_ = trans_.masked_fill(self._no_transition, -torch.inf)
            start_ = (zeros if start_ is None else start_).masked_fill(self._no_start, -torch.inf)
            stop_ = (zeros if stop_ is None else stop_).masked_fill(self._no_stop, -torch.inf)
        return emit_, (trans_, start_, stop_, weights), edge


def _is_transformed() -> bool:
    """Whether a transform of `torch.func` runs, which takes operations of torch only."""
    if torch.compiler.is_compiling():
        return False
    # Under a private name in PyTorch 2.13; tests/torch_layer/test_layer.py runs it.
    return torch._C._functorch.maybe_current_level() is not None


def _numpy(x: Tensor) -> Any:
    return x.detach().cpu().contiguous().numpy()


def _check_shape(x: Tensor, name: str, shape: tuple[int, ...]) -> None:
    if tuple(x.shape) != shape:
        expected = f"of shape {shape}, to match the emissions"
        raise ShapeError(parameter=name, expected=expected, found=str(tuple(x.shape)))
