//! The values of all parameters, and typed reads of them.

use std::borrow::Cow;

use crate::choice;
use crate::endpoints::EndpointRule;
use crate::error::{BadLine, LoadError, Location, Rename};
use crate::row::kind::{Bool, Choice, Flags, Int, List, Text};
use crate::row::{Honoured, Id, ParamId, Traits};
use crate::table::{PARAMS, param};
use crate::user_line::{OutsideUser, UserLine};
use crate::value::{BufferLimit, ClientClass, Onto, ParamValue, SavePoint};

/// One value for each parameter, and the directives that are no parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// One value for each row of [`PARAMS`], in its order.
    pub(crate) values: Box<[ParamValue]>,
    /// `rename-command` directives, in the order given.
    pub(crate) renames: Vec<Rename>,
    /// `user` and `role` lines, in the order given, until [`Config::take_user_lines`] removes them.
    pub(crate) user_lines: Vec<UserLine>,
    /// Users that are defined outside of the config file itself.
    pub(crate) outside_users: Vec<OutsideUser>,
    pub(crate) locations: Locations,
}

/// Lines that set parameters, in the order read, so that errors that only the process can find (a port that
/// is taken, for example) can name the line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locations(pub(crate) Vec<(ParamId, Location)>);

/// Always equal: two configurations with equal values are equal wherever the values were set.
impl PartialEq for Locations {
    fn eq(&self, _: &Locations) -> bool {
        true
    }
}

impl Default for Config {
    fn default() -> Config {
        let values = PARAMS.iter().map(|param| param.kind.default_value()).collect();
        Config {
            values,
            renames: Vec::new(),
            user_lines: Vec::new(),
            outside_users: Vec::new(),
            locations: Locations::default(),
        }
    }
}

impl Config {
    /// The value of a parameter of any type.
    #[inline]
    pub fn value(&self, id: impl Into<ParamId>) -> &ParamValue {
        &self.values[usize::from(id.into().0)]
    }

    /// Whether a `yes`/`no` parameter is `yes`.
    #[inline]
    pub fn bool(&self, id: Id<Bool>) -> bool {
        matches!(self.value(id), ParamValue::Bool(true))
    }

    /// A number. A value above `i64::MAX`, which only some rows of the table allow, reads as `i64::MAX`; a
    /// percentage `n%` reads as -n.
    #[inline]
    pub fn int(&self, id: Id<Int>) -> i64 {
        let ParamValue::Int(value) = self.value(id) else {
            unreachable!("invariant 2: an Int holds a number")
        };
        i64::try_from(*value).unwrap_or(i64::MAX)
    }

    /// A number that is not negative; 0 where the value is negative.
    #[inline]
    pub fn uint(&self, id: Id<Int>) -> u64 {
        let ParamValue::Int(value) = self.value(id) else {
            unreachable!("invariant 2: an Int holds a number")
        };
        u64::try_from(*value).unwrap_or(0)
    }

    /// The bytes of a text; empty when it is not set.
    pub fn bytes(&self, id: Id<Text>) -> &[u8] {
        self.text(id).unwrap_or_default()
    }

    /// The bytes of a text, `None` when it is not set.
    pub fn text(&self, id: Id<Text>) -> Option<&[u8]> {
        let ParamValue::Text(text) = self.value(id) else { unreachable!("invariant 2: a Text holds bytes") };
        text.as_deref()
    }

