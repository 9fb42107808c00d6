//! What is drawn, clipped and accounted has the bits that are kept in `bits.txt`, on every machine.

use ferrodp_core::isa::Isa;
use ferrodp_testkit::bits::of_all;

#[test]
fn every_isa_of_every_machine_gives_the_kept_bits() {
    let kept: Vec<&str> = include_str!("bits.txt").lines().collect();

    for isa in Isa::available() {
        let found: Vec<String> = of_all(isa).iter().map(ToString::to_string).collect();
        assert_eq!(kept, found, "{isa:?}");
    }
}
