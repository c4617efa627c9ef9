//! GEOSEARCH, GEORADIUS and their variants: members in a region.

use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::{CmdError, until_zero};
use crate::geo::common::{point_at, reply_distance, reply_point, unit_at};
use crate::outcome::{Outcome, Run};
use crate::production::{SlowRead, root_of};
use crate::zset::common::zset_of;
use crate::zset::{store_sorted, stored_elements};
use sluice_base::num::parse_f64;
use sluice_keyspace::{DbRef, Event, ExpiryMode, ValueRef};
use sluice_resp::Reply;
use sluice_value::geo::{GeoPoint, Region};
use sluice_value::{Direction, Edge, Value, Zset, ZsetRef};

/// The command that searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// GEORADIUS, which searches around a point and optionally stores the result under a key.
    Radius,
    RadiusReadOnly,
    ByMember,
    ByMemberReadOnly,
    Search,
    SearchStore,
}

impl Asking {
    fn is_search(self) -> bool {
        matches!(self, Asking::Search | Asking::SearchStore)
    }

    fn may_store(self) -> bool {
        matches!(self, Asking::Radius | Asking::ByMember)
    }
}

/// Order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Found,
    Nearest,
    Farthest,
}

/// The key in which the result is stored, and the kind of its scores.
#[derive(Clone, Copy, Debug)]
struct StoreAt {
    /// Position of the key among the arguments.
    index: usize,
    /// Whether distances are stored as scores instead of points.
    distances: bool,
}

/// The arguments of a search.
struct SearchCall<'d> {
    asking: Asking,
    zset: Option<ZsetRef<'d>>,
    from: Option<GeoPoint>,
    /// Whether FROMMEMBER was given, even if the key does not exist.
    has_member: bool,
    region: Option<SearchShape>,
    /// Metres in the unit of distances.
    unit: f64,
    order: Order,
    count: usize,
    any: bool,
    with_distance: bool,
    with_hash: bool,
    with_point: bool,
    store: Option<StoreAt>,
}

/// The shape of a region: a circle or box in metres, whose centre another argument gives, or the corners of a
/// polygon.
enum SearchShape {
    Circle { radius_m: f64 },
    Box { width_m: f64, height_m: f64 },
    Polygon(Vec<GeoPoint>),
}

/// A member in the region.
struct FoundMember<'d> {
    member: &'d [u8],
    score: f64,
    distance_m: f64,
}

