package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// result is what came of one fault, or of two at once.
type result struct {
	Faults    []string
	Skipped   string // why the faults could not be made
	Broken    []string
	Listed    []string // what is missing where it may be
	Undecided int      // keys for which the checker found no answer in time
	Ops       int
	Confirmed int
	Acked     int // appended without WAIT and acknowledged
	Lost      int // of these
	Reads     time.Duration
	Writes    time.Duration
	Took      time.Duration
	Moved     int // moves of slots that were begun
}

// promise is what was read of a key, confirmed, when a fault was over: it holds for the rest of the history.
type promise struct {
	shard int
	key   string
	value string
}

// history is the life of one cluster.
type history struct {
	o        *options
	plan     plan
	cluster  *cluster
	promises []promise
	folder   string
}

// runHistory starts a cluster and lets the faults of a plan happen, one after the other. report is told of each.
func runHistory(o *options, lane int, p plan, report func(int, result)) error {
	folder := filepath.Join(o.folder, fmt.Sprintf("%d", p.seed))
	defer os.RemoveAll(folder)
	c, err := startCluster(o, lane, p, folder)
	defer c.unmount(o)
	defer c.close()
	h := &history{o: o, plan: p, cluster: c, folder: folder}
	if err != nil {
		h.keep("start", nil)
		return err
	}
	for at, round := range p.faults {
		r := h.round(at, round)
		report(at, r)
		if len(r.Broken) > 0 {
			// What follows would be about a cluster that is not what it should be.
			return nil
		}
	}
	return nil
}

func (h *history) round(at int, round []planned) result {
	var r result
	c, began := h.cluster, time.Now()
	for _, one := range round {
		r.Faults = append(r.Faults, one.fault.name)
		if one.fault.needs != nil && r.Skipped == "" {
			r.Skipped = one.fault.needs(h.o)
		}
	}
	if r.Skipped != "" {
		return r
	}
	l := startLoad(c, at, h.plan.seed)
	m := startMover(c, newRandom(h.plan.seed+uint64(at)))
	time.Sleep(c.timeout)
	before := h.strike(round)
	err := c.recover()
	r.Moved = m.end()
	if err == nil {
		err = c.well(30 * time.Second)
	}
	if err != nil && c.moving {
		if repaired, again := c.reunite(); again == nil {
			r.Listed = append(r.Listed, repaired)
			err = c.well(30 * time.Second)
		}
	}
	time.Sleep(c.timeout / 2)
	l.end()
	if err != nil {
		r.Broken = append(r.Broken, err.Error())
	} else {
		h.judge(l, round, before, &r)
	}
	r.Took = time.Since(began)
	if len(r.Broken) > 0 {
		r.Broken = append(r.Broken, "kept in "+h.keep(fmt.Sprint(at), l))
	}
	return r
}

// strike has the faults of a round happen together; the primaries of before.
func (h *history) strike(round []planned) (before [shards]int) {
	for shard := range shards {
		before[shard] = h.cluster.primary(shard)
	}
	done := make(chan bool)
	for _, one := range round {
		s := &strike{c: h.cluster, shard: one.shard, primary: before[one.shard], random: newRandom(one.seed)}
		go func() { one.fault.do(s); done <- true }()
	}
	for range round {
		<-done
	}
	return before
}

// judge asks the promises (a) to (c) of what the clients saw.
func (h *history) judge(l *load, round []planned, before [shards]int, r *result) {
	loses, forced := map[int]bool{}, map[int]bool{}
	for shard := range shards {
		isReplaced := h.cluster.primary(shard) != before[shard]
		for _, one := range round {
			loses[shard] = loses[shard] || h.plan.mayLose(one, shard, isReplaced)
			forced[shard] = forced[shard] || one.shard == shard && one.fault.loses == byOrder
		}
	}
	if h.cluster.moving {
		// Whatever a shard has lost may be of any key.
		for shard := range shards {
			loses[shard] = loses[0] || loses[1] || loses[2]
			forced[shard] = forced[0] || forced[1] || forced[2]
		}
	}
	for shard := range shards {
		broken, promised := &r.Broken, &r.Broken
		if loses[shard] {
			broken = &r.Listed
		}
		k := l.client(shard)
		for _, kind := range kinds {
			key := l.key(shard, kind[0])
			last, ok := h.lastRead(l, k, key, kind[2])
			if !ok {
				*broken = append(*broken, fmt.Sprintf("%s: no read is confirmed though the cluster is well", key))
				continue
			}
			ops := l.ops[key]
			r.Ops += len(ops)
			for _, o := range ops {
				if o.Outcome == confirmed {
					r.Confirmed++
				}
			}
			value, _, _ := strings.Cut(last, " ")
			for _, gone := range missing(ops, value) {
				*broken = append(*broken, fmt.Sprintf("(a) %s: missing: %s", key, gone))
			}
			switch verdict, _ := linearizable(ops); verdict {
			case porcupine.Illegal:
				*broken = append(*broken, fmt.Sprintf("(b) %s: %d operations are not linearizable", key, len(ops)))
			case porcupine.Unknown:
				r.Undecided++
			}
		}
		// What is seconds old has been written to every disk and every replica: no fault of this round takes it. But where it
		// has moved it is as new as the move.
		if h.cluster.moving {
			promised = broken
		}
		h.keepPromises(shard, k, promised)
		for _, kind := range kinds {
			key := l.key(shard, kind[0])
			if ops := l.ops[key]; len(ops) > 0 {
				h.promises = append(h.promises, promise{shard, key, lastConfirmed(ops)})
			}
		}
		h.count(l, k, shard, r)
		k.close()
	}
	for shard := range shards {
		if forced[shard] {
			continue
		}
		for _, isWrite := range []bool{false, true} {
			longest, by := window(l.answers[shard], isWrite)
			which := &r.Reads
			if isWrite {
				which = &r.Writes
			}
			*which = max(*which, time.Duration(longest))
			if bound := windowBound(h.cluster.timeout); time.Duration(longest) > bound {
				r.Broken = append(r.Broken, fmt.Sprintf("(c) node %d answers as the owner of epoch %d, %v after a later owner; bound %v",
					by.Node, by.Epoch, time.Duration(longest).Round(time.Millisecond), bound))
			}
		}
	}
}

