//! Throughput of the kernels, for every instruction set of this CPU, in cache and out of it, on one thread.
//!
//! Run with `cargo bench -p ferrodp-benches`; `ferrodp bench` measures against peers.

use std::hint::black_box;
use std::num::NonZeroUsize;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ferrodp_core::Isa;
use ferrodp_core::random::{Key, Keystream};
use ferrodp_core::sample::{Element, Law, Noise};

/// Elements that stay in the second-level cache, and elements that do not.
const SIZES: [usize; 2] = [1 << 15, 1 << 23];

fn keystream(c: &mut Criterion) {
    let mut group = c.benchmark_group("keystream");
    let mut bytes = vec![0; 8192];
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    for isa in Isa::available() {
        let keystream = Keystream::new(isa, &Key::from_bytes([1; 32]));
        group.bench_function(isa.name(), |b| b.iter(|| keystream.fill(0, 0, black_box(&mut bytes))));
    }
    group.finish();
}

fn add_noise<T: Element>(c: &mut Criterion, dtype: &str) {
    for law in [Law::Gaussian, Law::Laplace] {
        let name = format!("add_{law:?}_/{dtype}").to_lowercase();
        let mut group = c.benchmark_group(name);
        let granularity = Noise::default_granularity::<T>(law, 1.1).expect("in range");
        let noise = Noise::new(law, 1.1, granularity).expect("in range");
        for size in SIZES {
            let mut values = vec![T::default(); size];
            group.throughput(Throughput::Elements(size as u64));
            for isa in Isa::available() {
                group.bench_function(BenchmarkId::new(isa.name(), size), |b| {
                    b.iter(|| {
                        let key = Key::fresh().expect("entropy");
                        noise.add(isa, &key, black_box(&mut values), NonZeroUsize::MIN);
                    });
                });
            }
        }
        group.finish();
    }
}

fn noise(c: &mut Criterion) {
    add_noise::<f32>(c, "f32");
    add_noise::<f64>(c, "f64");
}

criterion_group!(kernels, keystream, noise);
criterion_main!(kernels);
