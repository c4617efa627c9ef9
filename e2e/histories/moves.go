package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Moves of slots (-moves): in each round a range of slots goes from one shard to another by CLUSTER MIGRATESLOTS while
// clients send INCR and RPUSH to it, one fault happens at a drawn moment, in every state of the job, and when it is over
// and the cluster is whole again:
//
//	(d) every write that was answered is there: replies of INCR are all different, a value of RPUSH is there once, at the
//	    position that its reply said; nothing is there that nobody sent;
//	(e) every slot has one owner, the same in the view of every node;
//	(f) a node has the keys of slots that it or its primary owns, and no others, hidden ones included; replicas have what
//	    their primaries have; keys that nobody writes are what they were; no job is in progress.
//
// What (d) asks of each fault. Nodes have append-only files; with `appendfsync always` a process that is killed and
// started again has all that it has answered. So nothing may be missing, unless
//   - a replica has taken over without an order: then writes may be missing that WAIT has not confirmed;
//   - a process has ended by its full disk under `everysec`;
//   - FLUSHALL: what ended ahead of it on a slot of the node must be gone, what began after it must be there;
//   - a job of a stock source ends by CANCELSLOTMIGRATIONS or FLUSHALL in its takeover: a stock node lets writers go on then,
//     though the target may own the slots already.
//
// Slots never move from stock to stock. One database is used: a stock source names it once.

// moveResult is what came of one move and its fault.
type moveResult struct {
	fault, pair, brake, state, outcome string
	skipped                            string
	broken, listed                     []string
	isLast                             bool // the cluster cannot go on, though nothing is broken
	writes, confirmed, lost, explained int
	owners, hidden                     int
	took                               time.Duration
}

// moveHistory is the life of one cluster whose slots move.
type moveHistory struct {
	o       *options
	plan    movePlan
	cluster *cluster
	folder  string
	// known are the digests of all keys that there are, as DEBUG DIGEST-VALUE has them, in the one database.
	known map[string]string
}

// noDigest is the digest of a key that is not there.
var noDigest = strings.Repeat("0", 40)

func runMoveHistory(o options, lane int, p movePlan, report func(int, movePlanned, moveResult)) error {
	if o.nodes == "both" {
		o.nodes = []string{"ours", "mixed"}[p.seed%2]
	}
	folder := filepath.Join(o.folder, fmt.Sprint(p.seed))
	defer os.RemoveAll(folder)
	c, err := startCluster(&o, lane, p.plan, folder)
	defer c.unmount(&o)
	defer c.close()
	h := &moveHistory{o: &o, plan: p, cluster: c, folder: folder, known: map[string]string{}}
	if err == nil {
		err = h.fill()
	}
	if err != nil {
		h.keep("start", nil)
		return err
	}
	for at, one := range p.rounds {
		r := h.round(at, one)
		report(at, one, r)
		if len(r.broken) > 0 || r.isLast {
			// What follows would be about a cluster that is not what it should be.
			return nil
		}
	}
	return nil
}

// fillers are how many keys of each range are not written while it moves, 1,000 bytes and a few small ones each.
const fillers = 300

// fill puts keys that nobody writes into the ranges, where they are missing.
func (h *moveHistory) fill() error {
	r := newRover(h.cluster)
	defer r.close()
	padding := strings.Repeat("x", 1000)
	for _, one := range moving {
		for number := range fillers {
			key := fmt.Sprintf("{%s}:filler:%d", one.tags[number%len(one.tags)], number)
			if h.known[key] != "" {
				continue
			}
			words := [][]string{
				{"SET", key, padding},
				{"RPUSH", key, "a", "b", padding},
				{"HSET", key, "f", padding, "g", "1"},
				{"ZADD", key, "1", "a", "2", "b"},
				{"SADD", key, "a", "b", "1"},
				{"XADD", key, "1-1", "f", padding},
			}[number%6]
			if _, err := r.read(key, words...); err != nil {
				return err
			}
			h.known[key] = noDigest
		}
	}
	return h.learnDigests(func(key, digest string) {
		if strings.Contains(key, ":filler:") {
			h.known[key] = digest
		}
	})
}

