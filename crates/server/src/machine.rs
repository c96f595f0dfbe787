//! What authentication asks of the machine: its own addresses, the names of its users.

use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::sync::{Mutex, MutexGuard};
use kilndb_base::work;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

/// A user's name is asked for again after so long.
const ASKED_AGAIN_NANOS: u64 = 10_000_000_000;
const USERS_MAX: usize = 1000;

/// The addresses of the machine's interfaces with their networks' masks.
pub fn own_addresses() -> Vec<(IpAddr, IpAddr)> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is a place for a pointer, which is set if the call succeeds.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list is whole until it is given back below, and its entries are valid; the last has no successor.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: an entry's addresses are null or valid as long as the list is.
        found.extend(unsafe { address_of(entry.ifa_addr).zip(address_of(entry.ifa_netmask)) });
        next = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// # Safety
/// `address` is null or points to an address that is as long as its family says.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's promise.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the caller's promise; the family is that of this structure.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: the caller's promise; the family is that of this structure.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// The name of a user of the operating system; of one that has none, as in a container, its number.
pub fn user_name(id: u32) -> String {
    let mut room = vec![0; 16 << 10];
    // SAFETY: numbers and pointers, for which zeros are values.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found: *mut libc::passwd = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and `room` is as long as it says.
    let failed = unsafe { libc::getpwuid_r(id, &mut entry, room.as_mut_ptr(), room.len(), &mut found) };
    if failed != 0 || found.is_null() || entry.pw_name.is_null() {
        return id.to_string();
    }
    // SAFETY: the name is in `room` and ends in a zero.
    unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned()
}

/// The longest name of a host (RFC 1035), and a zero.
const HOST_NAME_BYTES: usize = 256;

/// The name that an address has, if that name has the address too: whoever answers for addresses may say what he wants
/// of their names. The machine may have to ask others.
pub fn verified_host_name(address: IpAddr) -> Option<String> {
    let name = host_name(address)?;
    let found = (name.as_str(), 0).to_socket_addrs().ok()?;
    found.into_iter().any(|found| found.ip().to_canonical() == address).then_some(name)
}

fn host_name(address: IpAddr) -> Option<String> {
    // SAFETY: all bytes zero is a value of these types.
    let (mut v4, mut v6): (libc::sockaddr_in, libc::sockaddr_in6) = unsafe { std::mem::zeroed() };
    let (place, size) = match address {
        IpAddr::V4(ip) => {
            v4.sin_family = libc::AF_INET as libc::sa_family_t;
            v4.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
            ((&raw const v4).cast::<libc::sockaddr>(), size_of_val(&v4))
        }
        IpAddr::V6(ip) => {
            v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            v6.sin6_addr.s6_addr = ip.octets();
            ((&raw const v6).cast::<libc::sockaddr>(), size_of_val(&v6))
        }
    };
    let mut room: [libc::c_char; HOST_NAME_BYTES] = [0; HOST_NAME_BYTES];
    // SAFETY: the address is one of the family and size that it says, both places live through the call, and no service is
    // asked for.
    let failed = unsafe {
        libc::getnameinfo(
            place,
            size as libc::socklen_t,
            room.as_mut_ptr(),
            room.len() as libc::socklen_t,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    if failed != 0 {
        return None;
    }
    // SAFETY: the call has written a name that ends in a zero.
    unsafe { CStr::from_ptr(room.as_ptr()) }.to_str().ok().map(str::to_string)
}

/// Names of users that were asked for lately.
#[derive(Default)]
pub struct UserNames {
    known: Mutex<BTreeMap<u32, (String, u64)>>,
}

impl UserNames {
    /// As [`user_name`]. The machine may have to ask others for it: nobody else waits meanwhile.
    pub fn of(&self, id: u32) -> kilndb_base::Result<String> {
        let now = process_monotonic_nanos();
        if let Some((name, asked)) = self.known().get(&id)
            && now - asked < ASKED_AGAIN_NANOS
        {
            return Ok(name.clone());
        }
        let name = work::apart(|| user_name(id))?;
        let mut known = self.known();
        if known.len() >= USERS_MAX {
            known.clear();
        }
        known.insert(id, (name.clone(), now));
        Ok(name)
    }
    fn known(&self) -> MutexGuard<'_, BTreeMap<u32, (String, u64)>> {
        self.known.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The user that this process runs as.
pub fn own_user_name() -> String {
    // SAFETY: the call has no conditions.
    user_name(unsafe { libc::geteuid() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_loopback_address() {
        let loopback = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(255, 0, 0, 0)));
        assert!(own_addresses().contains(&loopback), "{:?}", own_addresses());
    }

    #[test]
    fn names_of_addresses_are_verified() {
        // Which name it has is the machine's affair.
        if let Some(name) = host_name(IpAddr::V4(Ipv4Addr::LOCALHOST)) {
            assert_eq!(verified_host_name(IpAddr::V4(Ipv4Addr::LOCALHOST)), Some(name));
        }
        // TEST-NET-3 (RFC 5737) has no names.
        assert_eq!(verified_host_name(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77))), None);
    }

    #[test]
    fn users_have_names_or_numbers() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_001), "4000000001");
        let names = UserNames::default();
        assert_eq!((names.of(0).unwrap(), names.of(0).unwrap()), ("root".into(), "root".into()));
    }
}
