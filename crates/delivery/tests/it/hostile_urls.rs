//! URLs that must not be called (X34, X35, X38): refused when they are registered and when they are sent, and nothing is
//! dialled.

use delivery::{Egress, SendOutcome, Target, URL_MAX};
use proptest::prelude::*;

use crate::support::{ScriptedResolver, attempt};

/// Literal addresses that are not public, in their plain form.
const ADDRESSES: &[&str] = &[
    "0.0.0.0",
    "0.0.0.1",
    "0.255.255.255",
    "10.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.0",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.0.0.53",
    "127.127.127.127",
    "127.255.255.255",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.255.255",
    "172.16.0.1",
    "172.17.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.0.192",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.1.254",
    "192.168.255.255",
    "192.175.48.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[::2]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[::ffff:0:127.0.0.1]",
    "[::ffff:0:7f00:1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::169.254.169.254]",
    "[::10.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::1]",
    "[64:ff9b:1:ffff::a9fe:a9fe]",
    "[100::1]",
    "[100:0:0:1::1]",
    "[2001::1]",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    "[2001:0:7f00:1::1]",
    "[2001:2::1]",
    "[2001:10::1]",
    "[2001:20::1]",
    "[2001:db8::1]",
    "[2001:db8:ffff::1]",
    "[2002::1]",
    "[2002:7f00:1::1]",
    "[2002:a00:1::1]",
    "[2002:a9fe:a9fe::1]",
    "[2620:4f:8000::1]",
    "[3fff::1]",
    "[3fff:fff::1]",
    "[2606:4700::200:5efe:7f00:1]",
    "[2606:4700::5efe:a9fe:a9fe]",
    "[4000::1]",
    "[5f00::1]",
    "[8000::1]",
    "[a000::1]",
    "[c000::1]",
    "[e000::1]",
    "[f000::1]",
    "[f800::1]",
    "[fc00::1]",
    "[fd00::1]",
    "[fd00:ec2::254]",
    "[fd12:3456:789a:1::1]",
    "[fdff:ffff::1]",
    "[fe00::1]",
    "[fe80::1]",
    "[fe80::a9fe:a9fe]",
    "[febf::1]",
    "[fec0::1]",
    "[feff::1]",
    "[ff00::1]",
    "[ff01::1]",
    "[ff02::1]",
    "[ff05::2]",
    "[ff0e::1]",
    "[ffff::1]",
];

/// The same addresses in spellings that parsers turn into numbers.
const SPELLINGS: &[&str] = &[
    "2130706433",
    "0x7f000001",
    "0X7F000001",
    "017700000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "0177.1",
    "127.1",
    "127.0.1",
    "0",
    "0x0",
    "00",
    "0.0",
    "1",
    "10.1",
    "012.1",
    "0xa.1",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe",
    "169.16689662",
    "169.254.43518",
    "3232235521",
    "0xc0a80001",
    "192.168.1",
    "192.11010049",
    "4294967295",
    "0xffffffff",
    "127.0.0.1.",
    "10.0.0.1.",
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "0x7f.0x0.0x0.0x1",
    "[0000:0000:0000:0000:0000:ffff:7f00:0001]",
    "[::FFFF:127.0.0.1]",
    "[0:0:0:0:0:FFFF:A9FE:A9FE]",
];

/// Names that mean something inside, or nothing.
const NAMES: &[&str] = &[
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "a.b.localhost.",
    "printer.local",
    "db.internal",
    "metadata.google.internal",
    "internal.metadata.google.internal",
    "local.evil.local",
    "localhost.a.localhost",
    "test.a.test.",
    "instance-data",
    "metadata",
    "kubernetes",
    "postgres",
    "redis",
    "router",
    "intranet",
    "nas.home.arpa",
    "host.localdomain",
    "wiki.intranet",
    "x.onion",
    "x.lan",
    "kubernetes.default.svc",
    "nas.home",
    "wiki.corp",
    "db.private",
    "%6c%6fcalhost",
    "a..b.example.com",
    ".example.com",
    "exa mple.com",
    "exa%20mple.com",
    "exam!ple.com",
    "example.com%00.evil.com",
    "-",
];

