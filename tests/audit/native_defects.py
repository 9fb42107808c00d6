"""Defects of `tests/mutants` in native code of noise, choices, samples and sums: which audit finds each, or why none.

`python native_defects.py [TEXT]` builds the native module with each defect of `FOUND_BY`, one after the other, and runs
its audits, on the portable path unless the defect is of another: after the first build seconds each, on an idle
machine. It fails if anything was missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from law_defects import ROOT, alarms

import mutants  # found by way of `law_defects`
import run

FOLDER = "rust/ferrodp-core/src"
"""Every defect of a file in here is in one of the three tables, but for those that draw, clip and choose nothing."""
ELSEWHERE = ("checksum",)
BINDING = (
    "arrays of other shapes are taken for those of the template",
    "arrays of fewer rows than the first are taken for its length",
    "arrays that are not aligned are read as if they were",
    "columns that are not aligned are read as if they were",
    "one array in two places of a tree is added twice",
    "one array in two places, each after another layout, is added twice",
    "arrays of other shapes or strides are taken to be like the one before",
    "arrays of which nothing like them was looked at need not be aligned",
    "arrays of two dtypes are read as if they had the first",
    "axes that do not continue each other are read as one",
    "arrays are not held while they are added",
    "a threshold's noise serves a forked child as well",
    "correlated noise serves a forked child as well",
    "a sum can be released by its process and by a forked child",
    "an unusable sum is released",
)
"""Defects of the binding that change what is released; its others are of tickets."""
NATIVE_PATH = (
    "rounded to the nearest grid point, not toward zero",
    "a second element of a row is overlooked",
    "the fourth of rows that are added together is forgotten",
    "rows measured while others are added keep the lanes of the block before",
    "columns that are transposed by shuffles are others",
    "columns of singles that are transposed by shuffles are others",
    "short tails of rows added together go to other columns",
    "short tails are measured in the first lanes",
    "integers that AVX-512 converts are rounded",
)
"""Defects of what only other instruction sets than the portable one do, besides those of `NATIVE_FILES`."""
NATIVE_FILES = ("transpose.rs",)
CHECKED = (
    "arrays that are not aligned are read as if they were",
    "arrays of which nothing like them was looked at need not be aligned",
)
"""Defects that are undefined, and that processors forgive: what is read is right, unless Rust checks addresses."""

FOUND_BY: dict[str, tuple[str, ...]] = {
    "the filter of runs of candidates forgets how many they are": ("runs of candidates",),
    "the place in a run is the remainder of a word": ("runs of candidates",),
    "the first of uniform arrivals is an exponential one": ("runs of candidates",),
    "weights of runs count as whole candidates": ("runs of candidates",),
    "the last elements of differences are not subtracted": ("differences",),
    "factors are not shrunk": ("rows that are returned",),
    "a second element of a row is overlooked": ("replay: rows of two elements",),
    "a row at the bound counts as longer": ("rows of sums",),
    "rows within rounding error of the bound are kept": ("rows that are returned",),
    "rounded to the nearest grid point, not toward zero": ("rows of sums",),
    "float rows are rounded to nearest": ("rows that are returned",),
    "a NaN hides behind a larger element": ("rows of sums",),
    "squares that overflow are not formed again": ("rows of sums",),
    "lanes of the last chunk are forgotten": ("rows that are returned",),
    "a thread's rows are added twice": ("long sums",),
    "merging forgets the count": ("long sums",),
    "rows beyond the bound lose the power of two": ("rows of sums",),
    "rows shorter than the bound are not normalized": ("normalized rows of sums",),
    "normalized rows forget the stability": ("normalized rows of sums",),
    "normalized rows forget the power of two of their norm": ("normalized rows of sums",),
    "rows that are not finite count as within the bound": ("long sums",),
    "rows that are open all count as within the bound": ("replay: wide rows of float64, bound 5.0",),
    "rows added together that do not exist count as within the bound": ("long sums",),
    "columns of a row that threads share are not certified": (
        "replay: rows that change while threads share their columns",
    ),
    "rows of panels are taken for plain ones": ("rows of sums",),
    "lanes of the last columns are forgotten": ("replay: narrow rows of float64, bound 5.0",),
    "rows of panels at the bound are certified without their integers": ("replay: panels near the bound",),
    "open rows of panels lose their power of two": ("replay: narrow rows of float64, bound 5.0",),
    "the last columns of panels are not transposed": ("replay: narrow rows of float32, bound 5.0",),
    "later blocks of rows that are copied are the first": ("rows that are brought",),
    "every copied leaf begins at the first column": ("trees of many leaves",),
    "copied leaves are measured as the first one": ("trees of many leaves",),
    "the last rows of a matrix of contiguous columns are forgotten": ("rows of sums",),
    "rows at the bound that are decided together are added as longer ones": (
        "replay: wide rows of float64, bound 5.0",
    ),
    "columns that are transposed by shuffles are others": ("replay: rows of two elements",),
    "columns of singles that are transposed by shuffles are others": ("rows of sums",),
    "rows added together are not certified": ("replay: rows that change while they are added",),
    "short tails of rows added together go to other columns": ("long sums",),
    "integers that AVX-512 converts are rounded": ("rows of sums",),
    "merging forgets rows within the bound": ("long sums",),
    "sums of different stability merge": ("sums of two stabilities",),
    "states are merged without their rows within the bound": ("long sums",),
    "the fourth of rows that are added together is forgotten": ("long sums",),
    "rows measured while others are added keep the lanes of the block before": ("rows from memory",),
    "elements in the other byte order are read as they are": ("rows that are brought",),
    "an infinite float16 is taken for a number": ("rows of half precision",),
    "chunks of coins share their words": ("coins",),
    "floats decide on thresholds without a margin": ("law of thresholds",),
    "the noise of a threshold has another sign where floats decide": ("law of thresholds",),
    "queries have the noise of thresholds": ("law of thresholds",),
    "sums of noises are cut at a half": ("law of thresholds",),
    "an integer scale is 1 % too large": ("discrete Gaussian",),
    "every 64th sign of an integer is positive": ("discrete Gaussian of many scales",),
    "a sign in 1024 is positive whatever its bit": ("discrete Gaussian of a wide scale, 1e8 draws",),
    "every chunk of integers has the words of the first": ("discrete Gaussian",),
    "integer noise repeats after 2^20 bytes": ("wide integers of one call",),
    "two lanes of integers share a block of the cipher": ("wide integers of one call",),
    "samples that are open are settled in another order": ("places of integers",),
    "the tail is cut at twice its start": ("discrete Laplace of many scales",),
    "zero has two signs in the first stage": ("discrete Gaussian of many scales",),
    "zero has two signs in the second stage": ("discrete Gaussian of many scales",),
    "thresholds are those of the block's first integer": ("discrete Gaussian of a wide scale, 1e8 draws",),
    "cells are rounded down": ("discrete Gaussian",),
    "the tail is cut off": ("discrete Gaussian",),
    "the tail halves one bit too late": ("discrete Gaussian of a wide scale, 1e8 draws",),
    "the tail of signed tables is half as likely": ("discrete Gaussian of many scales",),
    "the tail's offset lacks a bit": ("discrete Gaussian of a wide scale, 1e8 draws",),
    "offset bits are short": ("discrete Gaussian of many scales",),
    "digits of U are those of the offset": ("discrete Gaussian of many scales",),
    "every further attempt is the second": ("discrete Gaussian of many scales",),
    "a later attempt's first word is its first digits as well": ("discrete Gaussian of many scales",),
    "known digits of U are taken for all there are": ("discrete Gaussian",),
    "samples of one call share a block of further words": ("last digits of integers",),
    "the exponential mechanism has exponential noise": ("law of the exponential mechanism",),
    "the filter of candidates has no margin": ("law of permute-and-flip, 2e5 draws",),
    "scores are trusted beyond their error": ("law of permute-and-flip, 2e5 draws",),
    "Laplace noise of candidates has one sign": ("law of noisy maxima",),
    "answers out of range are kept": ("answers that are none",),
    "integers within wide blocks are those of the next samples": ("last digits of wide integers",),
    "both geometric variables have the same digits": ("discrete Laplace in fixed time",),
    "samples of a later chunk have the digits of the first": ("discrete Laplace in fixed time",),
    "zero is counted twice in fixed time": ("discrete Gaussian in fixed time",),
    "the scale is 1 % too large": ("Gaussian doubles",),
    "the scale is 0.2 % too small": ("Gaussian, 1e8 draws",),
    "every 64th sign is positive": ("Gaussian",),
    "the noise of a call repeats after 2^20 bytes": ("Gaussian doubles of one call",),
    "two lanes share a block of the cipher": ("Gaussian floats of small calls",),
    "64-bit words carry 32 bits": ("digits of Gaussian noise",),
    "every chunk draws the words of the first": ("Gaussian",),
    "every thread's block starts at sample 0": ("Gaussian doubles of two threads",),
    "the last partial vector draws the words of the first": ("Gaussian floats of small calls",),
    "the tail is cut at 3.9 scales": ("Laplace",),
    "the tail is cut at 12 scales, beyond what any draw shows": ("Laplace, 1e8 draws",),
    "not-a-number passes": ("no numbers",),
    "zeros are released without noise": ("Gaussian",),
    "noise is added in floats, off the grid": ("values off the grid",),
    "a process keeps its key": ("keys of calls",),
    "the noise multiplier of a sum is taken for its standard deviation": ("noise of a sum",),
    "rows within a millionth of the bound are not clipped": ("rows of sums",),
    "numbers among many that are none are noised as zeros": ("numbers among others",),
    "single precision takes an octave for the one eight octaves up": ("Gaussian",),
    "noise is withheld from large values that it moves": ("large values",),
    "merging states forgets their count": ("long sums",),
    "bounds in floats are trusted far too far": ("law of the exponential mechanism",),
    "the sign of Laplace noise is the first bit of its size": ("law of noisy maxima",),
    "a replaced answer is never the true one": ("answers",),
    "two members are never next to each other": ("rare members",),
    "the rate of skipping is the probability": ("rare members",),
    "one record too many can be drawn": ("samples of a fixed size",),
    "the first steps are chosen more often": ("steps of a record",),
    "extension bits come from the sample's place in its chunk": ("replay: gaussian noise of float64",),
    "extension bits are shared by neighbors": ("replay: gaussian noise of float64",),
    "extension bits are the stream of first words": ("replay: gaussian noise of float64",),
    "extension words are taken in the wrong order": ("replay: gaussian noise of float64",),
    "a negative sample is not the mirror image of a positive one": ("replay: gaussian noise of float64",),
    "the first stage takes the bits of a short word for all there are": ("replay: gaussian noise of float64",),
    "the first stage trusts floating point": ("replay: gaussian noise of float64",),
    "the second stage trusts floating point": ("replay: gaussian noise of float64",),
    "the second stage takes few digits for many": ("replay: laplace noise of float64",),
    "the third stage takes the bits it knows for all there are": ("replay: gaussian noise of float64",),
    "what the third stage leaves open is taken for less": ("replay: gaussian noise of float64",),
    "the fourth stage is off by one threshold": ("replay: gaussian noise of float64",),
    "where margins are wide, the search ends one step too high": ("replay: laplace noise of float64",),
    "the polynomial's part of the single-precision margin is a quarter of what was proved": (
        "replay: gaussian noise of float32",
    ),
    "what single precision leaves open takes the extension bits of its place in the batch": (
        "replay: gaussian noise of float32",
    ),
    "leading bits decide as if the others were known": ("replay: gaussian noise of float64",),
    "every extension block is the first": ("replay: gaussian noise of float64",),
    "what 64 digits of a coin leave open is heads": ("replay: coins",),
    "neighboring coins share their further digits": ("replay: coins",),
    "further digits of a coin are its first ones": ("replay: coins",),
    "floats decide on coins without a margin": ("replay: coins",),
    "rare coins are tails": ("replay: rare coins",),
    "a Gaussian's exponent is not halved": ("replay: discrete gaussian noise",),
    "the first stage accepts one more": ("replay: discrete gaussian noise",),
    "thresholds are rounded up": ("replay: discrete gaussian noise",),
    "the tail's blocks are half as wide as they need be": ("replay: discrete gaussian noise",),
    "the tail's cells are not shared by two signs": ("replay: discrete gaussian noise",),
    "digits of U are used twice": ("replay: discrete gaussian noise",),
    "the last stage gives up after its first precision": ("replay: discrete gaussian noise",),
    "the offset's word is the next digits of U as well": ("replay: discrete gaussian noise",),
    "attempts share their further words": ("replay: discrete gaussian noise",),
    "the second stage of integers has no margin": ("replay: discrete gaussian noise",),
    "the exact stage accepts what it knows too little of": ("replay: discrete gaussian noise",),
    "the race is won by permute-and-flip": ("replay: candidates with gumbel noise",),
    "the factor 2 of the rate is lost": ("replay: candidates with gumbel noise",),
    "exact comparisons have another rate": ("replay: candidates with gumbel noise",),
    "a candidate's sign is a digit of its noise": ("replay: candidates with exponential noise",),
    "negative noise is compared as if it were positive": ("replay: candidates with laplace noise",),
    "categories come modulo k": ("replay: answers",),
    "the product of a response has another law": ("replay: coded answers",),
    "the product of a message is another one": ("replay: coded answers",),
    "invalid answers are coded as they are": ("replay: coded answers",),
    "the own bit of an answer is as likely as others": ("replay: answers in bits",),
    "the digits of a coin are compared in the other order": ("replay: answers in bits",),
    "invalid answers have no bit of their own": ("replay: answers in bits",),
    "the own category of a set is as likely as not": ("replay: answers in sets",),
    "a category that was taken is drawn twice": ("replay: answers in sets",),
    "a set with its own category is larger than others": ("replay: answers in sets",),
    "no draw of a set is repeated": ("replay: answers in sets",),
    "invalid answers are no category of a set": ("replay: answers in sets",),
    "short vectors keep their sign": ("replay: answers as vectors",),
    "the nonce of a vector is the coin": ("replay: answers as vectors",),
    "a code word of the top is as likely as not": ("replay: answers as vectors",),
    "code words of the top come with the others": ("replay: answers as vectors",),
    "code words are chosen without rejection": ("replay: answers as vectors",),
    "no category is drawn again": ("replay: answers",),
    "one category too many is drawn again": ("replay: answers",),
    "a tie of the coin is heads": ("replay: answers",),
    "the coin shares bits with the choice": ("replay: answers",),
    "integers within wide blocks come from the low bits of their words": ("replay: discrete gaussian noise",),
    "comparisons look at half of their digits": ("replay: discrete gaussian noise in fixed time",),
    "ties are not seen": ("replay: discrete gaussian noise in fixed time",),
    "the sign is a digit as well": ("replay: discrete gaussian noise in fixed time",),
    "further digits are those of the sample's first decision": ("replay: discrete laplace noise in fixed time",),
    "further digits are the first ones again": ("replay: discrete laplace noise in fixed time",),
    "the table ends early": ("replay: discrete gaussian noise in fixed time",),
    "the counter of the cipher is little-endian": ("replay: gaussian noise of float64",),
    "a record joins at the threshold": ("replay: samples",),
    "uneven words are kept": ("replay: samples",),
    "exact comparisons stop one below": ("replay: samples",),
    "bounds on a logarithm are not proven": ("replay: samples",),
    "what is beyond the digits is lost": ("replay: discrete laplace noise in fixed time",),
    "a sum near its bound is taken for exact": ("replay: narrow rows of float32, bound 5.0",),
    "a tie is told where digits are missing": ("replay: narrow rows of float32, bound 5.0",),
    "the certificate is not looked at": ("replay: rows that change while they are added",),
    "rows at the bound are certified by products alone": ("replay: rows that change while they are added",),
    "the certificate forgets what was folded before": ("replay: rows that change while they are added",),
    "a certificate keeps the lanes of the row before": ("replay: wide rows of float64, bound 5.0",),
    "a certificate keeps the integers of the row before": ("replay: wide rows of float64, bound 5.0",),
    "a certificate keeps the folded lanes of the row before": ("trees of many leaves",),
    "sums of magnitudes are trusted where only squares may be": ("replay: rows that are returned, L1",),
    "four times as many rows as fit": ("replay: more rows than fit",),
    "the single-precision margin leaves out the roundings of product and sum": (
        "replay: gaussian noise of two precisions",
    ),
    "the standard deviation is rounded to nearest": ("replay: sums of float32",),
    "noise beyond 2^51 is taken from its bits": ("replay: sums finer than their noise",),
    "fractions of sums are without sign": ("replay: sums of float32",),
    "rows whose lanes are folded together are exchanged": ("rows of sums",),
    "fractions of small sums are without sign": ("replay: sums of float32",),
    "large sums are released from single precision": ("replay: sums of float32",),
    "any denominator divides in single precision": ("replay: quotients of sums of float32",),
    "sums are cut to the coarser grid": ("replay: sums of float32",),
    "sums on a grid far finer than their noise are released": ("replay: sums finer than their noise",),
    "a released number is multiplied by the reciprocal of its denominator": ("replay: quotients of sums of float64",),
    "a forked child keeps its parent's generator of keys": ("keys of two processes",),
    "a forked child keeps the state of a bit generator": ("generators of two processes",),
    "a child that no handler ran in keeps its parent's generation": ("a sum and a run of two processes",),
    "a threshold's noise serves a forked child as well": ("a sum and a run of two processes",),
    "a sum can be released by its process and by a forked child": ("a sum and a run of two processes",),
    "an unusable sum is released": ("a sum released twice",),
    "arrays of other shapes are taken for those of the template": ("shapes of trees",),
    "arrays of fewer rows than the first are taken for its length": ("shapes of trees",),
    "arrays that are not aligned are read as if they were": ("memory of trees",),
    "columns that are not aligned are read as if they were": ("memory of trees",),
    "one array in two places of a tree is added twice": ("arrays that are given twice",),
    "one array in two places, each after another layout, is added twice": ("arrays that are given twice",),
    "arrays of other shapes or strides are taken to be like the one before": ("shapes of trees", "memory of trees"),
    "arrays of which nothing like them was looked at need not be aligned": ("memory of trees",),
    "arrays of two dtypes are read as if they had the first": ("types of trees",),
    "axes that do not continue each other are read as one": ("memory of trees",),
    "arrays are not held while they are added": ("arrays of a pool",),
    "integers for secure sums are rounded down, not toward zero": ("integers of clients",),
    "negative numbers are off by one in Field64": ("residues of clients",),
    "residues above a quarter of the modulus are negative": ("residues of clients",),
}
"""Names of defects and audits that find them."""

_MEMORY = "what is left in memory after a call; no output changes"


NO_LAW: dict[str, str] = {
    "opposite code words are added like others": "an estimate from messages, which are released already",
    "products are ranked by floats without a margin": "every set of near code words has the same ε",
    "counts of bits run over": "an estimate from messages, which are released already",
    "panels are not certified": "a panel is a copy, measured and added from the same memory: no output changes",
    "certificates of runs of columns are forgotten": "the same: certificates of copies hold whatever is forgotten",
    "short tails are measured in the first lanes": "squares are added in another order, within the same error",
    "the search of a table ends where the noise is found": "time, not noise: the search gives the same number",
    "a count is checked for overflow": "time, not noise: the count never overflows",
    "negative noise is negated in a branch": "time, not noise: the branch gives the same number",
    "a digit is looked up": "time, not noise: the table gives the same digit",
    "half a tie is a tie": "no law changes: what is no tie is decided again, by more digits of the same numbers",
    "the stack is left as a call used it": _MEMORY,
    "of a single number less is overwritten than it uses with a signal's frame": _MEMORY,
    "of an array less is overwritten than it uses with a signal's frame": _MEMORY,
    "a single number gets further bits of another place": "bits that nothing else has, as random as its own",
    "only the top of the stack that a call used is overwritten": _MEMORY,
    "vector registers keep round keys": _MEMORY,
    "threads that helped leave their stacks as they are": _MEMORY,
    "big integers leave their digits on the heap": _MEMORY,
    "a key stays on the heap": _MEMORY,
    "a bit generator keeps the words that it handed out": _MEMORY,
}
"""Names of defects that change no output, and what they do change: what their own tests look at."""

_CONTENDERS = "candidates so close that digits decide, or so many, are too rarely drawn: tests widen margins for that"
_GENERATOR = "words of a bit generator are no release: its own tests look at them"
_STREAM = (
    "audits draw releases by themselves: steps of streams are compared with the definition, their joint law tested"
)
_HALVES = "sums so close to a half-integer that digits decide are too rarely drawn: a test chooses values next to them"
_PAIRS = "no audit has units with several keys whose pairs decide: all pairs of small columns are enumerated"
UNSEEN: dict[str, str] = {
    "correlated noise has the wrong sign": _STREAM,
    "the first buffer of correlated noise is left out": _STREAM,
    "all steps of correlated noise share a key": _STREAM,
    "correlated noise serves a forked child as well": _STREAM,
    "floats decide sums of correlated noise that they cannot know": _HALVES,
    "sums in 128 bits are one too large": _HALVES,
    "further digits of a normal variable are zeros": _HALVES,
    "tails of proposed variables have no sign": _STREAM,
    "proposed variables of later chunks are made of the first one's words": _STREAM,
    "few leading bits decide a quantile as many do": _HALVES,
    "a bit generator draws every buffer from one key": _GENERATOR,
    "a child of a bit generator draws on from zeros": _GENERATOR,
    "a list of contenders that is full keeps the first instead of the winner": _CONTENDERS,
    "the exact race of runs forgets how many candidates they are": _CONTENDERS,
    "the exact race of uniform arrivals forgets how many they are": _CONTENDERS,
    "a unit with one row too many has all of them counted": "replays keep the first rows of a unit, without coins: "
    "all small columns are enumerated with them",
    "a pair of a unit and a key is that of another unit with this key": _PAIRS,
    "a pair of a unit and a key has the number of a row": _PAIRS,
    "of two rows with equal coins the last one counts": "coins of 32 bits are too rarely equal",
}
"""Names of defects that no audit finds, and why: what would have to be drawn to see them."""


def defects() -> list[Any]:
    """Return all defects of native code that may change what is released."""
    files = ((each, mutants.file_of(each, ROOT).relative_to(ROOT).as_posix()) for each in mutants.MUTANTS)
    return [
        each
        for each, file in files
        if (file.startswith(FOLDER) and not file.removeprefix(f"{FOLDER}/").startswith(ELSEWHERE))
        or each.name in BINDING
    ]


def is_built(tree: Path, *, checked: bool = False) -> bool:
    """Build the native module of a copy, if asked with Rust's own checks, and return whether that succeeded."""
    os.environ |= {
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
        "CARGO_INCREMENTAL": "1",
    }
    checks = ["--config", "profile.release.package.ferrodp-py.debug-assertions=true"] if checked else []
    if run.run(["cargo", "build", "--release", "-p", "ferrodp-py", "--features", "testing", *checks], tree):
        return False
    shutil.copy2(run.TARGET / "release" / "lib_native.so", tree / run.MODULE)
    return True


def main() -> int:
    """Run what the command line asks for, and return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default="")
    text = parser.parse_args().text
    missed = 0
    with tempfile.TemporaryDirectory(prefix="ferrodp-defects-") as folder:
        tree = Path(folder) / "tree"
        run.copy_sources(tree)
        for defect in defects():
            if text not in defect.name or defect.name not in FOUND_BY:
                continue
            file = mutants.file_of(defect, tree)
            before = file.read_text(encoding="utf-8")
            file.write_text(defect.applied(before), encoding="utf-8")
            os.environ.pop("FERRODP_ISA", None)
            if defect.name not in NATIVE_PATH and file.name not in NATIVE_FILES:
                os.environ["FERRODP_ISA"] = "portable"
            found = alarms(FOUND_BY[defect.name], tree) if is_built(tree, checked=defect.name in CHECKED) else []
            file.write_text(before, encoding="utf-8")
            missed += not found
            print("found " if found else "MISSED", defect.name, "|", ", ".join(found), flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