// learnDigests tells of every known key the digest that its owner has.
func (h *moveHistory) learnDigests(tell func(key, digest string)) error {
	owners, err := h.cluster.owners(0)
	if err != nil {
		return err
	}
	keys := map[int][]string{}
	for key := range h.known {
		owner := owners[slotOf(key)]
		keys[owner] = append(keys[owner], key)
	}
	for owner, list := range keys {
		replies, err := h.cluster.nodes[owner].askAll([][]string{append([]string{"DEBUG", "DIGEST-VALUE"}, list...)})
		if err != nil {
			return fmt.Errorf("digests of node %d: %w", owner, err)
		}
		for at, item := range replies[0].items {
			tell(list[at], item.text)
		}
	}
	return nil
}

// draw chooses the range that moves and where it goes: never from stock to stock, and where there are both kinds,
// between the two mostly.
func (h *moveHistory) draw(s *moveStrike) (slotRange, error) {
	c := h.cluster
	ours := func(number int) bool { return h.kind(number) == "ours" || h.o.nodes == "stock" }
	owners, err := h.cluster.owners(0)
	if err == nil && !slices.ContainsFunc([]int{0, 1, 2}, func(shard int) bool { return ours(c.primary(shard)) }) {
		// All have handed over to stock replicas, of whom one hands back.
		shard := s.random.IntN(shards)
		to := c.members(shard)[slices.IndexFunc(c.members(shard), ours)]
		c.nodes[to].ask("CLUSTER", "FAILOVER")
		if err = until(10*time.Second, func() bool { return c.primary(shard) == to }); err == nil {
			err = c.well(30 * time.Second)
		}
		owners, _ = h.cluster.owners(0)
	}
	if err != nil {
		return slotRange{}, err
	}
	for tries := 0; ; tries++ {
		r := moving[s.random.IntN(len(moving))]
		s.source = owners[r.first]
		s.target = c.primary((c.shard(s.source) + 1 + s.random.IntN(shards-1)) % shards)
		isSame := ours(s.source) && ours(s.target)
		if ours(s.source) != ours(s.target) || isSame && (h.o.nodes != "mixed" || tries > 10) {
			s.shard, s.primary = c.shard(s.source), s.source
			return r, nil
		}
	}
}

func (h *moveHistory) kind(number int) string { return h.cluster.nodes[number].kind }

// job is the newest job of a node, by the fields that GETSLOTMIGRATIONS shows, and how many are in progress.
func (h *moveHistory) job(number int) (fields map[string]string, underWay int) {
	fields = map[string]string{}
	list, err := h.cluster.nodes[number].ask("CLUSTER", "GETSLOTMIGRATIONS")
	if err != nil {
		return fields, 0
	}
	for at, one := range list.items {
		job := map[string]string{}
		for i := 0; i+1 < len(one.items); i += 2 {
			job[one.items[i].text] = one.items[i+1].text
		}
		if !slices.Contains([]string{"success", "failed", "cancelled"}, job["state"]) {
			underWay++
		}
		if at == 0 {
			fields = job
		}
	}
	return fields, underWay
}

// round lets one move and its fault happen, and judges.
func (h *moveHistory) round(at int, one movePlanned) (r moveResult) {
	c, began := h.cluster, time.Now()
	r.fault, r.brake, r.state = one.fault.name, one.brake.String(), "?"
	defer func() { r.took = time.Since(began) }()
	if one.fault.needs != nil {
		if r.skipped = one.fault.needs(h.o); r.skipped != "" {
			return r
		}
	}
	s := &moveStrike{strike: strike{c: c, random: newRandom(one.seed)}, flushedAt: -1}
	moved, err := h.draw(s)
	if err != nil {
		r.broken = append(r.broken, err.Error())
		return r
	}
	r.pair = h.kind(s.source) + " to " + h.kind(s.target)
	for _, n := range c.nodes {
		n.ask("CONFIG", "SET", "appendfsync", one.fsync)
	}
	shardsOf := []int{c.shard(s.source), c.shard(s.target)}
	l := startMoveLoad(c, at, moved, shardsOf, h.plan.seed)
	time.Sleep(150 * time.Millisecond)
	name, err := h.begin(s, moved, one)
	if err == nil {
		time.Sleep(one.moment)
		job, _ := h.job(s.source)
		r.state = job["state"]
		one.fault.do(s)
	}
	isEnded := slices.ContainsFunc(c.nodes, func(n *node) bool { return !n.isRunning() })
	s.release()
	repaired, again := h.whole(s)
	if err == nil {
		err = again
	}
	if repaired != "" {
		r.listed = append(r.listed, repaired)
	}
	time.Sleep(200 * time.Millisecond)
	l.end()
	if number := h.unreadable(); err != nil && number >= 0 {
		r.isLast, r.outcome = true, "failed: unknown"
		r.listed = append(r.listed, fmt.Sprintf("node %d (stock) cannot read its own append-only file; kept in %s", number, h.keep(fmt.Sprint(at), l)))
	} else if err != nil {
		r.broken = append(r.broken, err.Error())
		if strings.Contains(err.Error(), "(e)") || strings.Contains(err.Error(), "another view") {
			r.owners++
		}
	} else {
		r.outcome = h.outcome(s, name, moved)
		isReplaced := c.primary(shardsOf[0]) != s.source || c.primary(shardsOf[1]) != s.target
		why := ""
		switch {
		case isReplaced && !one.fault.isHandover:
			why = "a replica has taken over"
		case isEnded && one.fsync != "always":
			why = "a process has ended"
		case h.kind(s.source) == "stock" && h.o.nodes != "stock" && (r.fault == "cancel" || r.fault == "FLUSHALL at the source") && isInTakeover(r.state):
			why = "a stock source ends its takeover"
		}
		h.judge(l, s, moved, why, &r)
	}
	if len(r.broken) > 0 {
		r.broken = append([]string{"kept in " + h.keep(fmt.Sprint(at), l)}, r.broken...)
	}
	return r
}

