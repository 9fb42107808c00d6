"""Defects of steps in JAX that must not pass, as fields of `mutants.Mutant`, and who has to notice them.

The killer runs in the environment that `./check frameworks jax` makes.
"""

KILLERS = {
    "jax processes": "framework jax tests/integrations/jax/test_jax_processes.py",
    "jax steps": "framework jax tests/integrations/jax/test_inside_jit.py",
    "jax host steps": "framework jax tests/integrations/jax/test_host_steps.py",
}

MUTANTS = [
    (
        "an update may be mapped over devices, each of which calls back",
        "callback-of-every-device-allowed",
        "if mesh.manual_axes:",
        "if False:",
        "jax steps",
    ),
    (
        "padding counts in sums inside jit",
        "padding-added-to-sum-in-jit",
        "real & numbers.isfinite(norms)",
        "numbers.isfinite(norms)",
        "jax steps",
    ),
    (
        "an update without an open step draws one, whose rows nobody saw",
        "update-begins-step-whose-rows-nobody-saw",
        "isinstance(self.plan.sampling, (FullBatch, GivenOrder))",
        "self._run.current is None",
        "jax steps",
    ),
    (
        "a result of a callback is zeros on other devices",
        "other-devices-keep-zeros",
        "library().lax.optimization_barrier(results)",
        "results",
        "jax steps",
    ),
    (
        "callbacks are made in any order, and once for a whole batch of updates",
        "callbacks-of-jit-in-any-order",
        "ordered=True",
        "ordered=False",
        "jax steps",
    ),
    (
        "a refusal inside jit is lost",
        "refusal-inside-jit-is-lost",
        "failure is not None",
        "False",
        "jax steps",
    ),
    (
        "a training goes on after a refusal",
        "training-goes-on-after-a-refusal",
        "self._catches and self._failure is not None",
        "False",
        "jax steps",
    ),
    (
        "padding is added to a step",
        "padding-added-to-step",
        "int(found.sum())\n    return slice(count) if found[:count].all() else found",
        "len(found)\n    return slice(count)",
        "jax steps",
    ),
    (
        "a training in JAX goes on after a callback stopped it",
        "training-in-jax-goes-on-after-a-callback-stopped-it",
        "None if progress.stop_reason else next(self, None)",
        "next(self, None)",
        "jax host steps",
    ),
    (
        "a loss in JAX that depends on no parameter is trained with noise alone",
        "jax-loss-without-parameters-trained",
        "count and not uses(jaxpr.outvars)",
        "False",
        "jax host steps",
    ),
    (
        "each of several processes of JAX releases the whole plan",
        "each-process-of-jax-releases-the-whole-plan",
        "size > 1",
        "False",
        "jax processes",
    ),
]
