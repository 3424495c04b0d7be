use super::*;
use crate::testing::name;

#[test]
fn names_are_found_in_a_hosts_file() {
    let hosts = "127.0.0.1 localhost loop # first.test\n\
                 # 10.0.0.9 first.test\n\
                 10.0.0.1\tOther.test First.Test\r\n\
                 ::1 localhost\n\
                 nonsense first.test\n\
                 fe80::1%lo first.test\n\
                 10.0.0.2 first.test.\n\
                 10.0.0.3 first.test";
    let found = |text: &str| {
        let found = listed_in(hosts, &name(text));
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(found("first.test"), ["10.0.0.1", "10.0.0.3"]);
    assert_eq!(found("localhost"), ["127.0.0.1", "::1"]);
    assert_eq!(found("st.test"), [""; 0]);
}

#[tokio::test]
async fn an_address_of_this_host_is_known_as_one() {
    for (address, own) in
        [("127.0.0.1:9", true), ("127.0.0.2:9", true), ("240.0.0.9:9", false), ("1.1.1.1:9", false)]
    {
        assert_eq!(is_of_this_host(address.parse().unwrap()).await.unwrap(), own, "{address}");
    }
}
