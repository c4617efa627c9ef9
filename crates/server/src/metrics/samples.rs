//! The samples that the endpoint's thread keeps: the last one with the texts made of it, and the points
//! of the last quarter of an hour for the page's charts.
//!
//! Invariants: (1) for requests, a sample is requested at most once a second, however many requests arrive,
//! and not again before the main thread has answered; for the history, a sample is requested once in five
//! seconds. A sample for the history serves only the requests that were waiting when it arrived, so that a
//! scrape gets a sample from before the scrape only if another scrape has requested that sample; (2) each
//! sample is formatted at most once as text of each format, and at most once as JSON for each result of
//! checking credentials; slot sizes are formatted for each request; (3) a history has at most
//! [`POINTS_MAX`] points.

use super::http::{HttpRequest, Resource};
use sluice_base::Now;
use sluice_numbers::info::sample::MetricsSample;
use sluice_numbers::info::text::{MetricsFormat, slot_sizes_text};
use sluice_numbers::page::details::{BasicCredentials, JUDGED_MAX, JudgedCredentials, PageAsk, PageDetails};
use sluice_numbers::page::history::{ChartPoint, HistoryTotals, history_json};
use sluice_numbers::page::json::PageJson;
use std::collections::VecDeque;

const SECOND_NS: u64 = 1_000_000_000;
/// A sample that is younger than this answers a request at once.
pub(super) const SAMPLE_NS_MAX: u64 = SECOND_NS;
/// Time between two points of the history.
pub(super) const POINT_NS: u64 = 5 * SECOND_NS;
/// Maximum number of points in the history, which is enough for a quarter of an hour.
pub(super) const POINTS_MAX: usize = 180;
/// For this time after the page has requested its data, each sample includes the page's data.
const LOOK_NS: u64 = 10 * SECOND_NS;

/// The last sample and the history of the endpoint's thread.
#[derive(Default)]
pub(super) struct Samples {
    pub last: Option<KeptSample>,
    asked: AwaitedSample,
    /// Whether the last sample was made for the history.
    is_for_history: bool,
    pub count: u64,
    pub history: HistoryPoints,
    /// The time until which the page counts as being shown in a browser.
    page_until_ns: u64,
}

/// The sample that was requested from the main thread.
#[derive(Default)]
enum AwaitedSample {
    #[default]
    Nothing,
    /// A sample for the history.
    ForHistory,
    /// A sample for requests, with the data that the page needs.
    ForRequests(PageAsk),
}

/// A sample, and the texts made of it.
pub(super) struct KeptSample {
    pub sample: Box<MetricsSample>,
    pub at_ns: u64,
    unix_ms: i64,
    details: Option<Box<PageDetails>>,
    /// The credentials for which `details` has results, in the same order.
    credentials: Vec<BasicCredentials>,
    looks_at_keys: bool,
    /// Whether slot sizes were requested with the sample.
    looks_at_slots: bool,
    /// Whether the page's data were requested with the sample.
    looks_at_page: bool,
    /// Whether the sample was made for the history, and the requests that were waiting when it arrived are
    /// answered. Later requests are answered with this sample only if no other sample arrives in time.
    is_for_history: bool,
    texts: [Option<String>; 2],
    /// The page's data as JSON, by the result of checking the credentials.
    json: Vec<(Option<JudgedCredentials>, String)>,
}

/// The points of the history, oldest first.
#[derive(Default)]
pub(super) struct HistoryPoints {
    points: VecDeque<ChartPoint>,
    totals: Option<HistoryTotals>,
    due_ns: u64,
    next_id: u64,
    /// When the thread began, ms since the epoch. This time identifies the history to which a point's number
    /// belongs.
    begun_ms: i64,
}

impl Samples {
    /// Whether a waiting request can be answered at `now_ns`, with the last sample or without a sample.
    pub fn serves(&self, request: &HttpRequest, now_ns: u64) -> bool {
        match request.resource {
            Some(Resource::Page | Resource::PageHistory { .. }) | None => true,
            Some(Resource::Metrics | Resource::Health) => self.young(now_ns).is_some(),
            Some(Resource::SlotMetrics) => self.young(now_ns).is_some_and(|last| last.looks_at_slots),
            Some(Resource::PageData { looks_at_keys }) => self.young(now_ns).is_some_and(|last| {
                last.looks_at_page
                    && (last.looks_at_keys || !looks_at_keys)
                    && request.credentials.as_ref().is_none_or(|shown| last.judged(shown).is_some())
            }),
        }
    }

    /// The last sample if it is recent enough for a new request, and is not marked as a sample for the
    /// history.
    pub fn young(&self, now_ns: u64) -> Option<&KeptSample> {
        let is_young = |last: &&KeptSample| now_ns.saturating_sub(last.at_ns) < SAMPLE_NS_MAX;
        self.last.as_ref().filter(is_young).filter(|last| !last.is_for_history)
    }

    /// When the next sample is to be requested; `None` while a requested sample has not arrived.
    /// `is_waited_for`: whether a request is waiting.
    pub fn due_ns(&self, is_waited_for: bool) -> Option<u64> {
        if !matches!(self.asked, AwaitedSample::Nothing) {
            return None;
        }
        let last = self.last.as_ref().filter(|last| !last.is_for_history);
        let again_ns = last.map_or(0, |last| last.at_ns + SAMPLE_NS_MAX);
        Some(if is_waited_for { again_ns } else { self.history.due_ns.max(again_ns) })
    }

