//! From keystream to noised values, a chunk at a time: first stage by vectors, the rest by [`decide`].
//!
//! Where the [`single`] stage applies, what it leaves open is gathered and goes through the stage in double precision as if it had
//! stood side by side, and back to its places; extension bits stay those of the places.
//!
//! A chunk's words live in a buffer on the stack that stays in the first-level cache and is wiped with the stack; nothing
//! else is allocated. Values are split as `v/g = r + f`, `r` the nearest integer: exact, for `g` is a power of two. Then
//! `N = round(f + s·Z)` and the released number is `g·(r + N)`: one IEEE addition of two integers, so the result is a
//! function of `r + N` alone, and so is whatever follows: rounding to the type, cutting to its range, dropping the sign
//! of a zero.

use super::small_sums::{self, Join};
use super::sums::{self, Release, Steps, Sums};
use super::types::{
    Lazy, NOISE_CHUNK, Noise, Number, Offset, Open, PADDED_SAMPLES, Plan, Precision, SAMPLES_PER_GROUP, Word,
};
use super::{decide, lanes, single};
use crate::isa::dispatch::prefetch_starts;
use crate::isa::{Isa, Kind};
use crate::math::integer::Integer;
use crate::params::exp2;
use crate::random::{CIPHER_BLOCK, Key, Keystream};
use single::Single;

/// The stream of first words; extension block `j` of sample `i` is block `i` of stream `1 + j`.
const FIRST_WORDS: u64 = 0;

/// A number for which each instruction set has its first stage.
pub trait Cell: Number {
    /// Runs the first stage on AVX-512; `words` has one word per value, values come in multiples of [`PADDED_SAMPLES`].
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    fn first_stage_avx512(isa: Isa, plan: &Plan, words: &[u8], values: &mut [Self], open: &mut Open);
    /// The same on AVX2.
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    fn first_stage_avx2(isa: Isa, plan: &Plan, words: &[u8], values: &mut [Self], open: &mut Open);
    /// Returns the values, if this type has a stage in single precision.
    #[doc(hidden)]
    fn singles(values: &mut [Self]) -> Option<&mut [f32]>;
}

macro_rules! cell {
    ($type:ty, $kernels:ident, $singles:expr) => {
        impl Cell for $type {
            fn singles(values: &mut [Self]) -> Option<&mut [f32]> {
                $singles(values)
            }

            #[cfg(target_arch = "x86_64")]
            fn first_stage_avx512(isa: Isa, plan: &Plan, words: &[u8], values: &mut [Self], open: &mut Open) {
                super::avx512::$kernels::first_stage(isa, plan, words, values, open);
            }

            #[cfg(target_arch = "x86_64")]
            fn first_stage_avx2(isa: Isa, plan: &Plan, words: &[u8], values: &mut [Self], open: &mut Open) {
                super::avx2::$kernels::first_stage(isa, plan, words, values, open);
            }
        }
    };
}

cell!(f32, single, Some);
cell!(f64, double, |_| None);

/// Samples whose marks are a word, and how many of them are open where something is unusual about their values.
const MARKED_SAMPLES: usize = 64;
const MANY_OPEN: u32 = 8;

/// What the single-precision stage left open, side by side: places, words and values.
struct Gathered {
    places: [u16; MARKED_SAMPLES],
    words: [[u8; 4]; MARKED_SAMPLES],
    values: [f32; MARKED_SAMPLES],
    count: usize,
}

/// Samples of [`Sampler::approximate`] at once: their words, and what is made of them, leave room in the first-level cache.
const HALF_CHUNK: usize = NOISE_CHUNK / 2;

/// Their words.
#[repr(align(64))]
pub(crate) struct HalfWords([u8; HALF_CHUNK * 8]);

impl HalfWords {
    /// Returns room for words.
    pub(crate) const fn new() -> Self {
        Self([0; HALF_CHUNK * 8])
    }
}

/// A chunk's words.
#[repr(align(64))]
struct Words([u8; NOISE_CHUNK * 8]);

/// Returns the lowest `count` bits, all from 64 on.
fn below(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// One call's sampler: shared by its threads.
pub(super) struct Sampler<'a> {
    noise: &'a Noise,
    isa: Isa,
    keystream: Keystream,
    plan: Plan,
    /// The stage that comes before, for `f32`, where it applies.
    single: Option<Single>,
}