func isInTakeover(state string) bool {
	return state == "failover-paused" || state == "failover-granted" || state == "success"
}

// begin starts the move; the name of its job.
func (h *moveHistory) begin(s *moveStrike, moved slotRange, one movePlanned) (string, error) {
	s.brake(one.brake)
	words := []string{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", strconv.Itoa(moved.first), strconv.Itoa(moved.last),
		"NODE", h.cluster.nodes[s.target].id}
	if _, err := h.cluster.nodes[s.source].ask(words...); err != nil {
		return "", fmt.Errorf("MIGRATESLOTS at node %d: %w", s.source, err)
	}
	job, _ := h.job(s.source)
	return job["name"], nil
}

// whole waits until all processes run, the cluster is well, and no job is in progress. It says what had to be repaired.
func (h *moveHistory) whole(s *moveStrike) (repaired string, err error) {
	c := h.cluster
	if err := c.recover(); err != nil {
		return "", err
	}
	s.release()
	if err := c.well(20 * time.Second); err != nil {
		if repaired, err = c.reunite(); err != nil {
			return "", err
		}
		if err := c.well(30 * time.Second); err != nil {
			return repaired, err
		}
	}
	why := ""
	err = until(30*time.Second, func() bool {
		for _, n := range c.nodes {
			if job, underWay := h.job(n.number); underWay > 0 {
				why = fmt.Sprintf("%d jobs in progress at node %d, the newest %s %s", underWay, n.number, job["operation"], job["state"])
				return false
			}
		}
		return true
	})
	if err != nil {
		return repaired, fmt.Errorf("(f) %s: %w", why, err)
	}
	// The end of a job may be news for others.
	if err := c.well(30 * time.Second); err != nil {
		return repaired, err
	}
	for _, n := range c.nodes {
		if _, err := h.cluster.owners(n.number); err != nil {
			return repaired, err
		}
	}
	return repaired, nil
}

// unreadable is a stock node that has ended because of what is in its append-only file; -1 for none.
func (h *moveHistory) unreadable() int {
	return slices.IndexFunc(h.cluster.nodes, func(n *node) bool {
		log, _ := os.ReadFile(n.log())
		return n.kind == "stock" && !n.isRunning() && strings.Contains(string(log), "Bad file format reading the append only file")
	})
}

// outcome is what came of the move: it has the slots' owner's word, and a reason where there is one.
func (h *moveHistory) outcome(s *moveStrike, name string, moved slotRange) string {
	owners, _ := h.cluster.owners(0)
	if h.cluster.shard(owners[moved.first]) == h.cluster.shard(s.target) {
		return "success"
	}
	for _, number := range []int{s.source, s.target} {
		if job, _ := h.job(number); job["name"] == name {
			switch job["state"] {
			case "cancelled":
				return "cancelled"
			case "success":
				return "success, and the slots are where they were"
			}
			message, _, _ := strings.Cut(job["message"], ". ")
			return "failed: " + message
		}
	}
	return "failed: forgotten"
}

