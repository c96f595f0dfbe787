//! Lines that are right and wrong, and which rule a connection meets.

use super::*;
use crate::lines::tests::files;
use crate::names::Pattern;

/// Expressions of the tests: `prefix.*` and `^(.*)suffix$`, and one that is wrong.
pub(crate) struct TestPatterns;
struct TestPattern(String);
impl Pattern for TestPattern {
    fn find(&self, text: &str) -> Result<Option<Option<String>>> {
        if let Some(prefix) = self.0.strip_suffix(".*") {
            return Ok(text.starts_with(prefix).then_some(None));
        }
        let suffix = self.0.trim_start_matches("^(.*)").trim_end_matches('$');
        Ok(text.strip_suffix(suffix).map(|head| Some(head.to_string())))
    }
}
impl Patterns for TestPatterns {
    fn compile(&self, text: &str) -> Result<Arc<dyn Pattern>, String> {
        if text == "(" {
            return Err("parentheses () not balanced".into());
        }
        Ok(Arc::new(TestPattern(text.to_string())))
    }
}

/// anna is in staff, the machine is 10.1.2.3/24, 192.0.2.7 is db.Example.org.
pub(crate) struct TestHost;
impl Membership for TestHost {
    fn is_member(&self, role: &str, of: &str) -> Result<bool> {
        Ok((role, of) == ("anna", "staff"))
    }
}
impl RuleHost for TestHost {
    fn own_addresses(&self) -> Vec<(IpAddr, IpAddr)> {
        vec![("10.1.2.3".parse().unwrap(), "255.255.255.0".parse().unwrap())]
    }
    fn verified_name(&self, address: IpAddr) -> Result<Option<String>> {
        Ok((address == IpAddr::from([192, 0, 2, 7])).then(|| "db.Example.org".to_string()))
    }
}

fn load(text: &str, has_tls: bool) -> (Option<HbaRules>, Vec<Error>) {
    let facts = ParseFacts { patterns: &TestPatterns, has_tls };
    HbaRules::load(&files(&[("/d/hba", text)]), Path::new("/d/hba"), &facts)
}

fn error_of(line: &str) -> String {
    let (rules, told) = load(&format!("local all all trust\n{line}"), true);
    assert!(rules.is_none(), "{line}");
    let [told] = &told[..] else { panic!("{line}: {told:?}") };
    assert_eq!(told.0.context.as_deref(), Some("line 2 of configuration file \"/d/hba\""));
    told.message().to_string()
}

#[test]
fn wrong_lines_are_told() {
    for (line, message) in [
        ("lokal all all trust", "invalid connection type \"lokal\""),
        ("local,host all all trust", "multiple values specified for connection type"),
        ("local", "end-of-line before database specification"),
        ("local all", "end-of-line before role specification"),
        ("local all all", "end-of-line before authentication method"),
        ("host all all", "end-of-line before IP address specification"),
        ("host all all 10.0.0.0", "end-of-line before netmask specification"),
        ("host all all 10.0.0.0 ::1 trust", "IP address and mask do not match"),
        ("host all all 10.0.0.0/33 trust", "invalid CIDR mask in address \"10.0.0.0/33\""),
        ("host all all 10.0.0.0/ trust", "invalid CIDR mask in address \"10.0.0.0/\""),
        ("host all all 10.0.0.0,10.0.0.1 trust", "multiple values specified for host address"),
        ("host all all example.org/8 trust", "specifying both host name and CIDR mask is invalid: \"example.org/8\""),
        ("local all all trust,md5", "multiple values specified for authentication type"),
        ("local all all magic", "invalid authentication method \"magic\""),
        ("local all all ldap", "invalid authentication method \"ldap\": not supported by this build"),
        ("local all all cert", "cert authentication is only supported on hostssl connections"),
        ("host all all all peer", "peer authentication is only supported on local sockets"),
        (
            "local all all trust map=x",
            "authentication option \"map\" is only valid for authentication methods ident, peer, gssapi, sspi, cert, and oauth",
        ),
        ("local all all trust x", "authentication option not in name=value format: x"),
        ("local all all trust x=y", "unrecognized authentication option name: \"x\""),
        (
            "local all all trust ldapport=1",
            "authentication option \"ldapport\" is only valid for authentication methods ldap",
        ),
        ("host all all all md5 clientcert=verify-ca", "clientcert can only be configured for \"hostssl\" rows"),
        ("hostssl all all all md5 clientcert=1", "invalid value for clientcert: \"1\""),
        ("local /( all trust", "invalid regular expression \"(\": parentheses () not balanced"),
    ] {
        assert_eq!(error_of(line), message, "{line}");
    }
    assert_eq!(load("# nothing", true).1[0].message(), "configuration file \"/d/hba\" contains no entries");
}

