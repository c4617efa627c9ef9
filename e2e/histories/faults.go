package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// strike is a fault as it happens: to which shard, and which of its nodes was the primary then.
type strike struct {
	c       *cluster
	shard   int
	primary int
	random  *rand.Rand
}

// fault is one kind of what goes wrong. do returns when it is over; nodes that have ended, or stand still, are
// started or go on afterwards in any case.
type fault struct {
	name string
	// needs: what this machine must allow; it is asked for why it does not.
	needs func(*options) string
	// When confirmed writes may be lost.
	loses losing
	do    func(*strike)
}

type losing int

const (
	never losing = iota
	// byOrder: FORCE and TAKEOVER do not ask what the primary has.
	byOrder
	// unsynced: every process that has the write ends at one moment, or cannot write it. WAIT says that so many have
	// it in memory; under everysec and no a server of ours writes its file a millisecond or two later.
	unsynced
	// unsyncedUnlessReplaced: the same, where the primary is back before a replica has taken over: its replicas follow it.
	unsyncedUnlessReplaced
)

// mayLose says whether confirmed writes of a shard may be lost by a fault that was planned for the shard of one.
func (p plan) mayLose(one planned, shard int, isReplaced bool) bool {
	switch one.fault.loses {
	case byOrder:
		return one.shard == shard
	case unsynced:
		return p.fsync != "always" && (one.shard == shard || one.fault.name == allKilled)
	case unsyncedUnlessReplaced:
		return p.fsync != "always" && one.shard == shard && !isReplaced
	}
	return false
}

// allKilled names the fault that is no single shard's.
const allKilled = "all nodes killed"

func (s *strike) node(number int) *node { return s.c.nodes[number] }
func (s *strike) members() []int        { return s.c.members(s.shard) }
func (s *strike) replicas() []int {
	return slices.DeleteFunc(s.members(), func(n int) bool { return n == s.primary })
}
func (s *strike) everybody() []int { return s.c.all(func(int) bool { return true }) }

// hold lets some timeouts pass.
func (s *strike) hold(least, most float64) {
	time.Sleep(time.Duration((least + (most-least)*s.random.Float64()) * float64(s.c.timeout)))
}

// kill ends processes at one moment.
func (s *strike) kill(numbers ...int) {
	for _, number := range numbers {
		s.node(number).signal(syscall.SIGKILL)
	}
	for _, number := range numbers {
		<-s.node(number).ended
	}
}

func (s *strike) stand(timeouts float64, numbers ...int) {
	for _, number := range numbers {
		s.node(number).signal(syscall.SIGSTOP)
	}
	s.hold(timeouts, timeouts)
	for _, number := range numbers {
		s.node(number).signal(syscall.SIGCONT)
	}
}

// cut stops what passes from one set of nodes to the other and, where bothWays, back. When it passes again, what
// waited arrives, or the connections turn out to be gone.
func (s *strike) cut(from, to []int, bothWays bool) {
	s.c.network.cut(from, to, true)
	if bothWays {
		s.c.network.cut(to, from, true)
	}
	s.hold(1, 6)
	if s.random.IntN(2) == 0 {
		s.c.network.drop(s.primary)
	}
	s.c.network.cut(from, to, false)
	s.c.network.cut(to, from, false)
}

