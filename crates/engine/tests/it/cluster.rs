//! Behaviour of the commands of a cluster that every server answers.

use sluice_testkit::Rig;

#[test]
fn the_wish_to_read_from_replicas_is_shown_until_it_is_taken_back() {
    let mut rig = Rig::new();
    let shown = |rig: &mut Rig| rig.run("CLIENT INFO").contains(" flags=r ");
    assert!(!shown(&mut rig));
    for (wish, other) in [("READONLY", "READWRITE"), ("READONLY", "RESET")] {
        rig.check(wish, "+OK");
        assert!(shown(&mut rig));
        rig.run(other);
        assert!(!shown(&mut rig), "{other}");
    }
    rig.check("READONLY x", "-ERR wrong number of arguments for 'readonly' command");
    rig.check("READWRITE x", "-ERR wrong number of arguments for 'readwrite' command");
}
