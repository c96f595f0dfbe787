//! The exchange against RFC 7677's example and against a client of the tests' own.

use super::*;
use crate::password::{PasswordMethod, encrypt};

const NONCE: [u8; 32] = [7; 32];

fn facts<'a>(verifier: Option<&'a str>, binding: Option<&'a [u8]>) -> ExchangeFacts<'a> {
    ExchangeFacts {
        role_name: "user",
        verifier,
        channel_binding: binding,
        mock_nonce: &NONCE,
        iterations: 4096,
        random: [1; NONCE_BYTES],
    }
}

fn verifier(password: &str) -> String {
    let salt = base64::decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap().try_into().unwrap();
    encrypt(password, PasswordMethod::ScramSha256, "user", 4096, salt).unwrap()
}

fn continued(step: ScramStep) -> String {
    match step {
        ScramStep::Continue(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The client's final message, whatever it thinks of channel binding.
fn final_message(password: &str, first_bare: &str, server_first: &str, binding: &[u8]) -> String {
    let field = |name: &str| {
        server_first.split(',').find_map(|part| part.strip_prefix(name)).expect("an attribute of the server's")
    };
    let salt = base64::decode(field("s=").as_bytes()).unwrap();
    let iterations = field("i=").parse().unwrap();
    let without_proof = format!("c={},r={}", base64::encode(binding), field("r="));
    let known = crate::password::Verifier::derive(password.as_bytes(), &salt, iterations).unwrap();
    let signature = hmac(
        &known.stored_key,
        &[first_bare.as_bytes(), b",", server_first.as_bytes(), b",", without_proof.as_bytes()],
    );
    let client_key = client_key(password, &salt, iterations);
    assert_eq!(hash(&client_key), known.stored_key);
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
    format!("{without_proof},p={}", base64::encode(&proof))
}

fn client_key(password: &str, salt: &[u8], iterations: i32) -> Key {
    let mut last = hmac(password.as_bytes(), &[salt, &1u32.to_be_bytes()]);
    let mut sum = last;
    for _ in 1..iterations {
        last = hmac(password.as_bytes(), &[&last]);
        sum.iter_mut().zip(last).for_each(|(sum, byte)| *sum ^= byte);
    }
    hmac(&sum, &[b"Client Key"])
}

fn exchange(mechanism: &str, header: &str, password: &str, facts: &ExchangeFacts<'_>) -> Result<ScramStep> {
    let mut server = ScramExchange::begin(mechanism, facts)?;
    let bare = "n=,r=abc";
    let server_first = continued(server.step(Some(format!("{header}{bare}").as_bytes()))?);
    let binding = match facts.channel_binding {
        Some(data) if header.starts_with('p') => [header.as_bytes(), data].concat(),
        _ => header.as_bytes().to_vec(),
    };
    server.step(Some(final_message(password, bare, &server_first, &binding).as_bytes()))
}

#[test]
fn rfc_7677_example() {
    let known = verifier("pencil");
    let mut server = ScramExchange::begin(SCRAM_SHA_256, &facts(Some(&known), None)).unwrap();
    server.server_nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".into();
    let first = continued(server.step(Some(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")).unwrap());
    assert_eq!(first, "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
    let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let done = server.step(Some(last.as_bytes())).unwrap();
    assert_eq!(done, ScramStep::Done(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_vec()));
    // The same message once more is no second entry.
    assert!(server.step(Some(last.as_bytes())).is_err());
}

#[test]
fn right_wrong_and_nobodys_password() {
    let known = verifier("pencil");
    let ends = |verifier, password| exchange(SCRAM_SHA_256, "n,,", password, &facts(verifier, None)).unwrap();
    assert!(matches!(ends(Some(&known), "pencil"), ScramStep::Done(_)));
    assert_eq!(ends(Some(&known), "pen"), ScramStep::Failed);
    assert_eq!(ends(None, "pencil"), ScramStep::Failed);
    assert_eq!(ends(Some("md5d41d8cd98f00b204e9800998ecf8427e"), "pencil"), ScramStep::Failed);
    // A client that asks for nobody is told the same salt each time, and another one for another name.
    let first = |name: &str| {
        let facts = ExchangeFacts { role_name: name, ..facts(None, None) };
        continued(ScramExchange::begin(SCRAM_SHA_256, &facts).unwrap().step(Some(b"n,,n=,r=x")).unwrap())
    };
    assert_eq!(first("a"), first("a"));
    assert_ne!(first("a"), first("b"));
}

#[test]
fn channel_binding_is_checked() {
    let known = verifier("pencil");
    let binding: &[u8] = b"hash of a certificate";
    let with = facts(Some(&known), Some(binding));
    let plus = "p=tls-server-end-point,,";
    assert!(matches!(exchange(SCRAM_SHA_256_PLUS, plus, "pencil", &with).unwrap(), ScramStep::Done(_)));
    assert!(matches!(exchange(SCRAM_SHA_256, "n,,", "pencil", &with).unwrap(), ScramStep::Done(_)));
    let refused = |mechanism, header, facts: &ExchangeFacts<'_>| {
        let e = exchange(mechanism, header, "pencil", facts).unwrap_err();
        (e.sqlstate().as_str().to_string(), e.message().to_string())
    };
    // Somebody between the two has kept from the client that the server can do it.
    assert_eq!(
        refused(SCRAM_SHA_256, "y,,", &with),
        ("28000".into(), "SCRAM channel binding negotiation error".into())
    );
    assert_eq!(refused(SCRAM_SHA_256_PLUS, "n,,", &with).0, "08P01");
    assert_eq!(refused(SCRAM_SHA_256, plus, &with).0, "08P01");
    assert_eq!(
        refused(SCRAM_SHA_256_PLUS, "p=tls-unique,,", &with).1,
        "unsupported SCRAM channel-binding type \"tls-unique\""
    );
    let without = facts(Some(&known), None);
    assert_eq!(
        refused(SCRAM_SHA_256_PLUS, plus, &without).1,
        "client selected an invalid SASL authentication mechanism"
    );
    assert!(matches!(exchange(SCRAM_SHA_256, "y,,", "pencil", &without).unwrap(), ScramStep::Done(_)));
    // The data of another connection.
    let mut server = ScramExchange::begin(SCRAM_SHA_256_PLUS, &with).unwrap();
    let first = continued(server.step(Some(format!("{plus}n=,r=abc").as_bytes())).unwrap());
    let other = [plus.as_bytes(), b"hash of another"].concat();
    let e = server.step(Some(final_message("pencil", "n=,r=abc", &first, &other).as_bytes())).unwrap_err();
    assert_eq!((e.sqlstate().as_str(), e.message()), ("28000", "SCRAM channel binding check failed"));
}

#[test]
fn what_is_no_message_is_refused() {
    let known = verifier("pencil");
    for (message, detail) in [
        ("", "The message is empty."),
        ("n,,n=\0,r=a", "Message length does not match input length."),
        ("x,,n=,r=a", "Unexpected channel-binding flag \"'x'\"."),
        ("n;,n=,r=a", "Comma expected, but found character \"';'\"."),
        ("n,b,n=,r=a", "Unexpected attribute \"'b'\" in client-first-message."),
        ("n,,r=a", "Expected attribute \"n\" but found \"'r'\"."),
        ("n,,n,r=a", "Expected character \"=\" for attribute \"n\"."),
        ("n,,n=,r=a,,", "Attribute expected, but found invalid character \"','\"."),
    ] {
        let mut server = ScramExchange::begin(SCRAM_SHA_256, &facts(Some(&known), None)).unwrap();
        let e = server.step(Some(message.as_bytes())).unwrap_err();
        assert_eq!((e.message(), e.0.detail.as_deref()), ("malformed SCRAM message", Some(detail)), "{message:?}");
    }
    let mut server = ScramExchange::begin(SCRAM_SHA_256, &facts(Some(&known), None)).unwrap();
    assert_eq!(server.step(None).unwrap(), ScramStep::Continue(Vec::new()));
    let first = continued(server.step(Some(b"n,,n=,r=abc")).unwrap());
    let good = final_message("pencil", "n=,r=abc", &first, b"n,,");
    let replayed = good.replace("r=abc", "r=abd");
    let e = server.step(Some(replayed.as_bytes())).unwrap_err();
    assert_eq!((e.message(), e.0.detail.as_deref()), ("invalid SCRAM response", Some("Nonce does not match.")));
    // An exchange that has failed does not go on.
    assert!(server.step(Some(good.as_bytes())).is_err());
}
