"""Run a plan: the loop over steps, values rounded and held against their shapes, control flow and
states, errors that say where.

run_block(plan.body, environment, Run(hook=None, generator=None, states={}))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from mlprogram.errors import ProgramError
from mlprogram.plan import BlockPlan, Instruction, OutputSlot

Hook = Callable[[str, str, torch.Tensor], "torch.Tensor | None"]


def to_host(value: Any) -> Any:
    """A tensor as Python numbers; anything else as it is."""
    return value.tolist() if isinstance(value, torch.Tensor) else value


def widen(value: Any, dtype: torch.dtype | None) -> Any:
    """An fp16 tensor in a wider type, if one is given; anything else as it is."""
    if dtype is not None and isinstance(value, torch.Tensor) and value.dtype == torch.float16:
        return value.to(dtype)
    return value


def finish(step: Instruction, output: OutputSlot, value: Any) -> Any:
    """Round a result to its declared type, and hold it against its declared shape. Raises
    ProgramError for another shape.
    """
    if value.dtype is not output.dtype:
        value = value.to(output.dtype)
    declared = output.shape
    # One comparison settles what every operation of a network without flexible shapes comes to.
    if declared is None or value.shape == output.fixed:
        return value
    if len(declared) != value.dim() or any(
        want is not None and want != got for want, got in zip(declared, value.shape, strict=True)
    ):
        raise ProgramError(
            f"{step.op.where()} gave shape {list(value.shape)}, the program declares "
            f"{['any' if n is None else n for n in declared]} for '{output.name}'"
        )
    return value


@dataclass(frozen=True)
class Run:
    """What lasts for one call: the caller's hook and generator, and the value of every state as
    last written.
    """

    hook: Hook | None = None
    generator: torch.Generator | None = None
    states: dict[int, torch.Tensor] = field(default_factory=dict)


def run_block(block: BlockPlan, env: list[Any], run: Run) -> None:
    """Run every step of a block on the environment. Raises ProgramError, naming operation and
    place, for anything that fails.
    """
    hook = run.hook
    # Written out, without helpers: a small network is thousands of steps of microseconds.
    for step in block.steps:
        try:
            if step.call is None:
                result = _run_control(step, env, run)
            else:
                # Most steps end here: every parameter is a tensor as it stands in the environment.
                arguments = {param: env[slot] for param, slot in step.plain}
                if not step.direct:
                    for param, slot in step.halves:
                        # A widened copy lives for this one call, and the environment keeps the fp16
                        # tensor.
                        arguments[param] = env[slot].to(step.widen)
                    _add_others(arguments, step, env, run)
                result = step.call(**arguments)
        # A nested block has already said where it failed.
        except ProgramError:
            raise
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
            raise ProgramError(
                f"{step.op.where()} failed: {error}; its inputs: {_describe(step, env)}"
            ) from error
        one = step.one
        # what a loop does thousands of times
        if one is not None and hook is None and not isinstance(result, tuple):
            as_declared = one.dtype is None or (
                result.dtype is one.dtype and result.shape == one.fixed
            )
            env[one.slot] = result if as_declared else finish(step, one, result)
        else:
            _store(step, result if isinstance(result, tuple) else (result,), env, hook)
        # Where the environment kept the last reference, the tensor's memory is free again.
        for slot in step.frees:
            env[slot] = None


def _store(step: Instruction, results: tuple, env: list[Any], hook: Hook | None) -> None:
    """Every result in its place, in its declared type and shape, after the hook has seen it."""
    for output, result in zip(step.outputs, results, strict=True):
        value = finish(step, output, result) if output.dtype is not None else result
        # The hook's replacement, not the computed value, is what later steps read.
        env[output.slot] = value if hook is None else _call_hook(hook, step, output, value)


def _add_others(arguments: dict[str, Any], step: Instruction, env: list[Any], run: Run) -> None:
    """Parameters of several tensors, Python values, and the generator."""
    for param, slots in step.others:
        if isinstance(slots, int):
            arguments[param] = to_host(env[slots])  # a single slot stands here for the host alone
        elif param in step.host:
            arguments[param] = [to_host(env[s]) for s in slots]
        else:
            arguments[param] = [widen(env[s], step.widen) for s in slots]
    if step.wants_generator:
        if run.generator is None:
            raise ProgramError(
                f"{step.op.where()} draws random numbers; pass"
                " generator=torch.Generator().manual_seed(seed)"
            )
        arguments["generator"] = run.generator


def _call_hook(hook: Hook, step: Instruction, output: OutputSlot, value: Any) -> Any:
    replacement = (
        hook(output.name, step.op.op_type, value) if isinstance(value, torch.Tensor) else None
    )
    if replacement is None:
        return value
    if replacement.shape != value.shape:
        raise ProgramError(
            f"the hook replaced '{output.name}' {list(value.shape)} by one of"
            f" {list(replacement.shape)}; shapes must agree"
        )
    # A replacement is rounded to the working type, as a computed value would be.
    return replacement.to(value.dtype)


def _describe(step: Instruction, env: list[Any]) -> str:
    parts = []
    for param, slots in step.reads:
        values = [env[s] for s in (slots if isinstance(slots, tuple) else (slots,))]
        parts.append(f"{param} " + ", ".join(_describe_value(v) for v in values))
    return "; ".join(parts)


def _describe_value(value: Any) -> str:
    return (
        f"{value.dtype} {list(value.shape)}".removeprefix("torch.")
        if isinstance(value, torch.Tensor)
        else repr(value)
    )


def _run_control(step: Instruction, env: list[Any], run: Run) -> tuple:
    # of control flow: all
    reads = {param: slots for param, slots in step.reads if isinstance(slots, tuple)}
    kind = step.op.op_type
    if kind == "cond":
        # The first block is the one for true.
        branch = step.blocks[0] if bool(env[reads["pred"][0]]) else step.blocks[1]
        run_block(branch, env, run)
        return tuple(env[s] for s in branch.outputs)
    if kind == "while_loop":
        # A hook wants to see each step, and a GRU may decline to run; then the blocks run.
        done = step.gru.run(env) if step.gru is not None and run.hook is None else None
        if done is not None:
            return done
        return _run_loop(step, [env[s] for s in reads["loop_vars"]], env, run)
    if kind == "read_state":
        return (run.states[reads["input"][0]],)
    # write_state: no operation writes in place, so what was read stays
    # Later reads of this run see the new value; the caller's tensor waits for the end.
    run.states[reads["input"][0]] = env[reads["data"][0]]
    return ()


def _run_loop(step: Instruction, values: list[Any], env: list[Any], run: Run) -> tuple:
    condition, body = step.blocks
    # A body frees its inputs at their last use, so both blocks are bound anew in each turn.
    while True:
        _bind(condition, values, env)
        run_block(condition, env, run)
        # The condition sees the values before the body does, so a loop may run no turn at all.
        if not bool(env[condition.outputs[0]]):
            return tuple(values)
        _bind(body, values, env)
        run_block(body, env, run)
        # Taken out before the next binding, which may overwrite a slot that is read here.
        values = [env[s] for s in body.outputs]


def _bind(block: BlockPlan, values: list[Any], env: list[Any]) -> None:
    for slot, value in zip(block.inputs, values, strict=True):
        env[slot] = value