impl<'a> Sampler<'a> {
    /// Returns the sampler of noise for `count` values of type `T`.
    pub(super) fn new<T: Cell>(noise: &'a Noise, isa: Isa, key: &Key, count: usize) -> Self {
        Self::on_grid::<T>(noise, isa, key, count, noise.granularity.width())
    }

    /// Returns the sampler of noise for sums of integers that are released as numbers of type `T`: in units of the grid.
    pub(super) fn in_steps<T: Cell>(noise: &'a Noise, isa: Isa, key: &Key, count: usize) -> Self {
        Self::on_grid::<T>(noise, isa, key, count, 1.0)
    }

    fn on_grid<T: Cell>(noise: &'a Noise, isa: Isa, key: &Key, count: usize, width: f64) -> Self {
        // Fewer than a vector are cheaper without it.
        let single = if T::IS_SINGLE && count >= PADDED_SAMPLES { Single::new(noise, width) } else { None };
        Self { noise, isa, keystream: Keystream::new(isa, key), plan: Plan::new(noise, width), single }
    }

    /// Writes `Z` of the samples from `start` on, a multiple of [`PADDED_SAMPLES`], for Gaussian noise of long words: within
    /// [`Precision::error`], by `far` where the leading bits are too few.
    pub(super) fn approximate(
        &self,
        precision: Precision,
        start: u64,
        words: &mut HalfWords,
        out: &mut [f64],
        far: impl Fn(u64) -> f64,
    ) {
        let mut open = Open { groups: [0; NOISE_CHUNK / SAMPLES_PER_GROUP] };
        let mut padded = [0.0; PADDED_SAMPLES];
        for (index, chunk) in out.chunks_mut(HALF_CHUNK).enumerate() {
            let first = start + (index * HALF_CHUNK) as u64;
            let count = chunk.len();
            let words = &mut words.0[..count.next_multiple_of(PADDED_SAMPLES) * 8];
            // mutant: words-of-proposed-variables
            self.keystream.fill(FIRST_WORDS, first * 8 / CIPHER_BLOCK as u64, words);
            let whole = count / PADDED_SAMPLES * PADDED_SAMPLES;
            let (body, rest) = chunk.split_at_mut(whole);
            self.quantiles(precision, words, body, &mut open);
            if !rest.is_empty() {
                let mut of_rest = Open { groups: [0; NOISE_CHUNK / SAMPLES_PER_GROUP] };
                self.quantiles(precision, &words[whole * 8..], &mut padded, &mut of_rest);
                rest.copy_from_slice(&padded[..rest.len()]);
                let groups = PADDED_SAMPLES / SAMPLES_PER_GROUP;
                open.groups[whole / SAMPLES_PER_GROUP..][..groups].copy_from_slice(&of_rest.groups[..groups]);
            }
            let words = words.as_chunks::<8>().0;
            for (block, groups) in open.groups.as_chunks::<8>().0.iter().enumerate() {
                let mut mask = u64::from_le_bytes(*groups) & below(count.saturating_sub(block * MARKED_SAMPLES));
                while mask != 0 {
                    let place = block * MARKED_SAMPLES + mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    let word = u64::from_le_bytes(words[place]);
                    let (negative, leading, _) = decide::split_word(self.noise, word);
                    let size = decide::approximate(leading);
                    let signed = size.map(|size| if negative { -size } else { size });
                    // mutant: tails-of-proposed-variables
                    chunk[place] = signed.unwrap_or_else(|| far(first + place as u64));
                }
            }
        }
    }

    fn quantiles(&self, precision: Precision, words: &[u8], out: &mut [f64], open: &mut Open) {
        match self.isa.kind() {
            Kind::Portable => lanes::quantiles(precision, words, out, open),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => lanes::quantiles(precision, words, out, open),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => super::avx2::quantiles(self.isa, precision, words, out, open),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => super::avx512::quantiles(self.isa, precision, words, out, open),
        }
    }

    /// Adds noise to `values`, which begin with sample `start`, a multiple of [`NOISE_CHUNK`]; with `overwrite`, to zeros.
    pub(super) fn put<T: Cell>(&self, start: u64, values: &mut [T], overwrite: bool) {
        self.with_chunks(start, values, |chunk, first, words| {
            if overwrite {
                chunk.fill(T::default());
            }
            // mutant: zeros-released-without-noise
            self.noise_chunk(first, words, chunk);
        });
    }

