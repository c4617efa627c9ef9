package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// moveStrike is a fault as it happens to a move under way: the nodes that were source and target when it began.
type moveStrike struct {
	strike // of the source's shard
	source int
	target int
	// flush is when FLUSHALL was asked and answered, and where; -1 for nowhere. It may not have been answered.
	flush      span
	flushedAt  int
	isAnswered bool
}

// moveFault is one kind of what goes wrong while slots move.
type moveFault struct {
	name  string
	needs func(*options) string
	// isHandover: primaries change by an order that loses nothing. Elsewhere a replica that has taken over explains
	// what is missing of writes that WAIT has not confirmed.
	isHandover bool
	do         func(*moveStrike)
}

// link ends the job's connection at one of its ends, as CLIENT KILL does it.
func (s *moveStrike) link(number int) {
	list, _ := s.node(number).ask("CLIENT", "LIST")
	for line := range strings.Lines(list.text) {
		if strings.Contains(line, "cmd=cluster|syncslots") || strings.Contains(line, "flags=i") || strings.Contains(line, "flags=E") {
			if id, isFound := strings.CutPrefix(strings.Fields(line)[0], "id="); isFound {
				s.node(number).ask("CLIENT", "KILL", "ID", id)
			}
		}
	}
}

// flushAt empties a node. Where FLUSHALL waits as writers do, the takeover is let go on.
func (s *moveStrike) flushAt(number int) {
	one, err := dial(s.node(number).address(), time.Second)
	if err != nil {
		return
	}
	defer one.close()
	s.flush.Begin, s.flushedAt = s.c.now(), number
	_, err = one.ask(300*time.Millisecond, []string{"FLUSHALL"})
	if err != nil {
		s.release()
		one.socket.SetDeadline(time.Now().Add(15 * time.Second))
		_, err = one.read()
	}
	s.flush.End, s.isAnswered = s.c.now(), err == nil
}

func (s *moveStrike) replicaOf(number int) int {
	members := s.c.members(s.c.shard(number))
	return members[slices.IndexFunc(members, func(n int) bool { return n != number })]
}

// handOver has the replica of a primary take over, and waits until it has or the order has come to nothing.
func (s *moveStrike) handOver(primary int) {
	shard := s.c.shard(primary)
	s.node(s.replicaOf(primary)).ask("CLUSTER", "FAILOVER")
	until(3*time.Second, func() bool { return s.c.primary(shard) != primary })
}

func needsDisks(o *options) string { return o.disks }

// moveFaults in the order in which plans draw them: a new one goes to the end.
var moveFaults = []moveFault{
	{name: "none", do: func(*moveStrike) {}},
	{name: "cancel", do: func(s *moveStrike) { s.node(s.source).ask("CLUSTER", "CANCELSLOTMIGRATIONS") }},
	{name: "job's link killed at the source", do: func(s *moveStrike) { s.link(s.source) }},
	{name: "job's link killed at the target", do: func(s *moveStrike) { s.link(s.target) }},
	{name: "connections of the source torn in messages", do: func(s *moveStrike) {
		for range 4 {
			s.c.network.tear(s.source)
			s.hold(0.02, 0.1)
		}
	}},
	{name: "source killed and started at once", do: func(s *moveStrike) { s.kill(s.source) }},
	{name: "target killed and started at once", do: func(s *moveStrike) { s.kill(s.target) }},
	{name: "source killed for 3 T", do: func(s *moveStrike) { s.kill(s.source); s.hold(3, 3) }},
	{name: "target killed for 3 T", do: func(s *moveStrike) { s.kill(s.target); s.hold(3, 3) }},
	{name: "replica of the source killed", do: func(s *moveStrike) { s.kill(s.replicaOf(s.source)); s.hold(0, 1) }},
	{name: "replica of the target killed", do: func(s *moveStrike) { s.kill(s.replicaOf(s.target)); s.hold(0, 1) }},
	{name: "source stands still for T/2", do: func(s *moveStrike) { s.stand(0.5, s.source) }},
	{name: "target stands still for T/2", do: func(s *moveStrike) { s.stand(0.5, s.target) }},
	{name: "source stands still for 2.5 T", do: func(s *moveStrike) { s.stand(2.5, s.source) }},
	{name: "target stands still for 2.5 T", do: func(s *moveStrike) { s.stand(2.5, s.target) }},
	{name: "replica of the source stands still", do: func(s *moveStrike) { s.stand(1, s.replicaOf(s.source)) }},
	{name: "replica of the target stands still", do: func(s *moveStrike) { s.stand(1, s.replicaOf(s.target)) }},
	{name: "source and target cut from each other", do: func(s *moveStrike) { s.cutFor(1, []int{s.source}, []int{s.target}) }},
	{name: "source cut off", do: func(s *moveStrike) { s.cutFor(2.5, []int{s.source}, s.c.others(s.source)) }},
	{name: "target cut off", do: func(s *moveStrike) { s.cutFor(2.5, []int{s.target}, s.c.others(s.target)) }},
	{name: "disk of the source full", needs: needsDisks, do: func(s *moveStrike) { s.fill(s.source) }},
	{name: "disk of the target full", needs: needsDisks, do: func(s *moveStrike) { s.fill(s.target) }},
	{name: "FLUSHALL at the source", do: func(s *moveStrike) { s.flushAt(s.source) }},
	{name: "FLUSHALL at the target", do: func(s *moveStrike) { s.flushAt(s.target) }},
	{name: "failover in the source's shard", isHandover: true, do: func(s *moveStrike) { s.handOver(s.source) }},
	{name: "failover in the target's shard", isHandover: true, do: func(s *moveStrike) { s.handOver(s.target) }},
}

