//! The standing of a command, and what follows from it: one row of properties for each standing, in
//! place of conditions in each file.

/// On whose behalf a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A client's request.
    Client,
    /// A command that MULTI has queued, executed by EXEC.
    Queued,
    /// A command that a script calls.
    Script,
    /// A command of an append-only file that is loaded.
    Replay,
}

/// Properties of the commands of a standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StandingRow {
    /// The command may wait, for example for a key, for replicas, or for a thread that produces its reply.
    pub may_wait: bool,
    /// The gate may postpone or queue the command.
    pub may_be_postponed: bool,
    /// The bytes of the request count for the client, and CLIENT LIST shows the command as the last one.
    /// Otherwise the bytes were counted for the enclosing request, or when the command was queued; those of a
    /// replayed command are not counted.
    pub counts_request: bool,
    /// CLIENT REPLY applies to this reply. Otherwise it applies to the reply of the enclosing request.
    pub ends_reply: bool,
    /// MONITOR shows the command.
    pub is_monitored: bool,
}

impl Standing {
    /// All standings, in the order of the table that a test prints.
    #[cfg(test)]
    pub(crate) const ALL: [Standing; 4] =
        [Standing::Client, Standing::Queued, Standing::Script, Standing::Replay];

    /// The properties of this standing.
    #[inline(always)]
    pub(crate) const fn row(self) -> StandingRow {
        match self {
            Standing::Client => StandingRow {
                may_wait: true,
                may_be_postponed: true,
                counts_request: true,
                ends_reply: true,
                is_monitored: true,
            },
            Standing::Queued | Standing::Script => StandingRow {
                may_wait: false,
                may_be_postponed: false,
                counts_request: false,
                ends_reply: false,
                is_monitored: true,
            },
            Standing::Replay => StandingRow {
                may_wait: false,
                may_be_postponed: false,
                counts_request: false,
                ends_reply: false,
                is_monitored: false,
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
            ];
            let words: Vec<&str> = cells.iter().filter(|(_, holds)| *holds).map(|(word, _)| *word).collect();
            table += &format!("{standing:?}: {}\n", words.join(", "));
        }
        assert_eq!(
            table,
            "Client: waits, postponed, counts, ends reply, monitored\n\
             Queued: monitored\n\
             Script: monitored\n\
             Replay: \n"
        );
    }
}