// windowBound: T, the time between two PINGs (T/2), and 200 ms.
func windowBound(timeout time.Duration) time.Duration { return timeout*3/2 + 200*time.Millisecond }

// lastRead reads a key once more, confirmed. A machine with too much to do may look like further faults meanwhile.
func (h *history) lastRead(l *load, k *client, key, name string) (string, bool) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if l.do(k, op{Client: shards * workers, Key: key, Name: name}) {
			ops := l.ops[key]
			return ops[len(ops)-1].Out, true
		}
	}
	return "", false
}

// lastConfirmed is what the last read of a key has answered.
func lastConfirmed(ops []op) string {
	last := slices.MaxFunc(ops, func(a, b op) int { return cmp.Compare(a.Begin, b.Begin) })
	return last.Out
}

// keepPromises looks whether the keys of earlier faults are what they were.
func (h *history) keepPromises(shard int, k *client, broken *[]string) {
	for at := range h.promises {
		p := &h.promises[at]
		if p.shard != shard {
			continue
		}
		name := "get"
		if strings.HasSuffix(p.key, ":pair") {
			name = "get2"
		}
		o := op{Key: p.key, Name: name}
		commands := o.commands()
		isRead := false
		for end := time.Now().Add(15 * time.Second); !isRead && time.Now().Before(end); {
			replies, err := k.ask(time.Second, commands...)
			if err == nil && replies[len(replies)-1].err == "" {
				isRead = true
				if value := o.read(replies[len(replies)-1]); value != p.value {
					*broken = append(*broken, fmt.Sprintf("(a) %s: was %q, is %q after a later fault", p.key, p.value, value))
					p.value = value
				}
			} else {
				if err == nil {
					k.learn(replies[len(replies)-1].err)
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
		if !isRead {
			*broken = append(*broken, fmt.Sprintf("(a) %s: no read is answered though the cluster is well", p.key))
		}
	}
}

// count says how many of the words are there that were acknowledged without WAIT.
func (h *history) count(l *load, k *client, shard int, r *result) {
	replies, err := k.ask(time.Second, []string{"GET", l.key(shard, "unwaited")})
	if err != nil || replies[0].err != "" {
		return
	}
	there := map[string]bool{}
	for word := range strings.SplitAfterSeq(replies[0].text, ";") {
		there[word] = true
	}
	r.Acked += len(l.acked[shard])
	for _, word := range l.acked[shard] {
		if !there[word] {
			r.Lost++
		}
	}
}

// kept is the file of a history that failed.
type kept struct {
	Seed    uint64
	Nodes   string
	Options []string
	Faults  []string
	Ops     map[string][]op
	Answers [shards][]answer
}

// keep writes what is known of a failure: operations, pictures of them, logs and nodes.conf. The result is the folder.
func (h *history) keep(name string, l *load) string {
	folder := filepath.Join(h.o.out, fmt.Sprintf("failed-%s-%d-%s", h.o.nodes, h.plan.seed, name))
	os.MkdirAll(folder, 0o755)
	for _, n := range h.cluster.nodes {
		copyFile(n.log(), filepath.Join(folder, fmt.Sprintf("node-%d.log", n.number)))
		copyFile(filepath.Join(n.folder, "nodes.conf"), filepath.Join(folder, fmt.Sprintf("node-%d.conf", n.number)))
	}
	if l == nil {
		return folder
	}
	k := kept{Seed: h.plan.seed, Nodes: h.o.nodes, Options: h.plan.options, Ops: l.ops, Answers: l.answers}
	for _, one := range h.plan.faults[l.number] {
		k.Faults = append(k.Faults, one.String())
	}
	if text, err := json.MarshalIndent(k, "", " "); err == nil {
		os.WriteFile(filepath.Join(folder, "history.json"), text, 0o644)
	}
	draw(l.ops, folder)
	return folder
}

// draw makes a page for each key whose operations have no order.
func draw(ops map[string][]op, folder string) (failed int) {
	for key, list := range ops {
		verdict, info := linearizable(list)
		if verdict == porcupine.Illegal {
			failed++
			porcupine.VisualizePath(model, info, filepath.Join(folder, strings.NewReplacer("{", "", "}", "", ":", "-").Replace(key)+".html"))
		}
	}
	return failed
}

func copyFile(from, to string) {
	if text, err := os.ReadFile(from); err == nil {
		os.WriteFile(to, text, 0o644)
	}
}

// again judges a history that was kept.
func again(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return err
	}
	fmt.Printf("seed %d, nodes %s, %s: %s\n", k.Seed, k.Nodes, strings.Join(k.Options, " "), strings.Join(k.Faults, ", "))
	failed := draw(k.Ops, filepath.Dir(path))
	for shard := range shards {
		for _, isWrite := range []bool{false, true} {
			longest, by := window(k.Answers[shard], isWrite)
			fmt.Printf("shard %d, writes %t: window %v (node %d, epoch %d)\n", shard, isWrite, time.Duration(longest), by.Node, by.Epoch)
		}
	}
	fmt.Printf("%d of %d keys are not linearizable\n", failed, len(k.Ops))
	return nil
}