// cutFor cuts two sets of nodes from each other for some timeouts; connections turn out to be gone, or what waited
// arrives.
func (s *moveStrike) cutFor(timeouts float64, from, to []int) {
	s.c.network.cut(from, to, true)
	s.c.network.cut(to, from, true)
	s.hold(timeouts, timeouts)
	if s.random.IntN(2) == 0 {
		s.c.network.drop(from[0])
	}
	s.c.network.cut(from, to, false)
	s.c.network.cut(to, from, false)
}

// brake is what makes a job stay in a state, so that faults meet every state.
type brake int

const (
	// free: the job goes as it goes.
	free brake = iota
	// slow: what source and target say to each other is late, so that the snapshot takes longer.
	slow
	// beforePause: the source does not begin to hold writers.
	beforePause
	// beforeTakeover: the target does not take the slots that it was granted.
	beforeTakeover
	brakes
)

func (b brake) String() string {
	return [brakes]string{"free", "slow network", "no pause", "no takeover"}[b]
}

func (s *moveStrike) brake(b brake) {
	switch b {
	case slow:
		s.c.network.delayBetween(s.source, s.target, 30*time.Millisecond)
	case beforePause:
		s.node(s.source).ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", "1")
	case beforeTakeover:
		s.node(s.target).ask("DEBUG", "SLOTMIGRATION", "PREVENT-FAILOVER", "1")
	}
}

// release takes brakes off all nodes that live; one that has started anew has none.
func (s *moveStrike) release() {
	s.c.network.delayBetween(s.source, s.target, 0)
	for _, number := range []int{s.source, s.target} {
		if s.node(number).isRunning() {
			s.node(number).ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", "0")
			s.node(number).ask("DEBUG", "SLOTMIGRATION", "PREVENT-FAILOVER", "0")
		}
	}
}

// movePlan is what a seed makes of a history in which slots move.
type movePlan struct {
	plan
	rounds []movePlanned
}

// movePlanned is one move with its fault.
type movePlanned struct {
	fault  moveFault
	fsync  string
	brake  brake
	moment time.Duration // between the begin of the move and the fault
	seed   uint64
}

func (p movePlanned) String() string {
	return fmt.Sprintf("%s (%v, after %d ms, appendfsync %s)", p.fault.name, p.brake, p.moment.Milliseconds(), p.fsync)
}

// newMovePlan draws the faults of a history. Neighbouring seeds share the kinds of faults among them.
func newMovePlan(seed uint64, count int, only string) movePlan {
	random := newRandom(seed)
	save := []string{"sync", "best-effort"}[random.IntN(2)]
	p := movePlan{plan: plan{seed: seed, replicas: 1, fsync: "always", disk: "128m"}}
	p.options = []string{"--cluster-config-save-behavior", save, "--enable-debug-command", "yes",
		"--auto-aof-rewrite-min-size", "16mb"}
	wanted := func(f moveFault) bool { return strings.HasPrefix(f.name, only) }
	kinds := slices.DeleteFunc(slices.Clone(moveFaults), func(f moveFault) bool { return !wanted(f) })
	order := newRandom(seed / 8).Perm(len(kinds))
	for at := range count {
		one := movePlanned{fault: kinds[order[(int(seed%8)*faultsEach+at)%len(kinds)]], fsync: "always", seed: random.Uint64()}
		if one.fault.needs != nil && random.IntN(2) == 0 {
			one.fsync = "everysec"
		}
		one.brake = brake(random.IntN(int(brakes)))
		if share := random.Float64(); one.brake == free {
			// A move that nothing brakes takes some ten milliseconds.
			one.moment = time.Duration(share * share * float64(150*time.Millisecond))
		} else {
			one.moment = time.Duration(share * float64(600*time.Millisecond))
		}
		p.rounds = append(p.rounds, one)
	}
	return p
}