impl<'d> SearchCall<'d> {
    fn parse(db: &mut DbRef<'d>, args: Args<'_>, asking: Asking) -> Result<SearchCall<'d>, CmdError> {
        let (source, first) = match asking {
            Asking::Radius | Asking::RadiusReadOnly => (1, 6),
            Asking::ByMember | Asking::ByMemberReadOnly => (1, 5),
            Asking::Search => (1, 2),
            Asking::SearchStore => (2, 3),
        };
        let zset = db.get(args.key(source)).map(zset_of).transpose()?;
        let mut call = SearchCall {
            asking,
            zset,
            from: None,
            has_member: false,
            region: None,
            unit: 1.0,
            order: Order::Found,
            count: 0,
            any: false,
            with_distance: false,
            with_hash: false,
            with_point: false,
            store: (asking == Asking::SearchStore).then_some(StoreAt { index: 1, distances: false }),
        };
        match asking {
            Asking::Radius | Asking::RadiusReadOnly => {
                call.from = Some(point_at(args, 2)?);
                call.circle(args, first - 2)?;
            }
            // If the key does not exist, only the options are read.
            Asking::ByMember | Asking::ByMemberReadOnly if zset.is_some() => {
                call.member(args.at(2))?;
                call.circle(args, first - 2)?;
            }
            Asking::ByMember | Asking::ByMemberReadOnly | Asking::Search | Asking::SearchStore => {}
        }
        let mut at = first;
        while at < args.len() {
            at += match call.option(args, at)? {
                Some(words) => words,
                None => call.region_option(args, at)?.ok_or(CmdError::Syntax)?,
            };
        }
        call.check(args.at(0))?;
        Ok(call)
    }

    /// Reads the option at `at` if it does not describe the region; returns the number of its words. Returns
    /// `None` for any other option, and for one that this command does not accept.
    fn option(&mut self, args: Args<'_>, at: usize) -> Result<Option<usize>, CmdError> {
        let has_value = at + 1 < args.len();
        let stores = self.asking.may_store() && has_value;
        match () {
            () if args.is(at, "WITHDIST") => self.with_distance = true,
            () if args.is(at, "WITHHASH") => self.with_hash = true,
            () if args.is(at, "WITHCOORD") => self.with_point = true,
            () if args.is(at, "ANY") => self.any = true,
            () if args.is(at, "ASC") => self.order = Order::Nearest,
            () if args.is(at, "DESC") => self.order = Order::Farthest,
            () if args.is(at, "COUNT") && has_value => {
                let count = args.int(at + 1)?;
                self.count = usize::try_from(count)
                    .ok()
                    .filter(|count| *count > 0)
                    .ok_or(const { CmdError::text("ERR COUNT must be > 0") })?;
                return Ok(Some(2));
            }
            () if stores && (args.is(at, "STORE") || args.is(at, "STOREDIST")) => {
                self.store = Some(StoreAt { index: at + 1, distances: args.is(at, "STOREDIST") });
                return Ok(Some(2));
            }
            () if args.is(at, "STOREDIST") && self.asking == Asking::SearchStore => {
                self.store = Some(StoreAt { index: 1, distances: true });
            }
            () => return Ok(None),
        }
        Ok(Some(1))
    }

    /// Reads the option of GEOSEARCH or GEOSEARCHSTORE at `at` if it describes the region; returns the number
    /// of its words. Returns `None` for any other option, and for one that contradicts an earlier option.
    fn region_option(&mut self, args: Args<'_>, at: usize) -> Result<Option<usize>, CmdError> {
        let left = args.len() - at - 1;
        if !self.asking.is_search() {
            return Ok(None);
        }
        let is_polygon = matches!(self.region, Some(SearchShape::Polygon(_)));
        let is_circle = matches!(self.region, Some(SearchShape::Circle { .. }));
        let is_box = matches!(self.region, Some(SearchShape::Box { .. }));
        if left >= 1 && self.from.is_none() | self.has_member && !is_polygon && args.is(at, "FROMMEMBER") {
            self.has_member = true;
            if self.zset.is_some() {
                self.member(args.at(at + 1))?;
            }
            return Ok(Some(2));
        }
        if left >= 2 && !self.has_member && !is_polygon && args.is(at, "FROMLONLAT") {
            self.from = Some(point_at(args, at + 1)?);
            return Ok(Some(3));
        }
        if left >= 2 && !is_box && !is_polygon && args.is(at, "BYRADIUS") {
            self.circle(args, at + 1)?;
            return Ok(Some(3));
        }
        if left >= 3 && !is_circle && !is_polygon && args.is(at, "BYBOX") {
            let side = |index, error| args.get(index).and_then(parse_f64).ok_or(CmdError::text(error));
            let width = side(at + 1, "ERR need numeric width")?;
            let height = side(at + 2, "ERR need numeric height")?;
            if width < 0.0 || height < 0.0 {
                return Err(CmdError::text("ERR height or width cannot be negative"));
            }
            self.unit = unit_at(args, at + 3)?;
            self.region = Some(SearchShape::Box { width_m: width * self.unit, height_m: height * self.unit });
            return Ok(Some(4));
        }
        let is_free = !is_circle && !is_box && self.from.is_none() && !self.has_member;
        if left >= 1 && is_free && args.is(at, "BYPOLYGON") {
            return self.polygon(args, at + 1).map(Some);
        }
        Ok(None)
    }

    /// Reads the number of vertices at `at`, and the vertices after it. The result is the number of words,
    /// including the option's name.
    fn polygon(&mut self, args: Args<'_>, at: usize) -> Result<usize, CmdError> {
        let number = args.int(at).ok().and_then(|number| i32::try_from(number).ok());
        let number = number.ok_or(const { CmdError::text("ERR invalid number of vertices") })?;
        let left = args.len() - at - 1;
        let corners = usize::try_from(number).unwrap_or(0);
        if corners < 3 || corners.saturating_mul(2) > left {
            return Err(CmdError::text("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"));
        }
        let corners: Result<Vec<GeoPoint>, CmdError> =
            (0..corners).map(|corner| point_at(args, at + 1 + 2 * corner)).collect();
        let corners = corners?;
        let words = 2 + 2 * corners.len();
        self.region = Some(SearchShape::Polygon(corners));
        Ok(words)
    }

    fn member(&mut self, member: &[u8]) -> Result<(), CmdError> {
        let score = self.zset.and_then(|zset| zset.score(member));
        let score = score.ok_or_else(|| {
            CmdError::owned([b"ERR member ", until_zero(member), b" does not exist"].concat())
        })?;
        self.from = Some(GeoPoint::of_score(score));
        Ok(())
    }

    fn circle(&mut self, args: Args<'_>, at: usize) -> Result<(), CmdError> {
        let radius = args.get(at).and_then(parse_f64);
        let radius = radius.ok_or(const { CmdError::text("ERR need numeric radius") })?;
        if radius < 0.0 {
            return Err(CmdError::text("ERR radius cannot be negative"));
        }
        self.unit = unit_at(args, at + 1)?;
        self.region = Some(SearchShape::Circle { radius_m: radius * self.unit });
        Ok(())
    }

    /// Refuses contradictory or missing options, and chooses the order if none was given. `name` is the
    /// command's name as the client wrote it.
    fn check(&mut self, name: &[u8]) -> Result<(), CmdError> {
        if self.store.is_some() && (self.with_distance || self.with_hash || self.with_point) {
            let what = if self.asking == Asking::SearchStore {
                "GEOSEARCHSTORE"
            } else {
                "STORE option in GEORADIUS"
            };
            return Err(CmdError::owned(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let is_polygon = matches!(self.region, Some(SearchShape::Polygon(_)));
        if self.asking.is_search() && self.from.is_none() && !self.has_member && !is_polygon {
            let text = b"ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(CmdError::owned([&text[..], name].concat()));
        }
        if self.asking.is_search() && self.region.is_none() {
            let text = b"ERR exactly one of BYRADIUS, BYBOX and BYPOLYGON can be specified for ";
            return Err(CmdError::owned([&text[..], name].concat()));
        }
        if self.any && self.count == 0 {
            return Err(CmdError::text("ERR the ANY argument requires COUNT argument"));
        }
        // With COUNT the nearest members are wanted, so the members are sorted unless ANY was given.
        if self.count > 0 && self.order == Order::Found && !self.any {
            self.order = Order::Nearest;
        }
        Ok(())
    }

    /// The set and the region to search; `None` if the key does not exist.
    fn search(&mut self) -> Option<(ZsetRef<'d>, Region)> {
        let (zset, shape) = (self.zset?, self.region.take()?);
        let region = match (shape, self.from) {
            (SearchShape::Polygon(corners), _) => Region::polygon(corners),
            (SearchShape::Circle { radius_m }, Some(middle)) => Region::Circle { middle, radius_m },
            (SearchShape::Box { width_m, height_m }, Some(middle)) => {
                Region::Box { middle, width_m, height_m }
            }
            (SearchShape::Circle { .. } | SearchShape::Box { .. }, None) => return None,
        };
        Some((zset, region))
    }

    /// The call without its set. Another thread gets the set separately.
    fn without_set(self) -> SearchCall<'static> {
        let SearchCall { asking, from, has_member, region, unit, order, count, any, .. } = self;
        let SearchCall { with_distance, with_hash, with_point, store, .. } = self;
        SearchCall {
            asking,
            zset: None,
            from,
            has_member,
            region,
            unit,
            order,
            count,
            any,
            with_distance,
            with_hash,
            with_point,
            store,
        }
    }

    /// The members found, in order.
    fn run<'m>(&self, search: Option<(ZsetRef<'m>, &Region)>) -> Vec<FoundMember<'m>> {
        let Some((zset, region)) = search else { return Vec::new() };
        let enough = if self.any { self.count } else { usize::MAX };
        let mut found = Vec::new();
        for (first, behind) in region.cells().scores() {
            let ranks = zset.count_before(Edge::Score(first))..zset.count_before(Edge::Score(behind));
            for (member, score) in zset.iter(ranks, Direction::Up) {
                if found.len() >= enough {
                    break;
                }
                if let Some(distance_m) = region.distance_m(GeoPoint::of_score(score)) {
                    found.push(FoundMember { member, score, distance_m });
                }
            }
        }
        match self.order {
            Order::Found => {}
            Order::Nearest => found.sort_by(|one, other| one.distance_m.total_cmp(&other.distance_m)),
            Order::Farthest => found.sort_by(|one, other| other.distance_m.total_cmp(&one.distance_m)),
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        found
    }

    fn reply(&self, reply: &mut Reply<'_>, found: &[FoundMember<'_>]) {
        let details = [self.with_distance, self.with_hash, self.with_point];
        let details = details.iter().filter(|wanted| **wanted).count();
        reply.array(found.len());
        for member in found {
            if details > 0 {
                reply.array(1 + details);
            }
            reply.bulk(member.member);
            if self.with_distance {
                reply_distance(reply, member.distance_m / self.unit);
            }
            if self.with_hash {
                reply.int(whole(member.score));
            }
            if self.with_point {
                reply_point(reply, GeoPoint::of_score(member.score));
            }
        }
    }
}

