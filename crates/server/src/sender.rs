//! Replies of many sessions, handed to the system at once.
//!
//! Each reply wakes a client, and a client on the same machine may get the processor at once: then the first reply of
//! many interrupts the worker, and the client finds one answer where a moment later there would have been ten. One
//! system call for all of them wakes the clients when all is sent (io_uring; without it, or where it is forbidden as in
//! many containers, each reply is a write of its own).
//!
//! Invariants
//! 1. When [`Sender::send`] returns, the system has no hold on the bytes any more: nothing is sent that could wait.
//!
//! Must not know: what the bytes are.

use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Replies in one system call.
pub const AT_ONCE: usize = 64;

/// What came of a reply: the number of bytes that the socket took, or why it took none. None: it was not tried.
pub type SendOutcome = Option<io::Result<usize>>;

pub struct Sender {
    ring: Option<IoUring>,
}

impl Sender {
    pub fn new() -> Sender {
        Sender { ring: IoUring::builder().setup_coop_taskrun().build(AT_ONCE as u32).ok() }
    }

    pub fn is_available(&self) -> bool {
        self.ring.is_some()
    }

    /// Sends to each socket, as much as it takes without waiting. At most [`AT_ONCE`] replies. `sent` is cleared first;
    /// it has one entry for each reply.
    pub fn send<B: std::ops::Deref<Target = [u8]>>(
        &mut self,
        replies: &[(BorrowedFd<'_>, B)],
        sent: &mut Vec<SendOutcome>,
    ) {
        sent.clear();
        sent.resize_with(replies.len(), || None);
        let Some(ring) = &mut self.ring else { return };
        let mut queued = 0;
        for (index, (socket, bytes)) in replies.iter().enumerate() {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            // Sockets that would have to wait say so: MSG_DONTWAIT.
            let request = opcode::Send::new(types::Fd(socket.as_raw_fd()), bytes.as_ptr(), length)
                .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
                .build()
                .user_data(index as u64);
            // SAFETY: `replies` keeps the descriptor open and the bytes in place until this function returns. With
            // MSG_DONTWAIT a request ends within the call that submits it, and the loop below goes on until the answers
            // of all that were submitted are there.
            if unsafe { ring.submission().push(&request) }.is_err() {
                break;
            }
            queued += 1;
        }
        let mut answered = 0;
        while answered < queued {
            let outcome = ring.submit_and_wait(queued - answered);
            for answer in ring.completion() {
                answered += 1;
                let result = answer.result();
                if let Some(of_reply) = sent.get_mut(answer.user_data() as usize) {
                    *of_reply = Some(usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result)));
                }
            }
            match outcome {
                Err(e) if ![libc::EINTR, libc::EAGAIN, libc::EBUSY].contains(&e.raw_os_error().unwrap_or(0)) => {
                    // The requests that were not taken go with the ring.
                    self.ring = None;
                    return;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn each_socket_gets_its_bytes_and_a_full_one_says_so() {
        let mut sender = Sender::new();
        if !sender.is_available() {
            // Forbidden here: nothing is tried, and that is said.
            let (a, _b) = UnixStream::pair().unwrap();
            let mut sent = vec![];
            sender.send(&[(a.as_fd(), &b"x"[..])], &mut sent);
            assert!(sent[0].is_none());
            return;
        }
        let pairs: Vec<_> = (0..AT_ONCE).map(|_| UnixStream::pair().unwrap()).collect();
        pairs.iter().for_each(|(a, _)| a.set_nonblocking(true).unwrap());
        let mut sent = vec![];
        let big = vec![7; 4 << 20];
        for round in 0..3u8 {
            let texts: Vec<Vec<u8>> =
                (0..AT_ONCE).map(|i| if i == 5 { big.clone() } else { vec![i as u8, round] }).collect();
            let replies: Vec<_> = pairs.iter().zip(&texts).map(|((a, _), t)| (a.as_fd(), &t[..])).collect();
            sender.send(&replies, &mut sent);
            for (i, ((_, b), text)) in pairs.iter().zip(&texts).enumerate() {
                match &sent[i] {
                    // The first part fits, then nothing.
                    Some(Ok(n)) if i == 5 => assert!(round == 0 && *n > 0 && *n < big.len()),
                    Some(Err(e)) if i == 5 => assert!(round > 0 && e.kind() == io::ErrorKind::WouldBlock),
                    Some(Ok(2)) => {
                        let mut got = [0; 2];
                        (&*b).read_exact(&mut got).unwrap();
                        assert_eq!(&got[..], &text[..]);
                    }
                    other => panic!("{i}: {other:?}"),
                }
            }
        }
        drop(pairs.into_iter().map(|(_, b)| b).collect::<Vec<_>>());
        let (a, b) = UnixStream::pair().unwrap();
        drop(b);
        sender.send(&[(a.as_fd(), &b"gone"[..])], &mut sent);
        assert!(matches!(&sent[0], Some(Err(e)) if e.kind() == io::ErrorKind::BrokenPipe), "{sent:?}");
    }
}
