"""Defects that must not pass: each is one change of the sources and the command that has to notice it.

Chosen so that a differential, statistical or property test notices, not the pinned outputs, which any change at all
would fail. A mutant whose text is no longer in its file is an error: rewrite it, do not drop it.
"""

from __future__ import annotations

from dataclasses import dataclass

import clipping
import coins
import columns
import discrete
import events
import fixed_time
import ledger
import releases
import rounds
import sparse_vector
import subsets
import tickets

CHUNK = "rust/ferrodp-core/src/sample/chunk.rs"
DECIDE = "rust/ferrodp-core/src/sample/decide.rs"
EXACT = "rust/ferrodp-core/src/sample/exact.rs"
FIXED = "rust/ferrodp-core/src/sample/fixed.rs"
LANES = "rust/ferrodp-core/src/sample/lanes.rs"
SAMPLE = "rust/ferrodp-core/src/sample.rs"
TYPES = "rust/ferrodp-core/src/sample/types.rs"
RANDOM = "rust/ferrodp-core/src/random.rs"
RESIDUE = "rust/ferrodp-core/src/residue.rs"

# Commands by name. "cargo" runs as it stands; "pytest" builds the extension module first and runs on the portable path,
# so that a change of that path is seen on any CPU.
KILLERS = {
    "decisions": "cargo test -p ferrodp-testkit --test decisions",
    "goodness": "cargo test -p ferrodp-testkit --test goodness",
    "widened": "cargo test -p ferrodp-core --test sample -- widened_margins",
    "reference": "pytest tests/test_noise.py",
    "attack": "pytest tests/test_float_attack.py",
    "copies": "pytest tests/test_stream_copies.py",
    "forks": "pytest tests/test_forked_processes.py",
    "residue": "pytest tests/test_memory_residue.py",
    "source": "pytest tests/test_random.py",
    "vectors": "pytest tests/test_vectors_samplers.py -k 'native_bytes or keys_its_calls'",
    "laws": "pytest tests/statistical/test_laws.py",
    "sums": "pytest tests/statistical/test_sums.py",
    "clip": "cargo test -p ferrodp-core --test clip",
    "float releases": "pytest tests/mechanisms/test_release.py -k 'not microseconds'",
    "costs": "pytest tests/statistical/test_mechanisms.py -k no_event",
}


@dataclass(frozen=True)
class Mutant:
    """One defect: in `file`, the only occurrence of `old` becomes `new`, and the command `killer` has to fail."""

    name: str
    file: str
    old: str
    new: str
    killer: str


# The line after which words are used, and what is done to them before it.
USE = "            work(chunk, first, used);\n"


def words(change: str) -> str:
    """Return the use of a chunk's words after a change of them."""
    return f"            {change}\n{USE}"