/// Whole URLs with other schemes, users, ports, and what readers disagree about.
const URLS: &[&str] = &[
    "",
    " ",
    "https:",
    "https:/",
    "https://",
    "https:///",
    "//example.com/",
    "/etc/passwd",
    "example.com",
    "http://example.com/",
    "http://example.com:443/",
    "HTTP://example.com/",
    "ftp://example.com/",
    "ftps://example.com/",
    "file:///etc/passwd",
    "file://example.com/etc/passwd",
    "gopher://example.com:70/_x",
    "dict://example.com:11211/stat",
    "ldap://example.com/",
    "ldaps://example.com/",
    "jar:https://example.com!/",
    "data:text/plain,x",
    "javascript:alert(1)",
    "ws://example.com/",
    "wss://example.com/",
    "unix:/var/run/docker.sock",
    "netdoc:///etc/passwd",
    "about:blank",
    "blob:https://example.com/x",
    "https+unix://x/",
    "https:example.com",
    "https:/example.com",
    "https:///example.com",
    "https:////example.com",
    "https:\\\\example.com",
    "https://example.com\\@127.0.0.1/",
    "https:\\/example.com/",
    "https://user@example.com/",
    "https://user:pass@example.com/",
    "https://:pass@example.com/",
    "https://@example.com/",
    "https://example.com@127.0.0.1/",
    "https://127.0.0.1@example.com/",
    "https://example.com:443@127.0.0.1/",
    "https://a%40b@example.com/",
    "https://example.com/#x",
    "https://example.com#@127.0.0.1/",
    "https://example.com/#",
    "https://example.com:0/",
    "https://example.com:1/",
    "https://example.com:22/",
    "https://example.com:25/",
    "https://example.com:80/",
    "https://example.com:110/",
    "https://example.com:2375/",
    "https://example.com:3306/",
    "https://example.com:5432/",
    "https://example.com:6379/",
    "https://example.com:7400/",
    "https://example.com:9200/",
    "https://example.com:11211/",
    "https://example.com:27017/",
    "https://example.com:65535/",
    "https://example.com:65536/",
    "https://example.com:-1/",
    "https://example.com:443x/",
    "https://example.com:4 43/",
    "https://exa\tmple.com/",
    "https://exa\nmple.com/",
    "https://example.com/\r\nHost: x",
    "ht\ttps://example.com/",
    " https://example.com/",
    "https://example.com/ ",
    "https://example.com/a b",
    "\u{0}https://example.com/",
    "https://example.com/\u{0}",
    "https://ex\u{e4}mple.com/",
    "https://example\u{3002}com/",
    "https://\u{ff11}\u{ff12}\u{ff17}.0.0.1/",
    "https://\u{2460}\u{2461}\u{2466}.0.0.1/",
    "https://127\u{3002}0\u{3002}0\u{3002}1/",
    "https://loc\u{ad}alhost/",
    "https://\u{202e}moc.elpmaxe/",
    "https://example.com/\u{fe0f}",
    "https://[::1%25eth0]/",
    "https://[fe80::1%25lo]/",
    "https://[::1/",
    "https://::1/",
    "https://[::1]x/",
    "https://[127.0.0.1]/",
    "https://[[::1]]/",
    "https://1.2.3.4.5/",
    "https://256.256.256.256/",
    "https://0x100000000/",
    "https://99999999999/",
    "https://[1::2::3]/",
];

fn all() -> Vec<String> {
    let hosts = ADDRESSES.iter().chain(SPELLINGS).chain(NAMES);
    let mut urls: Vec<String> = hosts.clone().map(|host| format!("https://{host}/hook")).collect();
    urls.extend(ADDRESSES.iter().map(|host| format!("http://{host}:8443/latest/meta-data")));
    urls.extend(URLS.iter().map(|url| (*url).to_owned()));
    urls.push(format!("https://example.com/{}", "x".repeat(URL_MAX)));
    urls.push(format!("https://{}.com/", "x".repeat(64)));
    urls.push(format!("https://{}com/", "x.".repeat(130)));
    urls
}

#[tokio::test]
async fn hostile_urls_are_refused_and_nothing_is_dialled() {
    let urls = all();
    assert!(urls.len() >= 150, "only {} cases", urls.len());
    for url in urls {
        assert!(Target::parse(&url, &Egress::default()).is_err(), "registered: {url:?}");
        // A resolver that would answer every name with a public address must not help.
        let name = url.trim_start_matches("https://").split(['/', ':']).next().unwrap_or_default();
        let resolver = ScriptedResolver::answering(name, &[&["93.184.216.34"]]);
        let tried = attempt(&url, Egress::default(), resolver).await;
        assert!(matches!(tried.outcome, SendOutcome::Refused(_)), "{url:?}: {:?}", tried.outcome);
        assert!(tried.dialled.is_empty(), "{url:?} dialled {:?}", tried.dialled);
    }
}

#[test]
fn ordinary_receivers_are_accepted() {
    for url in [
        "https://example.com",
        "https://example.com/hook?x=1&y=%20",
        "https://hooks.example.co.uk:8443/a/b",
        "https://xn--exmple-cua.com/",
        "https://93.184.216.34/",
        "https://[2606:4700::1111]/",
        "https://EXAMPLE.com/",
        "https://localhost.example.com/",
        "https://internal.example.com/",
        "https://[64:ff9b::5db8:d822]/",
    ] {
        assert!(Target::parse(url, &Egress::default()).is_ok(), "{url}");
    }
}

proptest! {
    /// Whatever is accepted and has a literal address has a public one, and is https on an allowed port.
    #[test]
    fn what_is_accepted_is_public(text in "https?://[0-9a-fx.:\\[\\]@/]{1,40}") {
        if let Ok(target) = Target::parse(&text, &Egress::default()) {
            let url = url::Url::parse(target.as_str()).unwrap();
            prop_assert_eq!(url.scheme(), "https");
            match url.host() {
                Some(url::Host::Ipv4(it)) => prop_assert!(delivery::is_public(it.into())),
                Some(url::Host::Ipv6(it)) => prop_assert!(delivery::is_public(it.into())),
                _ => {}
            }
        }
    }
}