// judge asks (d) and (f) of what the clients saw and the nodes have. why says what explains that writes are missing, ""
// for nothing.
func (h *moveHistory) judge(l *moveLoad, s *moveStrike, moved slotRange, why string, r *moveResult) {
	reader := newRover(h.cluster)
	defer reader.close()
	owners, err := h.cluster.owners(0)
	if err != nil {
		r.broken = append(r.broken, err.Error())
		return
	}
	// A slot of the moved range was the source's, and is its owner's now; other slots have not moved.
	meets := func(key string) flushing {
		if s.flushedAt < 0 {
			return notFlushed
		}
		shard, slot := h.cluster.shard(s.flushedAt), slotOf(key)
		is := h.cluster.shard(owners[slot]) == shard
		was := is
		if moved.first <= slot && slot <= moved.last {
			was = h.cluster.shard(s.source) == shard
		}
		switch {
		case !is && !was:
			return notFlushed
		case is && was && s.isAnswered:
			return flushed
		}
		return maybeFlushed
	}
	if h.o.plant == "loss" {
		reader.read(l.keys[1], "RPOP", l.keys[1])
	}
	for _, key := range l.keys {
		end, err := readLast(reader, key)
		if err != nil {
			r.broken = append(r.broken, err.Error())
			continue
		}
		writes := l.writes[key]
		v := judgeKey(writes, end, meets(key), s.flush)
		for _, w := range writes {
			if w.isKnown() {
				r.writes++
			}
			if w.Outcome == confirmed {
				r.confirmed++
			}
		}
		for _, w := range v.lost {
			if why != "" && w.Outcome != confirmed {
				r.explained++
				continue
			}
			r.lost++
			r.broken = append(r.broken, fmt.Sprintf("(d) lost: %v (%s)", w, []string{"confirmed", "", "acknowledged"}[w.Outcome]))
		}
		for _, one := range v.broken {
			r.broken = append(r.broken, fmt.Sprintf("(d) %s: %s", key, one))
		}
		if end.count > 0 || len(end.list) > 0 {
			h.known[key] = ""
		}
	}
	if r.explained > 0 {
		r.listed = append(r.listed, fmt.Sprintf("%d writes are missing: %s", r.explained, why))
	}
	if h.o.plant == "stray" {
		for _, n := range h.cluster.nodes {
			if owners[moved.first] != n.number && h.cluster.primary(h.cluster.shard(n.number)) == n.number {
				n.ask("DEBUG", "POPULATE", "1", "{"+moved.tags[0]+"}stray")
			}
		}
	}
	h.keepKnown(meets, r)
	h.placeKeys(r)
}

func readLast(reader *rover, key string) (end last, err error) {
	if isCounter(key) {
		value, err := reader.read(key, "GET", key)
		end.count, _ = strconv.Atoi(value.text)
		return end, err
	}
	value, err := reader.read(key, "LRANGE", key, "0", "-1")
	for _, item := range value.items {
		end.list = append(end.list, item.text)
	}
	return end, err
}

// keepKnown looks whether keys that nobody has written in this round are what they were, and forgets those that are gone.
func (h *moveHistory) keepKnown(meets func(string) flushing, r *moveResult) {
	gone, kept := map[int]int{}, map[int]int{}
	err := h.learnDigests(func(key, digest string) {
		was := h.known[key]
		may := meets(key)
		switch {
		case digest == noDigest && may != notFlushed:
			delete(h.known, key)
		case was == "":
			h.known[key] = digest
			return
		case digest != was || may == flushed:
			r.broken = append(r.broken, fmt.Sprintf("(f) %s has changed, and nobody has written it: %s, was %s", key, digest, was))
		}
		if may == maybeFlushed && digest == noDigest {
			gone[slotOf(key)]++
		} else if may == maybeFlushed {
			kept[slotOf(key)]++
		}
	})
	for slot, count := range gone {
		if kept[slot] > 0 {
			r.broken = append(r.broken, fmt.Sprintf("(f) FLUSHALL took %d keys of slot %d, and left %d", count, slot, kept[slot]))
		}
	}
	if err == nil && len(r.broken) == 0 {
		err = h.fill()
	}
	if err != nil {
		r.broken = append(r.broken, err.Error())
	}
}