    /// Returns `value` with the noise of sample 0.
    pub(super) fn add_one(&self, value: f64) -> f64 {
        let (mut words, mut values) = ([0; PADDED_SAMPLES * 8], [0.0; PADDED_SAMPLES]);
        self.keystream.fill(FIRST_WORDS, 0, &mut words);
        values[0] = value;
        // mutant: noise-of-a-single-number
        self.all_stages(0, &words[..PADDED_SAMPLES * self.word_bytes()], &mut values, 1);
        values[0]
    }

    /// Writes `g · round(sum + s·Z)` for every sum, divided by `denominator` if there is one.
    pub(super) fn add_to_sums<T: Cell>(&self, start: u64, sums: &Sums<'_>, denominator: Option<f64>, out: &mut [T]) {
        if T::IS_SINGLE && self.single.is_some() {
            self.noise_sums::<f32, T>(start, sums, denominator, out);
        } else {
            self.noise_sums::<f64, T>(start, sums, denominator, out);
        }
    }

    /// The same, with integers of noise as numbers of type `N`. Never inlined: one frame would hold the buffers of both types.
    #[inline(never)]
    fn noise_sums<N: Cell + Steps, T: Cell>(
        &self,
        start: u64,
        sums: &Sums<'_>,
        denominator: Option<f64>,
        out: &mut [T],
    ) {
        let (mut steps, mut wholes) = ([N::default(); NOISE_CHUNK], N::NEW_WHOLES);
        let wholes = wholes.as_mut();
        let (shift, width) = (sums.shift, self.noise.granularity.width());
        let by = denominator.map(f32::narrow);
        // mutant: any-denominator-divides-in-single-precision
        let is_exact = small_sums::SMALL_SUM_WIDTHS.contains(&width) && by.map(f64::from) == denominator;
        self.with_chunks(start, out, |chunk, first, words| {
            let sums = &sums.integers[(first - start) as usize..][..chunk.len()];
            prefetch_starts(sums.as_ptr().wrapping_add(NOISE_CHUNK), NOISE_CHUNK);
            let end = chunk.len().min(wholes.len());
            let wholes = &mut wholes[..end];
            let steps = &mut steps[..chunk.len()];
            let is_small = N::split(self.isa, sums, shift, wholes, steps);
            self.noise_chunk(first, words, steps);
            if is_small
                && is_exact
                && let (Some(steps), Some(out)) = (N::singles(steps), T::singles(chunk))
                && small_sums::join(self.isa, Join { wholes, steps, width: width as f32, denominator: by, out })
            {
                return;
            }
            sums::release(self.isa, Release { sums, steps, shift, width, denominator, out: chunk });
        });
    }

    /// Calls `work` with every chunk, its first sample's index and its words.
    fn with_chunks<T>(&self, start: u64, values: &mut [T], mut work: impl FnMut(&mut [T], u64, &[u8])) {
        let mut words = Words([0; NOISE_CHUNK * 8]);
        let word_bytes = self.word_bytes();
        for (index, chunk) in values.chunks_mut(NOISE_CHUNK).enumerate() {
            // What comes next is on its way while this one is computed.
            prefetch_starts(chunk.as_ptr().wrapping_add(NOISE_CHUNK), NOISE_CHUNK);
            let first = start + (index * NOISE_CHUNK) as u64;
            let used = &mut words.0[..chunk.len().next_multiple_of(PADDED_SAMPLES) * word_bytes];
            // mutant: first-words-of-a-chunk
            self.keystream.fill(FIRST_WORDS, first * word_bytes as u64 / CIPHER_BLOCK as u64, used);
            // mutant: words-of-a-chunk
            work(chunk, first, used);
        }
    }

    fn word_bytes(&self) -> usize {
        match self.plan.word {
            Word::Short => 4,
            Word::Long => 8,
        }
    }

    /// Adds noise to one chunk: what comes in multiples of [`PADDED_SAMPLES`], then the rest, padded.
    fn noise_chunk<T: Cell>(&self, start: u64, words: &[u8], values: &mut [T]) {
        let whole = values.len() / PADDED_SAMPLES * PADDED_SAMPLES;
        let (body, rest) = values.split_at_mut(whole);
        // mutant: last-partial-vector-draws-words-of-first
        let (body_words, rest_words) = words.split_at(whole * self.word_bytes());
        self.all_stages(start, body_words, body, whole);
        if !rest.is_empty() {
            let mut padded = [T::default(); PADDED_SAMPLES];
            padded[..rest.len()].copy_from_slice(rest);
            self.all_stages(start + whole as u64, rest_words, &mut padded, rest.len());
            rest.copy_from_slice(&padded[..rest.len()]);
        }
    }

