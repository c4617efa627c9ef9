//! Whose command runs, and what follows from that: a row of properties for each standing, in place of
//! questions in each file.

/// In whose name a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A client's request, executed for itself.
    Client,
    /// A command that MULTI has queued, executed by EXEC.
    Queued,
    /// A command that a script calls.
    Script,
    /// A command of an append-only file that is loaded.
    Replay,
}

/// What holds for commands of a standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StandingRow {
    /// The command may wait: for a key, for replicas, for the end of a save, for a thread that produces its
    /// reply.
    pub may_wait: bool,
    /// The gate may postpone or queue the command.
    pub may_be_postponed: bool,
    /// The bytes of the request count for the client, and the command is what CLIENT LIST shows as the last
    /// one. Otherwise the request around it, or the queueing, has counted.
    pub counts_request: bool,
    /// CLIENT REPLY applies to this reply. Otherwise it applies to the reply of the request around it.
    pub ends_reply: bool,
    /// MONITOR shows the command.
    pub is_monitored: bool,
    /// The gate asks its checks. What MULTI has queued was asked when it was queued, and EXEC with the flags
    /// of all that is queued; a log was decided on before it was written.
    pub is_checked: bool,
}

impl Standing {
    /// All of them, in the order of the table that a test prints.
    #[cfg(test)]
    pub(crate) const ALL: [Standing; 4] =
        [Standing::Client, Standing::Queued, Standing::Script, Standing::Replay];

    /// What holds for commands of this standing.
    #[inline(always)]
    pub(crate) const fn row(self) -> StandingRow {
        match self {
            Standing::Client => StandingRow {
                may_wait: true,
                may_be_postponed: true,
                counts_request: true,
                ends_reply: true,
                is_monitored: true,
                is_checked: true,
            },
            // What a script calls is asked in another way: `Gate::pass_called`. For a queue EXEC asks about
            // rights alone.
            Standing::Queued | Standing::Script => StandingRow {
                may_wait: false,
                may_be_postponed: false,
                counts_request: false,
                ends_reply: false,
                is_monitored: true,
                is_checked: false,
            },
            Standing::Replay => StandingRow {
                may_wait: false,
                may_be_postponed: false,
                counts_request: false,
                ends_reply: false,
                is_monitored: false,
                is_checked: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_these() {
        let mut table = String::new();
        for standing in Standing::ALL {
            let row = standing.row();
            let cells = [
                ("waits", row.may_wait),
                ("postponed", row.may_be_postponed),
                ("counts", row.counts_request),
                ("ends reply", row.ends_reply),
                ("monitored", row.is_monitored),
                ("checked", row.is_checked),
            ];
            let words: Vec<&str> = cells.iter().filter(|(_, holds)| *holds).map(|(word, _)| *word).collect();
            table += &format!("{standing:?}: {}\n", words.join(", "));
        }
        assert_eq!(
            table,
            "Client: waits, postponed, counts, ends reply, monitored, checked\n\
             Queued: monitored\n\
             Script: monitored\n\
             Replay: \n"
        );
    }

    #[test]
    fn a_command_that_may_not_be_postponed_is_not_asked_what_postpones() {
        for standing in Standing::ALL {
            let row = standing.row();
            assert!(row.may_be_postponed || !row.is_checked, "{standing:?}");
        }
    }
}
