//! Credentials of inspected hosts in the egress rooms of the service, with all that the rooms' unit takes
//! away.

use palisade_tests::{Booted, Mode, named_profile, text};

/// Asks a host that has a rule with a credential, and that no name server knows.
const ASK: &str = "--profile web -- curl -sS https://api.test/";

const MISSING: &str = "credential \"api\" can not be used: the egress room does not have it; add \
                       LoadCredential=api:FILE to palisade-egress@.service";

/// Gives the rooms a directory in the place of `LoadCredential=`, which makes one without files for every
/// service of a systemd that is booted in namespaces.
const DROP_IN: &str = "drop_in=/etc/systemd/system/palisade-egress@.service.d
install -d -m 500 -o palisade-egress /etc/room-credentials
mkdir -p $drop_in
printf '[Service]\\nEnvironment=CREDENTIALS_DIRECTORY=/etc/room-credentials\\n' >$drop_in/test.conf
systemctl daemon-reload";

#[test]
fn rooms_of_the_service_have_credentials_of_their_own() {
    // An ordinary user boots no systemd; `credentials` of `tools` has a service manager for both.
    if !Mode::all().contains(&Mode::System) {
        return;
    }
    let booted = Booted::with_service();
    let net = "mode = \"domains\"\n[[net.rule]]\nhost = \"api.test\"\ncredential = \"api\"\n";
    let profile = named_profile(net);
    let add = format!(
        "mkdir -p /etc/palisade/profiles; cat > /etc/palisade/profiles/web.toml <<'E'\n{profile}\nE\n\
         systemctl restart palisaded.service"
    );
    booted.ok(&["bash", "-euc", &add]);
    let asked = || {
        let output = booted.through("alice", ASK);
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    };
    let told = asked();
    assert!(told.contains(MISSING), "{told}");
    booted.ok(&["bash", "-euc", DROP_IN]);
    let write = |line: &str| {
        let path = "/etc/room-credentials/api";
        let line = format!("echo '{line}' >{path}; chown palisade-egress {path}; chmod 400 {path}");
        booted.ok(&["bash", "-euc", &line]);
    };
    write("nonsense-0123456789");
    // The room has read the file, and tells nothing of it.
    let told = asked();
    assert!(told.contains("credential \"api\" can not be used: its file is invalid: "), "{told}");
    assert!(!told.contains("nonsense"), "{told}");
    write("bearer s3cret-0123456789");
    let told = asked();
    assert!(told.contains("api.test") && !told.contains("can not be used"), "{told}");
    let logged = booted.ok(&["journalctl", "--no-pager", "--output=cat"]);
    assert!(!logged.contains("s3cret") && !logged.contains("nonsense"), "{logged}");
}