MUTANTS = [
    Mutant(
        "the scale is 1 % too large",
        TYPES,
        "ratio: scale * granularity.reciprocal()",
        "ratio: scale * 1.01 * granularity.reciprocal()",
        "goodness",
    ),
    Mutant(
        "the scale is 0.2 % too small",
        TYPES,
        "ratio: scale * granularity.reciprocal()",
        "ratio: scale * 0.998 * granularity.reciprocal()",
        "reference",
    ),
    Mutant(
        "every 64th sign is positive",
        CHUNK,
        USE,
        words("for words in used.chunks_exact_mut(64 * word_bytes) { words[word_bytes - 1] &= 0x7f; }"),
        "goodness",
    ),
    Mutant(
        "the noise of a call repeats after 2^20 bytes",
        CHUNK,
        "self.keystream.fill(FIRST_WORDS, first * word_bytes as u64 / BLOCK as u64, used);",
        "self.keystream.fill(FIRST_WORDS, (first * word_bytes as u64 / BLOCK as u64) & 0xffff, used);",
        "goodness",
    ),
    Mutant(
        "two lanes share a block of the cipher",
        CHUNK,
        USE,
        words("for blocks in used.chunks_exact_mut(128) { blocks.copy_within(..16, 16); }"),
        "goodness",
    ),
    Mutant(
        "64-bit words carry 32 bits",
        CHUNK,
        USE,
        words("if word_bytes == 8 { used.chunks_exact_mut(8).for_each(|word| word[..4].fill(0)); }"),
        "goodness",
    ),
    Mutant(
        "every chunk draws the words of the first",
        CHUNK,
        "self.keystream.fill(FIRST_WORDS, first * word_bytes as u64 / BLOCK as u64, used);",
        "self.keystream.fill(FIRST_WORDS, first * 0 / BLOCK as u64, used);",
        "goodness",
    ),
    Mutant(
        "every thread's block starts at sample 0",
        SAMPLE,
        "in_default_environment(|| sampler.add(start as u64, block));",
        "in_default_environment(|| sampler.add(start as u64 & 0, block));",
        "goodness",
    ),
    Mutant(
        "the last partial vector draws the words of the first",
        CHUNK,
        "let (body_words, rest_words) = words.split_at(whole * self.word_bytes());",
        "let (body_words, rest_words) = (&words[..whole * self.word_bytes()], words);",
        "reference",
    ),
    Mutant(
        "extension bits come from the sample's place in its chunk",
        CHUNK,
        "self.keystream.words(1 + block, index)",
        "self.keystream.words(1 + block, index % CHUNK as u64)",
        "reference",
    ),
    Mutant(
        "extension bits are shared by neighbors",
        CHUNK,
        "self.keystream.words(1 + block, index)",
        "self.keystream.words(1 + block, index & !1)",
        "reference",
    ),
    Mutant(
        "extension bits are the stream of first words",
        CHUNK,
        "self.keystream.words(1 + block, index)",
        "self.keystream.words(block, index)",
        "reference",
    ),
    Mutant(
        "every extension block is the first",
        TYPES,
        "(self.extension)(block)",
        "(self.extension)(block & 0)",
        "decisions",
    ),
    Mutant(
        "extension words are taken in the wrong order",
        TYPES,
        "Natural::new((u128::from(high) << 64) | u128::from(low))",
        "Natural::new((u128::from(low) << 64) | u128::from(high))",
        "decisions",
    ),
    Mutant(
        "the tail is cut at 3.9 scales",
        CHUNK,
        "        if whole.is_infinite() {",
        "        let most = (3.9 * plan.ratio) as i128;\n"
        "        let n = n.clamp(-most, most);\n"
        "        if whole.is_infinite() {",
        "goodness",
    ),
    Mutant(
        "the tail is cut at 12 scales, beyond what any draw shows",
        DECIDE,
        "if negative { -nearest(noise, sample, offset.mirrored()) } else { nearest(noise, sample, offset) }",
        "let n = if negative { -nearest(noise, sample, offset.mirrored()) } else { nearest(noise, sample, offset) };\n"
        "    n.clamp((-12.0 * noise.ratio) as i128, (12.0 * noise.ratio) as i128)",
        "decisions",
    ),
    Mutant(
        "a negative sample is not the mirror image of a positive one",
        DECIDE,
        "-nearest(noise, sample, offset.mirrored())",
        "-nearest(noise, sample, offset)",
        "decisions",
    ),
    Mutant(
        "the first stage takes the bits of a short word for all there are",
        TYPES,
        "0.5 - (ratio * quantile_error + rounding + noise.widening)",
        "0.5 - (ratio * quantile_error * 0.0 + rounding + noise.widening)",
        "reference",
    ),
    Mutant(
        "the first stage trusts floating point",
        TYPES,
        "0.5 - (ratio * quantile_error + rounding + noise.widening)",
        "0.5 - (rounding * 0.0 + quantile_error * 0.0 + noise.widening)",
        "widened",
    ),
    Mutant(
        "the second stage trusts floating point",
        DECIDE,
        "let margin = quantile_error + (y.abs() + 1.0) * (2.0 * f64::EPSILON) + noise.widening;",
        "let margin = (quantile_error + y.abs()) * 0.0 + noise.widening;",
        "decisions",
    ),
    Mutant(
        "the second stage takes few digits for many",
        DECIDE,
        "if significant < SIGNIFICANT {",
        "if significant == 0 {",
        "decisions",
    ),
    Mutant(
        "the third stage takes the bits it knows for all there are",
        FIXED,
        "if left.checked_add(width)?.checked_add(margin)? < right {",
        "if left.checked_add(width - width)? < right {",
        "decisions",
    ),
    Mutant(
        "what the third stage leaves open is taken for less",
        DECIDE,
        ".unwrap_or_else(|| exact::compare(noise, sample, i128::from(below), offset))",
        ".unwrap_or(Ordering::Less)",
        "decisions",
    ),
    Mutant(
        "the fourth stage is off by one threshold",
        EXACT,
        "let twice = 2 * below + 1;",
        "let twice = 2 * below - 1;",
        "decisions",
    ),
    Mutant(
        "not-a-number passes",
        CHUNK,
        "let value = if value.is_finite() { value } else { 0.0 };",
        "let value = if value.is_infinite() { 0.0 } else { value };",
        "reference",
    ),
    Mutant(
        "zeros are released without noise",
        CHUNK,
        "            self.noise_chunk(&self.plan, first, words, chunk);\n        });\n    }\n\n    /// Fills",
        "            let before = chunk.to_vec();\n"
        "            self.noise_chunk(&self.plan, first, words, chunk);\n"
        "            for (value, old) in chunk.iter_mut().zip(before) {\n"
        "                if old.widen() == 0.0 { *value = old; }\n"
        "            }\n"
        "        });\n    }\n\n    /// Fills",
        "reference",
    ),
    Mutant(
        "noise is drawn once per row",
        "python/ferrodp/mechanisms/_release.py",
        "    return float(noised) if scalar else noised\n",
        "    if noised.ndim > 1:\n"
        "        noised = values + (noised - values)[..., :1]\n"
        "    return float(noised) if scalar else noised\n",
        "float releases",
    ),
    Mutant(
        "noise is added in floats, off the grid",
        LANES,
        "T::narrow((whole + n) * plan.width + 0.0)",
        "T::narrow(before[lane].widen() + n * plan.width)",
        "attack",
    ),
    Mutant(
        "a process keeps its key",
        RANDOM,
        "getrandom::fill(bytes.as_mut_slice())?;",
        "static KEPT: std::sync::OnceLock<[u8; 32]> = std::sync::OnceLock::new();\n"
        "        *bytes = *KEPT.get_or_init(|| {\n"
        '            getrandom::fill(bytes.as_mut_slice()).expect("entropy");\n'
        "            *bytes\n"
        "        });",
        "copies",
    ),
    Mutant(
        "a forked child keeps its parent's generator of keys",
        RANDOM,
        "getrandom::fill(bytes.as_mut_slice())?;",
        "static POOL: std::sync::Mutex<([u8; 32], u64)> = std::sync::Mutex::new(([0; 32], 0));\n"
        '        let mut pool = POOL.lock().expect("a pool");\n'
        "        if pool.1 == 0 {\n"
        "            getrandom::fill(&mut pool.0)?;\n"
        "        }\n"
        "        pool.1 += 1;\n"
        "        Self::from_bytes(pool.0).derive_into(Isa::PORTABLE, pool.1, &mut bytes);",
        "copies",
    ),
    Mutant(
        "a forked child keeps the state of a bit generator",
        "rust/ferrodp-core/src/wiped.rs",
        "unsafe { libc::madvise(pages, length, libc::MADV_WIPEONFORK) };",
        "0;",
        "copies",
    ),
    Mutant(
        "the stack is left as a call used it",
        RESIDUE,
        "        overwrite_stack::<DEPTH>(0);\n",
        "",
        "residue",
    ),
    Mutant(
        "only the top of the stack that a call used is overwritten",
        RESIDUE,
        "        overwrite_stack::<DEPTH>(0);\n",
        "        overwrite_stack::<{ DEPTH / 8 }>(0);\n",
        "residue",
    ),
    Mutant(
        "vector registers keep round keys",
        RESIDUE,
        "        clear_registers();\n",
        "",
        "residue",
    ),
    Mutant(
        "threads that helped leave their stacks as they are",
        "rust/ferrodp-core/src/blocks.rs",
        "spawn_scoped(scope, || leaving_nothing(run));",
        "spawn_scoped(scope, run);",
        "residue",
    ),
    Mutant(
        "big integers leave their digits on the heap",
        "rust/ferrodp-core/src/math/natural.rs",
        "impl Drop for Natural {\n    fn drop(&mut self) {\n        self.0.zeroize();",
        "impl Drop for Natural {\n    fn drop(&mut self) {\n        self.0.truncate(0);",
        "residue",
    ),
    Mutant(
        "a key stays on the heap",
        RANDOM,
        "impl Drop for Key {\n    fn drop(&mut self) {\n        self.0.zeroize();",
        "impl Drop for Key {\n    fn drop(&mut self) {",
        "residue",
    ),
    Mutant(
        "a bit generator keeps the words that it handed out",
        "rust/ferrodp-core/src/random/generator.rs",
        "core::ptr::write_volatile(core::ptr::from_mut(word), [0; 8])",
        "core::ptr::write_volatile(core::ptr::from_mut(word), *word)",
        "residue",
    ),
    Mutant(
        "a threshold's noise serves a forked child as well",
        "rust/ferrodp-py/src/select.rs",
        "self.generation == fork::generation()",
        "self.generation > 0",
        "forks",
    ),
    Mutant(
        "a sum can be released by its process and by a forked child",
        "rust/ferrodp-py/src/clip.rs",
        "self.generation == fork::generation()",
        "self.generation > 0",
        "forks",
    ),
    Mutant(
        "a child that no handler ran in keeps its parent's generation",
        "rust/ferrodp-core/src/fork.rs",
        "Some(memory) => memory.leak(),",
        "Some(_) => Box::leak(Box::default()),",
        "forks",
    ),
    Mutant(
        "every call of a seeded source uses the key of the first",
        "python/ferrodp/testing.py",
        "self._calls += 1",
        "self._calls += 0",
        "source",
    ),
    Mutant(
        "the counter of the cipher is little-endian",
        "rust/ferrodp-core/src/random/block.rs",
        "((u128::from(stream) << 64) | u128::from(index)).to_be_bytes()",
        "((u128::from(stream) << 64) | u128::from(index.swap_bytes())).to_be_bytes()",
        "vectors",
    ),
    Mutant(
        "a scale is taken for a variance",
        "python/ferrodp/random/noise.py",
        "_native.add_noise(target, law, scale, exponent, self._key(), threads, False)",
        "_native.add_noise(target, law, scale**0.5, exponent, self._key(), threads, False)",
        "laws",
    ),
    Mutant(
        "the noise covers half the sensitivity, as if replacing were adding",
        "python/ferrodp/mechanisms/gaussian.py",
        "deviation = product_up(multiplier, sensitivity)",
        "deviation = product_up(multiplier, sensitivity / 2)",
        "costs",
    ),
    Mutant(
        "epsilon and delta are swapped in a calibration",
        "python/ferrodp/mechanisms/gaussian.py",
        "multiplier = gaussian_noise_multiplier(epsilon=epsilon, delta=delta, method=method)",
        "multiplier = gaussian_noise_multiplier(epsilon=delta, delta=min(float(epsilon), 0.5), method=method)",
        "costs",
    ),
    Mutant(
        "the noise is divided by the sensitivity",
        "python/ferrodp/mechanisms/gaussian.py",
        "deviation = product_up(multiplier, sensitivity)",
        "deviation = multiplier / sensitivity",
        "costs",
    ),
    Mutant(
        "Laplace noise is calibrated to 80 % of what is due",
        "python/ferrodp/mechanisms/laplace.py",
        "mechanism = cls(scale=scale, l1_sensitivity=sensitivity)",
        "mechanism = cls(scale=0.8 * scale, l1_sensitivity=sensitivity)",
        "costs",
    ),
    Mutant(
        "the noise multiplier of a sum is taken for its standard deviation",
        "rust/ferrodp-core/src/clip/release.rs",
        "product_up(multiplier, self.value())",
        "product_up(multiplier, 1.0)",
        "sums",
    ),
    Mutant(
        "a batch is clipped after it was summed",
        "python/ferrodp/sums/clipped.py",
        'self._native.add(self._leaves(updates, "updates", (count,)), count, threads)',
        'self._native.add([leaf.sum(axis=0) for leaf in self._leaves(updates, "updates", (count,))], 1, threads)',
        "sums",
    ),
    Mutant(
        "rows within a millionth of the bound are not clipped",
        "rust/ferrodp-core/src/clip/decide.rs",
        "if total <= bound * self.budget.below() {",
        "if total <= bound * 1.000001 {",
        "clip",
    ),
    Mutant(
        "the grid is derived from the data",
        "python/ferrodp/random/noise.py",
        "        _native.add_noise(target, law, scale, exponent, self._key(), threads, False)",
        "        exponent += int(target.size > 0 and abs(target.flat[0]) > 1)\n"
        "        _native.add_noise(target, law, scale, exponent, self._key(), threads, False)",
        "reference",
    ),
]

for others in (
    clipping,
    coins,
    columns,
    discrete,
    events,
    fixed_time,
    ledger,
    releases,
    rounds,
    sparse_vector,
    subsets,
    tickets,
):
    KILLERS |= others.KILLERS
    MUTANTS += [Mutant(*fields) for fields in others.MUTANTS]