    /// Records that a sample is requested. Returns the further data that the `waiting` requests and the page
    /// need with the sample; `None` if they need none.
    pub fn ask<'r>(
        &mut self,
        waiting: impl Iterator<Item = &'r HttpRequest>,
        now_ns: u64,
    ) -> Option<PageAsk> {
        let (mut ask, mut is_for_history) = (PageAsk::default(), true);
        for request in waiting {
            is_for_history = false;
            ask.looks_at_slots |= matches!(request.resource, Some(Resource::SlotMetrics));
            let Some(Resource::PageData { looks_at_keys }) = request.resource else { continue };
            self.page_until_ns = now_ns + LOOK_NS;
            ask.looks_at_keys |= looks_at_keys;
            if let Some(shown) = &request.credentials
                && ask.credentials.len() < JUDGED_MAX
                && !ask.credentials.contains(shown)
            {
                ask.credentials.push(shown.clone());
            }
        }
        // The page's data are also requested with a history sample, so that there are data to show if the
        // main thread then hangs.
        ask.looks_at_page = now_ns < self.page_until_ns;
        self.asked = match is_for_history {
            true => AwaitedSample::ForHistory,
            false => AwaitedSample::ForRequests(ask.clone()),
        };
        (ask.looks_at_page || ask.looks_at_slots).then_some(ask)
    }

    /// Takes a sample from the main thread, and adds a point to the history if one is due. The caller answers
    /// the waiting requests, then calls [`Samples::keep`].
    pub fn take(&mut self, sample: Box<MetricsSample>, details: Option<Box<PageDetails>>, now: Now) {
        let (asked, is_for_history) = match std::mem::take(&mut self.asked) {
            AwaitedSample::ForRequests(ask) => (ask, false),
            AwaitedSample::ForHistory => (PageAsk::default(), true),
            AwaitedSample::Nothing => (PageAsk::default(), false),
        };
        let has_details = details.is_some();
        self.count += 1;
        if now.mono_ns >= self.history.due_ns || self.history.totals.is_none() {
            self.history.push(&sample, now);
        }
        self.last = Some(KeptSample {
            sample,
            at_ns: now.mono_ns,
            unix_ms: now.unix_ms(),
            details,
            credentials: asked.credentials,
            looks_at_keys: asked.looks_at_keys,
            looks_at_slots: asked.looks_at_slots,
            looks_at_page: asked.looks_at_page || (is_for_history && has_details),
            is_for_history: false,
            texts: [None, None],
            json: Vec::new(),
        });
        self.is_for_history = is_for_history;
    }

    /// Marks the last sample after the waiting requests were answered. A history sample answers a later
    /// request only if the request has waited too long for another sample.
    pub fn keep(&mut self) {
        if let Some(last) = &mut self.last {
            last.is_for_history = self.is_for_history;
        }
    }
}

impl HistoryPoints {
    /// Begins the history. The first sample, which is requested after `POINT_NS` at the latest, gives the
    /// first point.
    pub fn begin(&mut self, now: Now) {
        (self.due_ns, self.begun_ms) = (now.mono_ns + POINT_NS, now.unix_ms());
    }

    fn push(&mut self, sample: &MetricsSample, now: Now) {
        let totals = HistoryTotals::new(sample, now.mono_ns);
        self.next_id += 1;
        let point = ChartPoint::new(self.next_id, now.unix_ms(), &totals, self.totals.as_ref());
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
        self.totals = Some(totals);
        self.due_ns = now.mono_ns + POINT_NS;
    }

    /// The points after number `since` of the history that began at `of`, as JSON; all points if `of`
    /// names another history.
    pub fn json(&self, since: u64, of: i64) -> String {
        let since = if of == self.begun_ms { since } else { 0 };
        history_json(self.begun_ms, self.points.iter().filter(|point| point.id > since))
    }
}

impl KeptSample {
    pub fn text(&mut self, format: MetricsFormat) -> &str {
        let index = match format {
            MetricsFormat::OpenMetrics => 0,
            MetricsFormat::Prometheus => 1,
        };
        let sample = &self.sample;
        self.texts[index].get_or_insert_with(|| sample.text(format))
    }

    /// Number of keys and memory of each hash slot, as text; the text has no slots if the sample has no slot
    /// sizes.
    pub fn slots_text(&self, format: MetricsFormat) -> String {
        let look = self.details.as_ref().and_then(|details| details.slot_look.clone());
        slot_sizes_text(&look.unwrap_or_default(), format)
    }

    fn judged(&self, shown: &BasicCredentials) -> Option<JudgedCredentials> {
        let index = self.credentials.iter().position(|asked| asked == shown)?;
        self.details.as_ref()?.judged.get(index).copied()
    }

    /// The page's data as JSON for the given credentials. For a sample that was not made for the page,
    /// the JSON has no further details.
    pub fn json(&mut self, credentials: Option<&BasicCredentials>) -> &str {
        let judged = credentials.and_then(|shown| self.judged(shown));
        let made = self.json.iter().position(|(of, _)| *of == judged);
        let index = match made {
            Some(index) => index,
            None => {
                let none = PageDetails::default();
                let details = self.details.as_deref().filter(|_| self.looks_at_page).unwrap_or(&none);
                let json = PageJson { sample: &self.sample, details, judged, unix_ms: self.unix_ms };
                self.json.push((judged, json.text()));
                self.json.len() - 1
            }
        };
        &self.json[index].1
    }
}
