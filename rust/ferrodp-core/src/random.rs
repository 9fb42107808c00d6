//! A keystream of AES-256 in counter mode, keyed afresh for every call.
