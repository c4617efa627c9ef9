//! A replica's link without a socket: a test says what the primary answers.

use crate::Rig;
use sluice_replication::{Input, LinkOutput, Primary, ReplicaLink};

/// A link of the rig's engine whose last word to its primary was PSYNC.
pub struct RigLink {
    link: ReplicaLink,
    /// The number of the attempt, which inputs name.
    pub attempt: u64,
}

impl RigLink {
    /// The link of a server that follows the primary which the engine has.
    #[track_caller]
    pub fn following(rig: &mut Rig) -> RigLink {
        let primary = rig.engine.primary().cloned();
        RigLink::asking(rig, vec![Input::Follow(primary), Input::Tick])
    }

    /// The link of a server that hands its role over to the one that the engine follows from then on.
    #[track_caller]
    pub fn handing_over(rig: &mut Rig, target: Primary) -> RigLink {
        RigLink::asking(rig, vec![Input::HandOver(target)])
    }

    /// Connects and answers what the link says until it has sent PSYNC.
    #[track_caller]
    fn asking(rig: &mut Rig, begin: Vec<Input<'_>>) -> RigLink {
        let mut link = RigLink { link: ReplicaLink::new(1), attempt: 0 };
        let outputs: Vec<LinkOutput> = begin.into_iter().flat_map(|input| link.step(rig, input)).collect();
        let connects = outputs.iter().find_map(|output| match output {
            LinkOutput::Connect(attempt, _) => Some(*attempt),
            _ => None,
        });
        link.attempt = connects.unwrap_or_else(|| panic!("no connection is asked for: {outputs:?}"));
        link.step(rig, Input::Opened(link.attempt));
        let mut outputs = link.receive(rig, b"+PONG\r\n");
        for _ in 0..WORDS_MAX {
            if outputs.iter().any(is_psync) {
                return link;
            }
            outputs = link.receive(rig, b"+OK\r\n");
        }
        panic!("PSYNC is not sent: {outputs:?}");
    }

    /// Takes a step; what the link wants done.
    pub fn step(&mut self, rig: &mut Rig, input: Input<'_>) -> Vec<LinkOutput> {
        rig.engine.step_link(&mut self.link, input, (0, "9.1.0"), &mut rig.process)
    }

    /// The primary answers.
    pub fn receive(&mut self, rig: &mut Rig, answer: &[u8]) -> Vec<LinkOutput> {
        self.step(rig, Input::Received(self.attempt, answer))
    }
}

fn is_psync(output: &LinkOutput) -> bool {
    matches!(output, LinkOutput::Send(bytes) if bytes.windows(5).any(|five| five == b"PSYNC"))
}

/// Answers to what a link says between PING and PSYNC: fewer are needed.
const WORDS_MAX: usize = 10;