// placeKeys waits until all known keys are where they belong, and nothing is anywhere else.
func (h *moveHistory) placeKeys(r *moveResult) {
	var wrong []string
	err := until(15*time.Second, func() bool { wrong, r.hidden = h.misplaced(); return len(wrong) == 0 })
	if err != nil {
		r.broken = append(r.broken, wrong[:min(len(wrong), 10)]...)
	}
}

// misplaced names slots with more or fewer keys at a node than there should be, and how many keys are too much.
func (h *moveHistory) misplaced() (wrong []string, hidden int) {
	owners, err := h.cluster.owners(0)
	if err != nil {
		return []string{err.Error()}, 0
	}
	perSlot := map[int]int{}
	for key := range h.known {
		perSlot[slotOf(key)]++
	}
	var digests [shards]string
	for _, n := range h.cluster.nodes {
		shard := h.cluster.shard(n.number)
		var slots []int
		var words [][]string
		all := 0
		for slot, owner := range owners {
			isWatched := perSlot[slot] > 0 || slices.ContainsFunc(moving, func(m slotRange) bool { return m.first <= slot && slot <= m.last })
			if h.cluster.shard(owner) == shard {
				all += perSlot[slot]
			}
			if isWatched {
				slots = append(slots, slot)
				words = append(words, []string{"CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)})
			}
		}
		words = append(words, []string{"DBSIZE"}, []string{"DEBUG", "DIGEST"})
		replies, err := n.askAll(words)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("node %d: %v", n.number, err))
			continue
		}
		for at, slot := range slots {
			want := 0
			if h.cluster.shard(owners[slot]) == shard {
				want = perSlot[slot]
			}
			if has := replies[at].text; has != strconv.Itoa(want) {
				count, _ := strconv.Atoi(has)
				hidden += max(count-want, 0)
				wrong = append(wrong, fmt.Sprintf("(f) node %d (%s) has %s keys of slot %d, which node %d owns, %d expected", n.number, n.kind, has, slot, owners[slot], want))
			}
		}
		if size := replies[len(slots)].text; size != strconv.Itoa(all) {
			wrong = append(wrong, fmt.Sprintf("(f) DBSIZE of node %d (%s) is %s, %d keys are known", n.number, n.kind, size, all))
		}
		if digest := replies[len(slots)+1].text; digests[shard] == "" {
			digests[shard] = digest
		} else if digests[shard] != digest {
			wrong = append(wrong, fmt.Sprintf("(f) the nodes of shard %d have different data", shard))
		}
	}
	return wrong, hidden
}

// keep writes what is known of a failure: the writes, logs, nodes.conf and the jobs. The result is the folder.
func (h *moveHistory) keep(name string, l *moveLoad) string {
	folder := filepath.Join(h.o.out, fmt.Sprintf("failed-moves-%s-%d-%s", h.o.nodes, h.plan.seed, name))
	os.MkdirAll(folder, 0o755)
	for _, n := range h.cluster.nodes {
		copyFile(n.log(), filepath.Join(folder, fmt.Sprintf("node-%d.log", n.number)))
		copyFile(filepath.Join(n.folder, "nodes.conf"), filepath.Join(folder, fmt.Sprintf("node-%d.conf", n.number)))
		if !n.isRunning() {
			os.CopyFS(filepath.Join(folder, fmt.Sprintf("node-%d.files", n.number)), os.DirFS(n.folder))
		}
		job, _ := h.job(n.number)
		os.WriteFile(filepath.Join(folder, fmt.Sprintf("node-%d.job", n.number)), fmt.Appendln(nil, job), 0o644)
	}
	if l != nil {
		if text, err := json.MarshalIndent(l.writes, "", " "); err == nil {
			os.WriteFile(filepath.Join(folder, "writes.json"), text, 0o644)
		}
	}
	return folder
}

// moveTally is what came of all moves.
type moveTally struct {
	o       *options
	mutex   sync.Mutex
	began   time.Time
	results []moveResult
	failed  []string
}