    /// A text as characters, with replacements where it is not UTF-8; empty when it is not set.
    pub fn str(&self, id: Id<Text>) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(id))
    }

    /// One of several named values.
    #[inline]
    pub fn choice<T: choice::Choice>(&self, id: Id<Choice<T>>) -> T {
        let ParamValue::Choice(number) = self.value(id) else {
            unreachable!("invariant 2: a Choice holds a number")
        };
        T::from_number(*number)
    }

    /// The bits of a flags parameter; their names are in its row.
    pub fn flags(&self, id: Id<Flags>) -> u32 {
        let ParamValue::Flags(bits) = self.value(id) else { unreachable!("invariant 2: Flags hold bits") };
        *bits
    }

    /// The addresses of a list parameter, in the order given.
    pub fn list(&self, id: Id<List>) -> &[Box<[u8]>] {
        let ParamValue::List(items) = self.value(id) else { unreachable!("invariant 2: a List holds items") };
        items
    }

    /// Conditions for a snapshot; with an empty list no snapshot is taken automatically.
    pub fn save_points(&self) -> &[SavePoint] {
        let ParamValue::Save(points) = self.value(param::SAVE) else {
            unreachable!("invariant 2: the kind of save")
        };
        points
    }

    /// Limits of the output buffer of a client of this class.
    pub fn buffer_limit(&self, class: ClientClass) -> BufferLimit {
        let ParamValue::BufferLimits(limits) = self.value(param::CLIENT_OUTPUT_BUFFER_LIMIT) else {
            unreachable!("invariant 2: the kind of client-output-buffer-limit")
        };
        limits[class as usize]
    }

    /// Scores for primary, replica and background process.
    pub fn oom_score_adj_values(&self) -> [i32; 3] {
        let ParamValue::OomValues(values) = self.value(param::OOM_SCORE_ADJ_VALUES) else {
            unreachable!("invariant 2: the kind of oom-score-adj-values")
        };
        *values
    }

    /// The event classes to publish, as bits of [`crate::notify`].
    pub fn notify_keyspace_events(&self) -> u32 {
        let ParamValue::NotifyEvents(bits) = self.value(param::NOTIFY_KEYSPACE_EVENTS) else {
            unreachable!("invariant 2: the kind of notify-keyspace-events")
        };
        *bits
    }

    /// Host and port of the primary, if this server shall be a replica.
    pub fn replica_of(&self) -> Option<(&[u8], u16)> {
        let ParamValue::ReplicaOf(primary) = self.value(param::REPLICAOF) else {
            unreachable!("invariant 2: the kind of replicaof")
        };
        primary.as_ref().map(|(host, port)| (&**host, *port))
    }

    /// The rules of `announce-endpoint-for`, in the order given.
    pub fn endpoint_rules(&self) -> &[EndpointRule] {
        let ParamValue::EndpointRules(rules) = self.value(param::ANNOUNCE_ENDPOINT_FOR) else {
            unreachable!("invariant 2: the kind of announce-endpoint-for")
        };
        rules
    }

    /// The percentiles that INFO latencystats shows, in the order given.
    pub fn latency_percentiles(&self) -> &[f64] {
        let ParamValue::Percentiles(values) = self.value(param::LATENCY_TRACKING_INFO_PERCENTILES) else {
            unreachable!("invariant 2: the kind of latency-tracking-info-percentiles")
        };
        values
    }

    /// `rename-command` directives, in the order given. The caller checks whether the commands exist.
    pub fn renames(&self) -> &[Rename] {
        &self.renames
    }

    /// The text that CONFIG GET shows for a parameter.
    pub fn shown(&self, id: impl Into<ParamId>) -> Vec<u8> {
        let id = id.into();
        if id.param().traits.has(Traits::CONCEALED) && self.is_changed(id) {
            return b"(redacted)".to_vec();
        }
        id.param().kind.text(self.value(id))
    }

    /// Sets a parameter on the server's own behalf, whatever its [`Traits`] allow to clients, for example the
    /// working directory as the kernel names it, or the primary after REPLICAOF. The error is the reason.
    pub fn assign(&mut self, id: impl Into<ParamId>, words: &[&[u8]]) -> Result<(), String> {
        let id = id.into();
        let value = id.param().parse(words, self.value(id), Onto::Replace).map_err(String::from)?;
        self.values[usize::from(id.0)] = value;
        Ok(())
    }

    /// The parameters whose values are not their defaults, in table order.
    pub fn changed(&self) -> impl Iterator<Item = ParamId> + '_ {
        ParamId::all().filter(|id| self.is_changed(*id))
    }

    pub(crate) fn is_changed(&self, id: ParamId) -> bool {
        *self.value(id) != id.param().kind.default_value()
    }

    /// The changed parameters that have no effect, each with a sentence for the log, in which the
    /// parameter has the name that the file uses.
    pub fn without_effect(&self) -> impl Iterator<Item = (ParamId, String)> + '_ {
        self.changed().filter_map(|id| Some((id, self.no_effect(id, &self.name_in_file(id))?)))
    }

    /// The sentence that this parameter's value has no effect; `None` if the value has an effect or is the
    /// default.
    pub fn no_effect_of(&self, id: ParamId) -> Option<String> {
        self.no_effect(id, id.param().name)
    }

    fn no_effect(&self, id: ParamId, name: &str) -> Option<String> {
        let asks = self.is_changed(id);
        match id.param().honoured {
            Honoured::NotYet(feature) if asks => {
                Some(format!("'{name}' is set but has no effect yet: it waits for {feature}"))
            }
            Honoured::Ignored(why) if asks => Some(format!("'{name}' is set but has no effect: {why}")),
            Honoured::Yes | Honoured::NotYet(_) | Honoured::Ignored(_) => None,
        }
    }

    /// The name, which may be an alias, by which the last line of a file has set a parameter; the
    /// parameter's own name where no line did.
    fn name_in_file(&self, id: ParamId) -> String {
        let own = id.param().name;
        let Some(location) = self.location_of(id) else { return own.to_owned() };
        let word = location.text.split_ascii_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        if ParamId::find(word.as_bytes()) == Some(id) { word } else { own.to_owned() }
    }

    /// The last line that has set a parameter; `None` where no line did.
    fn location_of(&self, id: ParamId) -> Option<&Location> {
        self.locations.0.iter().rfind(|(of, _)| *of == id).map(|(_, location)| location)
    }

    /// The error that a parameter could not be applied, with the last line that set it, if there is one.
    pub fn cannot_apply(&self, id: impl Into<ParamId>, reason: &str) -> LoadError {
        let id = id.into();
        let location = self.location_of(id).cloned().unwrap_or_default();
        LoadError::Line(BadLine { location, reason: reason.to_owned() })
    }
}
