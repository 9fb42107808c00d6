//! Prints the digests of outputs under fixed keys; see [`ferrodp_testkit::bits`].
//!
//! ```text
//! cargo run -p ferrodp-testkit --bin bits > rust/ferrodp-testkit/tests/bits.txt
//! ```
//!
//! Two machines agree if they print the same.

use ferrodp_core::isa::Isa;
use ferrodp_testkit::bits::of_all;

fn main() {
    for case in of_all(Isa::best()) {
        println!("{case}");
    }
}