/// A score as a signed integer; a score beyond 64 bits becomes `i64::MIN`, as in the reference on x86.
fn whole(score: f64) -> i64 {
    const BOUND: f64 = (1u64 << 63) as f64;
    if (-BOUND..BOUND).contains(&score) { score as i64 } else { i64::MIN }
}

pub(super) fn georadius(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    search_or_store(ctx, args, Asking::Radius, Event::GeoRadiusStore)
}

pub(super) fn georadius_ro(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    search(ctx, args, Asking::RadiusReadOnly)
}

pub(super) fn georadiusbymember(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    search_or_store(ctx, args, Asking::ByMember, Event::GeoRadiusStore)
}

pub(super) fn georadiusbymember_ro(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    search(ctx, args, Asking::ByMemberReadOnly)
}

pub(super) fn geosearch(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    search(ctx, args, Asking::Search)
}

pub(super) fn geosearchstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    search_or_store(ctx, args, Asking::SearchStore, Event::GeoSearchStore)
}

fn search(ctx: &mut ReadCtx<'_>, args: Args<'_>, asking: Asking) -> Run {
    let mut call = SearchCall::parse(&mut ctx.db, args, asking)?;
    let search = call.search();
    if let Some((zset, region)) = &search
        && ctx.slow.suits(members_in(*zset, region))
    {
        return ctx.slow.begin(|| slow_search(call.without_set(), search));
    }
    let found = call.run(search.as_ref().map(|(zset, region)| (*zset, region)));
    call.reply(&mut ctx.reply, &found);
    Ok(Outcome::Done)
}