    /// Adds noise to the first `count` of `values`, the samples from `start` on; those after them only fill a vector.
    fn all_stages<T: Cell>(&self, start: u64, words: &[u8], values: &mut [T], count: usize) {
        match (&self.single, T::singles(values)) {
            (Some(single), Some(values)) => self.single_first(single, start, words, values, count),
            _ => self.in_double(words, values, count, |place| start + place as u64),
        }
    }

    /// Adds noise by the stage in single precision, and by the others to what it leaves open.
    fn single_first(&self, single: &Single, start: u64, words: &[u8], values: &mut [f32], count: usize) {
        let mut open = Open { groups: [0; NOISE_CHUNK / SAMPLES_PER_GROUP] };
        single::stage::first_stage(self.isa, single, words, values, &mut open);
        let mut gathered = Gathered {
            places: [0; MARKED_SAMPLES],
            words: [[0; 4]; MARKED_SAMPLES],
            values: [0.0; MARKED_SAMPLES],
            count: 0,
        };
        let words = words.as_chunks::<4>().0;
        for (block, groups) in open.groups.as_chunks::<8>().0.iter().enumerate() {
            let mut mask = u64::from_le_bytes(*groups) & below(count.saturating_sub(block * MARKED_SAMPLES));
            while mask != 0 {
                let place = block * MARKED_SAMPLES + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let (word, value) = (words[place], values[place]);
                if single.swallows(value, u32::from_le_bytes(word)) {
                    continue;
                }
                let at = gathered.count;
                gathered.places[at] = place as u16;
                gathered.words[at] = word;
                gathered.values[at] = if value.is_finite() { value } else { 0.0 };
                gathered.count += 1;
                if gathered.count == MARKED_SAMPLES {
                    self.scatter(start, &mut gathered, values);
                }
            }
        }
        self.scatter(start, &mut gathered, values);
    }

    /// Settles what is gathered, puts it in its places and leaves none.
    fn scatter(&self, start: u64, gathered: &mut Gathered, values: &mut [f32]) {
        let Gathered { places, words, values: open, count } = gathered;
        let len = count.next_multiple_of(PADDED_SAMPLES);
        // mutant: extension-bits-of-what-was-gathered
        let index = |i: usize| start + u64::from(places[i]);
        self.in_double(words[..len].as_flattened(), &mut open[..len], *count, index);
        for (&place, &value) in places.iter().zip(&*open).take(*count) {
            values[usize::from(place)] = value;
        }
        *count = 0;
    }

    /// Adds noise by the stage in double precision, and by the later ones to what it leaves open; `index` gives the sample
    /// at a place.
    fn in_double<T: Cell>(&self, words: &[u8], values: &mut [T], count: usize, index: impl Fn(usize) -> u64) {
        let mut open = Open { groups: [0; NOISE_CHUNK / SAMPLES_PER_GROUP] };
        self.first_stage(words, values, &mut open);
        for (word, groups) in open.groups.as_chunks::<8>().0.iter().enumerate() {
            let mut mask = u64::from_le_bytes(*groups) & below(count.saturating_sub(word * MARKED_SAMPLES));
            if mask.count_ones() >= MANY_OPEN {
                let block = word * MARKED_SAMPLES..values.len().min((word + 1) * MARKED_SAMPLES);
                let words = &words[block.start * self.word_bytes()..block.end * self.word_bytes()];
                mask = self.with_zeros(words, &mut values[block], mask);
            }
            while mask != 0 {
                let place = word * MARKED_SAMPLES + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let value = self.settle(index(place), self.word(words, place), values[place].widen());
                values[place] = T::narrow(value);
            }
        }
    }