// runMoves runs histories in which slots move, side by side; the exit status.
func runMoves(o *options) int {
	t := &moveTally{o: o, began: time.Now()}
	each := min(faultsEach, (o.faults+o.side-1)/o.side)
	count := (o.faults + each - 1) / each
	numbers := make(chan int)
	var lanes sync.WaitGroup
	for lane := range o.side {
		lanes.Go(func() {
			for number := range numbers {
				p := newMovePlan(o.seed+uint64(number), min(each, o.faults-number*each), o.only)
				err := runMoveHistory(*o, lane, p, func(at int, one movePlanned, r moveResult) { t.report(p, at, one, r) })
				if err != nil {
					t.mutex.Lock()
					t.failed = append(t.failed, fmt.Sprintf("seed %d: %v", p.seed, err))
					fmt.Printf("seed %d: %v\n", p.seed, err)
					t.mutex.Unlock()
				}
			}
		})
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	lanes.Wait()
	t.sum()
	if len(t.failed) > 0 {
		return 1
	}
	return 0
}

// linesShown is how many lines of a move that is broken are printed; the rest is mostly the same.
const linesShown = 10

// report prints a line for each move.
func (t *moveTally) report(p movePlan, at int, one movePlanned, r moveResult) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	head := fmt.Sprintf("seed %d move %d: %s, %v", p.seed, at, r.pair, one)
	t.results = append(t.results, r)
	if r.skipped != "" {
		fmt.Printf("%s: skipped: %s\n", head, r.skipped)
		return
	}
	fmt.Printf("%s: in %s: %s; %.1f s; %d writes answered, %d lost\n", head, r.state, r.outcome, r.took.Seconds(), r.writes, r.lost+r.explained)
	for _, one := range r.listed {
		fmt.Printf("    as it may be: %s\n", one)
	}
	for at, one := range r.broken {
		if at == linesShown {
			fmt.Printf("    BROKEN: and %d more\n", len(r.broken)-at)
			break
		}
		fmt.Printf("    BROKEN: %s\n", one)
		t.failed = append(t.failed, head+": "+one)
	}
	if len(r.broken) > 0 {
		fmt.Printf("    again: -moves -nodes %s -seed %d -faults %d -side 1\n", t.o.nodes, p.seed, len(p.rounds))
	}
}

// moveRow is what came of moves that have something in common.
type moveRow struct {
	count, success, cancelled, writes, confirmed, lost, explained, owners, hidden int
}

func (m *moveRow) add(r moveResult) {
	m.count++
	if r.outcome == "success" {
		m.success++
	}
	if r.outcome == "cancelled" {
		m.cancelled++
	}
	m.writes += r.writes
	m.confirmed += r.confirmed
	m.lost += r.lost
	m.explained += r.explained
	m.owners += r.owners
	m.hidden += r.hidden
}

// sum prints what came of each kind of fault, of each pair of nodes, and in which states the faults came.
func (t *moveTally) sum() {
	done := slices.DeleteFunc(slices.Clone(t.results), func(r moveResult) bool { return r.skipped != "" })
	table := func(head string, of func(moveResult) string) {
		rows := map[string]*moveRow{}
		var names []string
		for _, r := range done {
			name := of(r)
			if rows[name] == nil {
				rows[name] = &moveRow{}
				names = append(names, name)
			}
			rows[name].add(r)
		}
		slices.Sort(names)
		fmt.Printf("\n%-46s %5s %8s %6s %9s %8s %9s %5s %9s %6s %6s\n", head, "moves", "success", "failed", "cancelled", "writes", "confirmed", "lost", "explained", "owners", "hidden")
		for _, name := range names {
			m := rows[name]
			fmt.Printf("%-46s %5d %8d %6d %9d %8d %9d %5d %9d %6d %6d\n", name, m.count, m.success, m.count-m.success-m.cancelled, m.cancelled,
				m.writes, m.confirmed, m.lost, m.explained, m.owners, m.hidden)
		}
	}
	table("fault ("+t.o.nodes+" nodes)", func(r moveResult) string { return r.fault })
	table("nodes", func(r moveResult) string { return r.pair })
	table("state of the job when the fault came", func(r moveResult) string { return r.state })
	table("all", func(moveResult) string { return "" })
	why := map[string]int{}
	for _, r := range done {
		if strings.HasPrefix(r.outcome, "failed") {
			why[r.outcome]++
		}
	}
	for _, text := range slices.Sorted(maps.Keys(why)) {
		fmt.Printf("%4d %s\n", why[text], text)
	}
	fmt.Printf("%d moves in %.0f s, %d skipped\n", len(done), time.Since(t.began).Seconds(), len(t.results)-len(done))
	for _, one := range t.failed {
		fmt.Printf("FAILED: %s\n", one)
	}
}