/// Number of members that the search must look at. Cost: O(log n) for each cell.
fn members_in(zset: ZsetRef<'_>, region: &Region) -> usize {
    let cells = region.cells();
    let cells = cells.scores();
    cells
        .map(|(first, behind)| {
            zset.count_before(Edge::Score(behind)).saturating_sub(zset.count_before(Edge::Score(first)))
        })
        .sum()
}

/// A search that another thread runs.
fn slow_search(call: SearchCall<'static>, search: Option<(ZsetRef<'_>, Region)>) -> SlowRead {
    let (roots, region) = match search {
        Some((zset, region)) => (vec![root_of(ValueRef::Zset(zset))], Some(region)),
        None => (Vec::new(), None),
    };
    SlowRead::in_one_step(roots, move |roots, reply| {
        let zset = match roots {
            [Value::Zset(zset)] => Some(zset.view()),
            _ => None,
        };
        let found = call.run(zset.zip(region.as_ref()));
        call.reply(reply, &found);
    })
}

fn search_or_store(ctx: &mut WriteCtx<'_>, args: Args<'_>, asking: Asking, event: Event) -> Run {
    if ctx.db.access.expiry == ExpiryMode::Delete {
        // An expired source key is deleted here, because the search below only reads.
        ctx.db.delete_if_expired(args.key(if asking == Asking::SearchStore { 2 } else { 1 }));
    }
    let limits = ctx.limits.zset;
    let mut context = ctx.db.zset_context(limits);
    let mut db = ctx.db.reading();
    let mut call = SearchCall::parse(&mut db, args, asking)?;
    let search = call.search();
    let found = call.run(search.as_ref().map(|(zset, region)| (*zset, region)));
    let Some(store) = call.store else {
        call.reply(&mut ctx.reply, &found);
        return Ok(Outcome::Done);
    };
    let score = |found: &FoundMember<'_>| match store.distances {
        true => found.distance_m / call.unit,
        false => found.score,
    };
    let mut elements: Vec<(&[u8], f64)> = found.iter().map(|found| (found.member, score(found))).collect();
    elements.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(other.0)));
    let longest = elements.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
    let encoding = limits.encoding_for(elements.len(), longest);
    let new = Zset::from_sorted(elements.into_iter(), encoding, &mut context);
    let (changes, target) = (new.len(), args.key(store.index));
    let told = new.share();
    let existed = store_sorted(ctx, target, new, event);
    ctx.db.effects.count_more_changes(changes.saturating_sub(1) as u64);
    // Members and distances follow from sines, which another machine may round differently, and another
    // implementation may choose differently among members at the same distance when COUNT excludes some.
    // Therefore the result is propagated.
    ctx.db.effects.rewrite_encoded(|| stored_elements(target, existed, &told));
    Ok(Outcome::Done)
}