    /// Runs the first stage on zeros in place of what is open and no number, and returns what is open then: a mask of
    /// lanes, as `open` was.
    fn with_zeros<T: Cell>(&self, words: &[u8], values: &mut [T], open: u64) -> u64 {
        let is_open = |lane: usize| open >> lane & 1 == 1;
        if !values.iter().enumerate().any(|(lane, value)| is_open(lane) && !value.widen().is_finite()) {
            return open;
        }
        let mut again = [T::default(); MARKED_SAMPLES];
        for (lane, (again, value)) in again.iter_mut().zip(&*values).enumerate() {
            // mutant: numbers-beside-others-noised-as-zeros
            if is_open(lane) && value.widen().is_finite() {
                *again = *value;
            }
        }
        let mut noted = Open { groups: [0; NOISE_CHUNK / SAMPLES_PER_GROUP] };
        self.first_stage(words, &mut again[..values.len()], &mut noted);
        let still = open & u64::from_le_bytes(noted.groups.as_chunks::<8>().0[0]);
        for (lane, (again, value)) in again.iter().zip(values).enumerate() {
            if (open & !still) >> lane & 1 == 1 {
                *value = *again;
            }
        }
        still
    }

    /// Returns `round(value/g + s·Z)` for the `Z` of sample `index`.
    pub(super) fn steps(&self, index: u64, value: &Integer) -> i128 {
        let (negative, bits) = self.bits(index, self.first_word(index));
        decide::settle_integer(self.noise, negative, &bits, value, -self.noise.granularity.exponent())
    }

    /// Returns the first word of sample `index`, alone.
    pub(super) fn first_word(&self, index: u64) -> u64 {
        let bytes = self.word_bytes();
        let per_block = (CIPHER_BLOCK / bytes) as u64;
        let mut block = [0; CIPHER_BLOCK];
        self.keystream.fill(FIRST_WORDS, index / per_block, &mut block);
        let word = self.word(&block, (index % per_block) as usize);
        zeroize::Zeroize::zeroize(block.as_mut_slice());
        word
    }

    /// Returns the first word of the sample at `index` of a chunk.
    fn word(&self, words: &[u8], index: usize) -> u64 {
        match self.plan.word {
            Word::Short => u64::from(u32::from_le_bytes(words.as_chunks().0[index])),
            Word::Long => u64::from_le_bytes(words.as_chunks().0[index]),
        }
    }

    /// Returns the sign and the further bits of sample `index`, which begins with `word`.
    pub(super) fn bits(&self, index: u64, word: u64) -> (bool, Lazy<impl Fn(u64) -> [u64; 2]>) {
        let (negative, leading, width) = decide::split_word(self.noise, word);
        // mutant: extension-bits
        let extension = move |block: u64| self.keystream.words(1 + block, index);
        (negative, Lazy { leading, width, extension })
    }

    fn first_stage<T: Cell>(&self, words: &[u8], values: &mut [T], open: &mut Open) {
        match self.isa.kind() {
            Kind::Portable => lanes::first_stage(&self.plan, words, values, open),
            // In double precision two lanes gain nothing: looking up a coefficient takes as many instructions.
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => lanes::first_stage(&self.plan, words, values, open),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => T::first_stage_avx2(self.isa, &self.plan, words, values, open),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => T::first_stage_avx512(self.isa, &self.plan, words, values, open),
        }
    }

    /// Returns the noised value of one sample, for certain.
    fn settle(&self, index: u64, word: u64, value: f64) -> f64 {
        let plan = &self.plan;
        // mutant: not-number-passes
        let value = if value.is_finite() { value } else { 0.0 };
        let steps = value * plan.reciprocal;
        if steps.is_infinite() {
            // 2¹⁰²⁴ steps at least, of which floats keep 53 digits: no noise of less than 2¹²⁷ steps shows in their sum.
            return value;
        }
        let exponent = crate::params::floor_log2(plan.width);
        // From 2⁵³ steps on a value is a multiple of the grid.
        let (whole, offset) = if steps.abs() >= exp2(53) {
            (steps, Offset::new(0.0, 0))
        } else {
            let whole = steps.round_ties_even();
            (whole, if whole == 0.0 { Offset::new(value, -exponent) } else { Offset::new(steps - whole, 0) })
        };
        let (negative, bits) = self.bits(index, word);
        let n = decide::settle(self.noise, negative, &bits, offset);
        // mutant: tail-cut-at-3-9-scales
        if let Ok(n) = i64::try_from(n)
            && n.unsigned_abs() < 1 << 53
        {
            return (whole + n as f64) * plan.width + 0.0;
        }
        // `n` is below 2⁵³ but with probability e^−100000; beyond, the sum of integers is formed in 128 bits.
        if whole.abs() < exp2(100) {
            return (whole as i128 + n) as f64 * plan.width;
        }
        (whole + n as f64) * plan.width + 0.0
    }
}
