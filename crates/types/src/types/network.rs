//! Addresses.

use super::{FREE, TypeDescriptor, fixed};
use crate::Datum;
use crate::network::{Inet, parse_macaddr, parse_macaddr8};
use crate::oids::*;
use crate::row::PhysicalType as P;

pub(super) const TYPES: &[TypeDescriptor] = &[
    TypeDescriptor {
        oid: INET,
        input: |text, _, _| Inet::parse(text, false).map(Datum::Inet),
        receive: |bytes, _, _| Inet::receive(bytes, false).map(Datum::Inet),
        storage: P::Inet,
        ..FREE
    },
    TypeDescriptor {
        oid: CIDR,
        input: |text, _, _| Inet::parse(text, true).map(Datum::Inet),
        receive: |bytes, _, _| Inet::receive(bytes, true).map(Datum::Inet),
        storage: P::Inet,
        ..FREE
    },
    TypeDescriptor {
        oid: MACADDR,
        input: |text, _, _| parse_macaddr(text).map(Datum::MacAddr),
        receive: |bytes, _, _| fixed(bytes).map(Datum::MacAddr),
        storage: P::MacAddr,
        ..FREE
    },
    TypeDescriptor {
        oid: MACADDR8,
        input: |text, _, _| parse_macaddr8(text).map(Datum::MacAddr8),
        // Six bytes are an EUI-48 address.
        receive: |bytes, _, _| match bytes {
            [a, b, c, d, e, f] => Ok(Datum::MacAddr8([*a, *b, *c, 0xff, 0xfe, *d, *e, *f])),
            _ => fixed(bytes).map(Datum::MacAddr8),
        },
        storage: P::MacAddr8,
        ..FREE
    },
];