// fill leaves no byte on the disks of nodes.
func (s *strike) fill(numbers ...int) {
	file := func(number int) string { return filepath.Join(s.node(number).folder, "filler") }
	for _, number := range numbers {
		if f, err := os.Create(file(number)); err == nil {
			io.Copy(f, zeros{})
			f.Close()
		}
	}
	s.hold(2, 6)
	for _, number := range numbers {
		os.Remove(file(number))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// always is how many of the faults are in every history.
const always = 3

// faults in the order in which plans draw them: a new one goes to the end, so that most seeds keep their plans.
var faults = []fault{
	{name: "primary stands still for 1.5 T", do: func(s *strike) { s.stand(1.5, s.primary) }},
	{name: "primary stands still for 5 T", do: func(s *strike) { s.stand(5, s.primary) }},
	{name: "primary stands still for 5 T, cut off", do: func(s *strike) {
		// Nothing tells the process, when it goes on, that another node has taken over.
		one, others := []int{s.primary}, s.c.others(s.primary)
		s.c.network.cut(one, others, true)
		s.c.network.cut(others, one, true)
		s.stand(5, s.primary)
		s.hold(2, 4)
		s.c.network.cut(one, others, false)
		s.c.network.cut(others, one, false)
	}},
	{name: "primary killed", loses: unsyncedUnlessReplaced, do: func(s *strike) { s.kill(s.primary); s.hold(0, 5) }},
	{name: "replica killed", do: func(s *strike) { s.kill(s.replicas()[0]); s.hold(0, 5) }},
	{name: "all nodes of a shard killed", loses: unsynced, do: func(s *strike) { s.kill(s.members()...); s.hold(0, 3) }},
	{name: allKilled, loses: unsynced, do: func(s *strike) { s.kill(s.everybody()...); s.hold(0, 1) }},
	{name: "replica stands still for 5 T", do: func(s *strike) { s.stand(5, s.replicas()[0]) }},
	{name: "all nodes stand still for 3 T", do: func(s *strike) { s.stand(3, s.everybody()...) }},
	{name: "primary cut off", do: func(s *strike) { s.cut([]int{s.primary}, s.c.others(s.primary), true) }},
	{name: "primary hears nobody", do: func(s *strike) { s.cut(s.c.others(s.primary), []int{s.primary}, false) }},
	{name: "nobody hears the primary", do: func(s *strike) { s.cut([]int{s.primary}, s.c.others(s.primary), false) }},
	{name: "primary cut off from its replicas", do: func(s *strike) { s.cut([]int{s.primary}, s.replicas(), true) }},
	{name: "shard cut off", do: func(s *strike) {
		s.cut(s.members(), s.c.all(func(n int) bool { return s.c.shard(n) != s.shard }), true)
	}},
	{name: "slow network of the primary", do: func(s *strike) {
		s.c.network.delay(s.primary, len(s.c.nodes), s.c.timeout/3)
		s.hold(4, 8)
		s.c.network.delay(s.primary, len(s.c.nodes), 0)
	}},
	{name: "connections of the primary torn in messages", do: func(s *strike) {
		for range 20 {
			s.c.network.tear(s.primary)
			s.hold(0.1, 0.4)
		}
	}},
	{name: "disk of the primary full", needs: func(o *options) string { return o.disks }, do: func(s *strike) { s.fill(s.primary) }},
	{name: "disks of a shard full", loses: unsynced, needs: func(o *options) string { return o.disks }, do: func(s *strike) { s.fill(s.members()...) }},
	{name: "clock of the primary moved", needs: func(o *options) string { return o.clocks }, do: func(s *strike) {
		for range 4 {
			moveClock(s.node(s.primary), time.Duration(s.random.Int64N(int64(4*time.Hour)))-2*time.Hour)
			s.hold(0.5, 2)
		}
		moveClock(s.node(s.primary), 0)
	}},
	{name: "clocks of all moved", needs: func(o *options) string { return o.clocks }, do: func(s *strike) {
		for _, number := range s.everybody() {
			moveClock(s.node(number), time.Duration(s.random.Int64N(int64(4*time.Hour)))-2*time.Hour)
		}
		s.hold(2, 5)
	}},
	{name: "failover by hand", do: func(s *strike) {
		s.node(s.replicas()[0]).ask("CLUSTER", "FAILOVER")
		s.hold(2, 4)
	}},
	{name: "primary ends by SIGTERM", do: func(s *strike) {
		s.node(s.primary).signal(syscall.SIGTERM)
		select {
		case <-s.node(s.primary).ended:
		case <-time.After(15 * time.Second):
		}
		s.hold(0, 4)
	}},
	{name: "primary stands still, its replica killed", do: func(s *strike) {
		s.kill(s.replicas()[0])
		s.stand(2, s.primary)
	}},
	{name: "primary killed as its replica comes back", loses: unsynced, do: func(s *strike) {
		s.kill(s.replicas()[0])
		s.hold(0.5, 3)
		s.node(s.replicas()[0]).start()
		s.hold(0.2, 2)
		s.kill(s.primary)
		s.hold(2, 6)
	}},
	{name: "primary killed and started at once", loses: unsyncedUnlessReplaced, do: func(s *strike) { s.kill(s.primary) }},
	{name: "FAILOVER FORCE beside a primary that lives", loses: byOrder, do: func(s *strike) {
		s.node(s.replicas()[0]).ask("CLUSTER", "FAILOVER", "FORCE")
		s.hold(2, 4)
	}},
	{name: "TAKEOVER by a replica that is cut off from its primary", loses: byOrder, do: func(s *strike) {
		one, other := []int{s.primary}, s.replicas()
		s.c.network.cut(one, other, true)
		s.c.network.cut(other, one, true)
		s.hold(0.5, 2)
		s.node(s.replicas()[0]).ask("CLUSTER", "FAILOVER", "TAKEOVER")
		s.hold(1, 3)
		s.c.network.cut(one, other, false)
		s.c.network.cut(other, one, false)
	}},
}

// recover has every process run that has ended or stands still.
func (c *cluster) recover() error {
	for _, n := range c.nodes {
		if n.isRunning() {
			n.signal(syscall.SIGCONT)
			continue
		}
		if err := n.start(); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		err := n.ready()
		if err != nil && !n.isRunning() {
			// The node was about to end by its fault, if it has not crashed.
			if log, _ := os.ReadFile(n.log()); bytes.Contains(log, []byte("panicked")) || bytes.Contains(log, []byte("BUG REPORT")) {
				return fmt.Errorf("node %d (%s) has crashed: %w", n.number, n.kind, err)
			}
			if err = n.start(); err == nil {
				err = n.ready()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plan is what a seed makes of a history: its servers and its faults, of which the first ones are in every history.
type plan struct {
	seed     uint64
	replicas int
	disk     string // of each node, with its unit
	fsync    string
	options  []string
	faults   [][]planned
}

type planned struct {
	fault fault
	shard int
	seed  uint64
}

// planned draws the faults of a history: two of them at once now and then, in two shards.
func newPlan(seed uint64, count int, only string) plan {
	random := rand.New(rand.NewPCG(seed, 1))
	p := plan{seed: seed, replicas: 1 + random.IntN(3)/2, disk: "32m"}
	p.fsync = []string{"everysec", "always", "no"}[random.IntN(3)]
	save := []string{"sync", "best-effort"}[random.IntN(2)]
	p.options = []string{"--appendfsync", p.fsync, "--cluster-config-save-behavior", save}
	// The histories of neighbouring seeds share the faults among them.
	order := rand.New(rand.NewPCG(seed/8, 2)).Perm(len(faults) - always)
	next := int(seed%8) * 8
	for at := range count {
		kind := at
		if at >= always {
			kind = always + order[next%len(order)]
			next++
		}
		shard := random.IntN(shards)
		if only != "" {
			kind = slices.IndexFunc(faults, func(f fault) bool { return strings.HasPrefix(f.name, only) })
		}
		round := []planned{{faults[kind], shard, random.Uint64()}}
		if second := random.IntN(5 * len(faults)); only == "" && at >= always && second < len(faults) {
			round = append(round, planned{faults[second], (shard + 1) % shards, random.Uint64()})
		}
		p.faults = append(p.faults, round)
	}
	random.Shuffle(min(count, 6), func(i, j int) { p.faults[i], p.faults[j] = p.faults[j], p.faults[i] })
	return p
}

func (p planned) String() string { return fmt.Sprintf("%s (shard %d)", p.fault.name, p.shard) }