#[test]
fn rules_that_cannot_match_are_told_and_kept() {
    let (rules, told) = load("hostssl all all all trust\nhostgssenc all all all trust", false);
    assert_eq!(rules.unwrap().rules.len(), 2);
    assert_eq!(told[0].message(), "hostssl record cannot match because SSL is disabled");
    assert_eq!(told[1].message(), "hostgssenc record cannot match because GSSAPI is not supported by this build");
}

fn line_of(text: &str, address: Option<&str>, is_encrypted: bool, database: &str, role: &str) -> Option<u32> {
    let (rules, told) = load(text, true);
    let address = address.map(|a| a.parse().unwrap());
    let facts = ConnectionFacts { address, is_encrypted, database, role };
    rules.unwrap_or_else(|| panic!("{told:?}")).find(&facts, &TestHost).unwrap().map(|rule| rule.line)
}

#[test]
fn the_first_rule_that_matches_decides() {
    let text = "local db,\"all\" anna trust\nlocal sameuser all peer\nlocal samerole all trust\nlocal /test.* +staff md5\n\
                local replication all trust\nlocal \"replication\" bob trust\n";
    let local = |database, role| line_of(text, None, false, database, role);
    assert_eq!(local("db", "anna"), Some(1));
    assert_eq!(local("all", "anna"), Some(1));
    assert_eq!(local("bob", "bob"), Some(2));
    assert_eq!(local("staff", "anna"), Some(3));
    assert_eq!(local("testing", "anna"), Some(4));
    assert_eq!(local("testing", "bob"), None);
    assert_eq!(local("replication", "bob"), Some(6));
    assert_eq!(local("other", "anna"), None);
    assert_eq!(line_of(text, Some("127.0.0.1"), false, "db", "anna"), None);
}

#[test]
fn networks_and_encryption() {
    let text = "hostssl all all 10.0.0.0/8 trust\nhostnossl all all 10.0.0.0 255.255.0.0 trust\nhost all all fd00::/8 md5\n\
                host all all samehost reject\nhost all all samenet md5\nhost all \"+staff\" all md5\nhostnogssenc all bob 0.0.0.0/0 md5\n";
    let from = |address, tls, role| line_of(text, Some(address), tls, "db", role);
    assert_eq!(from("10.9.9.9", true, "x"), Some(1));
    assert_eq!(from("10.0.9.9", false, "x"), Some(2));
    assert_eq!(from("10.9.9.9", false, "x"), None);
    assert_eq!(from("fd12::1", false, "x"), Some(3));
    assert_eq!(from("10.1.2.3", false, "x"), Some(4));
    assert_eq!(from("10.1.2.4", false, "x"), Some(5));
    assert_eq!(from("192.168.0.1", false, "bob"), Some(7));
    assert_eq!(from("192.168.0.1", false, "anna"), None);
    assert_eq!(line_of("host all all 127.0.0.0/0 md5", Some("1.2.3.4"), false, "db", "x"), Some(1));
}

#[test]
fn strangers_are_told_from_neighbours() {
    let reaches = |line: &str| load(line, true).0.unwrap().rules[0].reaches_strangers();
    for line in [
        "local all all trust",
        "host all all 127.0.0.1/32 trust",
        "host all all 127.0.0.0/8 trust",
        "host all all ::1/128 trust",
        "host all all samehost trust",
    ] {
        assert!(!reaches(line), "{line}");
    }
    for line in [
        "host all all all trust",
        "host all all 0.0.0.0/0 trust",
        "host all all 127.0.0.1/4 trust",
        "hostssl all all samenet trust",
        "host all all ::/0 trust",
        "host all all 10.0.0.1/32 trust",
    ] {
        assert!(reaches(line), "{line}");
    }
}

#[test]
fn names_of_hosts_are_those_of_addresses() {
    let is_let_in = |host: &str, address: [u8; 4]| {
        let (rules, told) = load(&format!("host all all {host} trust"), true);
        assert!(told.is_empty(), "{told:?}");
        let address = Some(IpAddr::from(address));
        let facts = ConnectionFacts { address, is_encrypted: false, database: "d", role: "anna" };
        rules.unwrap().find(&facts, &TestHost).unwrap().is_some()
    };
    for name in ["db.example.org", "DB.EXAMPLE.ORG", ".example.org", ".org"] {
        assert!(is_let_in(name, [192, 0, 2, 7]), "{name}");
        assert!(!is_let_in(name, [192, 0, 2, 8]), "{name}");
    }
    for name in ["example.org", "b.example.org", ".db.example.org", "db.example.com"] {
        assert!(!is_let_in(name, [192, 0, 2, 7]), "{name}");
    }
}
