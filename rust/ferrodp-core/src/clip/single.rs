//! Rows with one element that is not zero, whose norm of any order is its magnitude: one-hot rows, scaled to the bound. Sums of
//! powers do not tell them from rows that are a little longer, for the power of the bound is no float.

use super::element::Element;
use crate::dispatch::{self, Kernel};
use crate::isa::Isa;

/// Elements that are looked at together.
const CHUNK: usize = 64;

/// Returns the magnitude of the only element that is not zero, or zero; `None` if there are more.
pub(super) fn magnitude<'a, T: Element>(isa: Isa, leaves: impl Iterator<Item = &'a [T]>) -> Option<f64> {
    let mut found = 0.0;
    for leaf in leaves {
        if !dispatch::run(isa, Find { leaf, found: &mut found }) {
            return None;
        }
    }
    Some(found)
}

/// Looks for elements that are not zero; `false` if there is a second one.
struct Find<'a, T> {
    leaf: &'a [T],
    found: &'a mut f64,
}

impl<T: Element> Kernel for Find<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> bool {
        let (chunks, tail) = self.leaf.as_chunks::<CHUNK>();
        for chunk in chunks {
            let mut bits = 0;
            for x in chunk {
                bits |= x.widen().abs().to_bits();
            }
            if bits != 0 && !look(chunk, self.found) {
                return false;
            }
        }
        look(tail, self.found)
    }
}

fn look<T: Element>(elements: &[T], found: &mut f64) -> bool {
    for x in elements {
        let size = x.widen().abs();
        // mutant: second-element-of-rows-overlooked
        if size != 0.0 && *found != 0.0 {
            return false;
        }
        *found += size;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_more_than_one_element_have_no_single_magnitude() {
        for len in [1, 63, 64, 65, 300] {
            let row = |places: &[(usize, f64)]| {
                let mut row = vec![-0.0; len];
                places.iter().for_each(|(place, x)| row[*place] = *x);
                row
            };
            for isa in Isa::available() {
                let found = |row: &[f64]| magnitude(isa, row.chunks(100));

                assert_eq!(Some(0.0), found(&row(&[])));
                for place in 0..len {
                    assert_eq!(Some(0.7), found(&row(&[(place, -0.7)])));
                    for other in (0..len).filter(|other| *other != place).step_by(7) {
                        assert_eq!(None, found(&row(&[(place, 0.7), (other, 5e-324)])));
                    }
                }
            }
        }
    }
}
