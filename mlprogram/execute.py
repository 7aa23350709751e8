"""Run a plan: the loop over steps, control flow and states, and errors that say where they happened.

run_block(plan.body, environment, Run(hook=None, generator=None, states={}))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from mlprogram.errors import ProgramError
from mlprogram.loop_code import kind_of
from mlprogram.steps import BlockPlan, Output, Step
from mlprogram.values import finish, to_host, widen

Hook = Callable[[str, str, torch.Tensor], "torch.Tensor | None"]


@dataclass(frozen=True)
class Run:
    """What lasts for one call: the caller's hook and generator, and the value of every state as last written."""

    hook: Hook | None = None
    generator: torch.Generator | None = None
    states: dict[int, torch.Tensor] = field(default_factory=dict)


def run_block(block: BlockPlan, env: list[Any], run: Run) -> None:
    """Run every step of a block on the environment. Raises ProgramError, naming operation and place, for anything that fails."""
    hook = run.hook
    for step in block.steps:
        try:
            if step.call is None:
                result = _control(step, env, run)
            else:
                arguments = {param: env[slot] for param, slot in step.plain}
                if not step.direct:
                    for param, slot in step.halves:
                        arguments[param] = env[slot].to(step.widen)
                    _add_others(arguments, step, env, run)
                result = step.call(**arguments)
        except ProgramError:
            raise
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
            raise ProgramError(f"{step.op.where()} failed: {error}; its inputs: {_describe(step, env)}") from error
        one = step.one
        if one is not None and hook is None and not isinstance(result, tuple):  # what a loop does thousands of times
            known = one.dtype is None or (result.dtype is one.dtype and result.shape == one.fixed)
            env[one.slot] = result if known else finish(step, one, result)
        else:
            _store(step, result if isinstance(result, tuple) else (result,), env, hook)
        for slot in step.frees:
            env[slot] = None


def _store(step: Step, results: tuple, env: list[Any], hook: Hook | None) -> None:
    """Every result in its place, in its declared type and shape, after the hook has seen it."""
    for output, result in zip(step.outputs, results, strict=True):
        value = finish(step, output, result) if output.dtype is not None else result
        env[output.slot] = value if hook is None else _hooked(hook, step, output, value)


def _add_others(arguments: dict[str, Any], step: Step, env: list[Any], run: Run) -> None:
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
            raise ProgramError(f"{step.op.where()} draws random numbers; pass generator=torch.Generator().manual_seed(seed)")
        arguments["generator"] = run.generator


def _hooked(hook: Hook, step: Step, output: Output, value: Any) -> Any:
    replacement = hook(output.name, step.op.op_type, value) if isinstance(value, torch.Tensor) else None
    if replacement is None:
        return value
    if replacement.shape != value.shape:
        raise ProgramError(f"the hook replaced '{output.name}' {list(value.shape)} by one of {list(replacement.shape)}; shapes must agree")
    return replacement.to(value.dtype)


def _describe(step: Step, env: list[Any]) -> str:
    parts = []
    for param, slots in step.reads:
        values = [env[s] for s in (slots if isinstance(slots, tuple) else (slots,))]
        parts.append(f"{param} " + ", ".join(_in_words(v) for v in values))
    return "; ".join(parts)


def _in_words(value: Any) -> str:
    return f"{value.dtype} {list(value.shape)}".removeprefix("torch.") if isinstance(value, torch.Tensor) else repr(value)


def _control(step: Step, env: list[Any], run: Run) -> tuple:
    reads = {param: slots for param, slots in step.reads if isinstance(slots, tuple)}  # of control flow: all
    kind = step.op.op_type
    if kind == "cond":
        branch = step.blocks[0] if bool(env[reads["pred"][0]]) else step.blocks[1]
        run_block(branch, env, run)
        return tuple(env[s] for s in branch.outputs)
    if kind == "while_loop":
        done = step.gru.run(env) if step.gru is not None and run.hook is None else None
        if done is not None:
            return done
        return _loop(step, [env[s] for s in reads["loop_vars"]], env, run)
    if kind == "read_state":
        return (run.states[reads["input"][0]],)
    run.states[reads["input"][0]] = env[reads["data"][0]]  # write_state: no operation writes in place, so what was read stays
    return ()


def _loop(step: Step, values: list[Any], env: list[Any], run: Run) -> tuple:
    """Step by step until a step has changed no type and no shape; then the loop's own function, if it has one and nobody watches."""
    condition, body = step.blocks
    code, kinds = (step.loop if run.hook is None else None), None
    while True:
        _bind(condition, values, env)
        run_block(condition, env, run)
        if not bool(env[condition.outputs[0]]):
            return tuple(values)
        before, kinds = kinds, [kind_of(v) for v in values] if code is not None else None
        if code is not None and before == kinds:
            done, values = code(env, values)
            if done:
                return tuple(values)
            code = None  # step by step from where it stopped: an error comes again, and with its place
            continue
        _bind(body, values, env)
        run_block(body, env, run)
        values = [env[s] for s in body.outputs]


def _bind(block: BlockPlan, values: list[Any], env: list[Any]) -> None:
    for slot, value in zip(block.inputs, values, strict=True):
        env[slot] = value
