// Histories of real processes: clusters of three shards are damaged while clients use them, and what the clients saw is
// checked.
//
//	histories -server BIN [-peer BIN] [-nodes ours|stock|mixed] [-seed S] [-faults N] [-side N] [-only NAME] [-moving]
//	histories -moves [-nodes both] [-plant loss|stray] ...
//	histories -again FILE
//
// One seed is one history: a new cluster, its options and up to ten faults, which follow from the seed; what the clients do
// meanwhile follows from it too, but for time. Several histories run side by side. Each fault has keys of its own, used
// from before it until the cluster is well again. What must hold:
//
//	(a) a write that WAIT has confirmed on all replicas is there after this fault and after all later ones;
//	(b) these writes, and reads that are themselves followed by a write and such a WAIT, are linearizable for each key;
//	(c) an owner does not answer longer than T + T/2 + 200 ms after its successor has begun to.
//
// With -moving the slots of all keys move from node to node all the time, but for the moments in which all is judged. A fault
// to one shard may be one to every key then. With -moves moves are what is judged, see moves.go.
//
// FORCE and TAKEOVER may lose writes, and so may the end of all processes that have one, unless appendfsync is always:
// what is missing after them is shown and fails nothing.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

type options struct {
	server, peer, nodes string
	seed                uint64
	faults, side        int
	timeout             time.Duration
	folder, out, only   string
	net                 int
	believes, moves     bool
	moving              bool
	plant               string // a fault of the servers that must be found
	disks, clocks       string // why there are none, "" where there are
}

// faultsEach is how many faults a history has at most.
const faultsEach = 10

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 3)) }

func main() {
	o := &options{}
	flag.StringVar(&o.server, "server", "", "our server, with any options")
	flag.StringVar(&o.peer, "peer", "", "the reference's")
	flag.StringVar(&o.nodes, "nodes", "ours", "which nodes: ours, stock, mixed (every other one)")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "the first history")
	flag.IntVar(&o.faults, "faults", 20, "faults in all")
	flag.IntVar(&o.side, "side", 3, "histories side by side")
	flag.DurationVar(&o.timeout, "timeout", 0, "cluster-node-timeout; by default 500 ms, with -moves 1.5 s")
	flag.StringVar(&o.folder, "folder", "", "where the servers' files are, in memory by default")
	flag.StringVar(&o.out, "out", "histories-out", "where failures are kept")
	flag.StringVar(&o.only, "only", "", "only faults whose names begin so")
	flag.BoolVar(&o.believes, "believe", false, "take every write for confirmed, whatever WAIT says: a mistake that must be found")
	flag.BoolVar(&o.moving, "moving", false, "have the slots of all keys move from node to node all the time")
	flag.BoolVar(&o.moves, "moves", false, "move slots, one fault for each move; -nodes both takes ours and mixed by turns")
	flag.StringVar(&o.plant, "plant", "", "after each move: loss (take a value away), stray (leave a key at a node that does not own it)")
	file := flag.String("again", "", "judge a history.json that was kept")
	flag.Parse()
	if o.timeout == 0 {
		o.timeout = 500 * time.Millisecond
		if o.moves {
			// Long enough for a process to be killed and started without anybody else noticing.
			o.timeout *= 3
		}
	}
	if !o.hasFault() {
		fmt.Printf("no fault is called %q\n", o.only)
		os.Exit(2)
	}
	if *file != "" {
		if err := again(*file); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(o))
}

// hasFault says whether the name that was given begins one.
func (o *options) hasFault() bool {
	if o.moves {
		return slices.ContainsFunc(moveFaults, func(f moveFault) bool { return strings.HasPrefix(f.name, o.only) })
	}
	return slices.ContainsFunc(faults, func(f fault) bool { return strings.HasPrefix(f.name, o.only) })
}

func run(o *options) int {
	if os.Getenv(insideVariable) == "" {
		status, err := enter()
		if err == nil {
			return status
		}
		fmt.Printf("histories: no mounts of our own: %v\n", err)
	}
	if o.folder == "" {
		o.folder = os.TempDir()
		if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
			o.folder = "/dev/shm"
		}
	}
	folder, err := os.MkdirTemp(o.folder, "histories-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(folder)
	o.folder, o.net = folder, 64+os.Getpid()%128
	go startProcesses()
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() { <-ends; os.RemoveAll(folder); os.Exit(130) }()
	o.disks, o.clocks = whyNoDisks(folder), whyNoClocks(folder)
	for _, lack := range [][2]string{{"full disks", o.disks}, {"clocks that move", o.clocks}} {
		if lack[1] != "" {
			fmt.Printf("histories: without %s: %s\n", lack[0], lack[1])
		}
	}
	if o.moves {
		return runMoves(o)
	}
	return newTally(o).runAll()
}

// tally is what came of all faults.
type tally struct {
	o       *options
	mutex   sync.Mutex
	began   time.Time
	results []result
	failed  []string
	skipped map[string]int
	over    map[int]bool // histories
}

func newTally(o *options) *tally {
	return &tally{o: o, began: time.Now(), skipped: map[string]int{}, over: map[int]bool{}}
}

// runAll runs the histories side by side; the exit status.
func (t *tally) runAll() int {
	each := min(faultsEach, (t.o.faults+t.o.side-1)/t.o.side)
	count := (t.o.faults + each - 1) / each
	numbers := make(chan int)
	var lanes sync.WaitGroup
	for lane := range t.o.side {
		lanes.Go(func() {
			for number := range numbers {
				t.history(lane, number, min(each, t.o.faults-number*each), each)
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

func (t *tally) history(lane, number, faults, each int) {
	p := newPlan(t.o.seed+uint64(number), faults, t.o.only)
	err := runHistory(t.o, lane, p, func(at int, r result) { t.report(p, at, r) })
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err != nil {
		t.failed = append(t.failed, fmt.Sprintf("seed %d: %v", p.seed, err))
		fmt.Printf("seed %d: %v\n", p.seed, err)
	}
	t.over[number] = true
	if done := len(t.over); t.isOverUpTo(done) && t.o.faults > done*each {
		fmt.Printf("to go on from here: -seed %d -faults %d\n", t.o.seed+uint64(done), t.o.faults-done*each)
	}
}

// isOverUpTo says whether all histories of lower numbers are over.
func (t *tally) isOverUpTo(end int) bool {
	for number := range end {
		if !t.over[number] {
			return false
		}
	}
	return true
}

// report prints a line for each fault.
func (t *tally) report(p plan, at int, r result) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var names []string
	for _, one := range p.faults[at] {
		names = append(names, one.String())
	}
	head := fmt.Sprintf("seed %d fault %d: %s", p.seed, at, strings.Join(names, " and "))
	if r.Skipped != "" {
		t.skipped[strings.Join(r.Faults, " and ")+": "+r.Skipped]++
		fmt.Printf("%s: skipped: %s\n", head, r.Skipped)
		return
	}
	t.results = append(t.results, r)
	fmt.Printf("%s: %.1f s; %d of %d operations confirmed; without WAIT %d acknowledged, %d lost; windows: reads %d ms, writes %d ms%s\n", head,
		r.Took.Seconds(), r.Confirmed, r.Ops, r.Acked, r.Lost, r.Reads.Milliseconds(), r.Writes.Milliseconds(), undecided(r.Undecided))
	for _, one := range r.Listed {
		fmt.Printf("    as it may be: %s\n", one)
	}
	for _, one := range r.Broken {
		fmt.Printf("    BROKEN: %s\n", one)
		t.failed = append(t.failed, head+": "+one)
	}
	if len(r.Broken) > 0 {
		fmt.Printf("    again: -nodes %s -seed %d -faults %d -side 1 (%s, %d replicas each)\n", t.o.nodes, p.seed, len(p.faults), strings.Join(p.options, " "), p.replicas)
	}
}

func undecided(keys int) string {
	if keys == 0 {
		return ""
	}
	return fmt.Sprintf("; %d keys not decided in %v", keys, checkPatience)
}

// sum prints what came of each kind of fault.
func (t *tally) sum() {
	type row struct {
		count, acked, lost, lossy int
		reads, writes             time.Duration
	}
	rows, names := map[string]*row{}, []string{}
	var all result
	for _, r := range t.results {
		all.Moved += r.Moved
		all.Ops += r.Ops
		all.Confirmed += r.Confirmed
		all.Undecided += r.Undecided
		name := strings.Join(r.Faults, " and ")
		if len(r.Faults) > 1 {
			name = "two at once"
		}
		if rows[name] == nil {
			rows[name] = &row{}
			names = append(names, name)
		}
		one := rows[name]
		one.count++
		one.acked += r.Acked
		one.lost += r.Lost
		one.lossy += min(r.Lost, 1)
		one.reads, one.writes = max(one.reads, r.Reads), max(one.writes, r.Writes)
	}
	slices.Sort(names)
	fmt.Printf("\n%-56s %6s %20s %8s %20s\n", "fault ("+t.o.nodes+" nodes)", "times", "lost without WAIT", "in so", "longest window, ms")
	fmt.Printf("%-56s %6s %20s %8s %20s\n", "", "", "of acknowledged", "many", "reads / writes")
	for _, name := range names {
		one := rows[name]
		fmt.Printf("%-56s %6d %20s %8d %20s\n", name, one.count, fmt.Sprintf("%d of %d", one.lost, one.acked), one.lossy,
			fmt.Sprintf("%d / %d", one.reads.Milliseconds(), one.writes.Milliseconds()))
	}
	fmt.Printf("%d faults in %.0f s; %d operations, %d confirmed, %d keys not decided; bound of windows %v\n", len(t.results),
		time.Since(t.began).Seconds(), all.Ops, all.Confirmed, all.Undecided, windowBound(t.o.timeout))
	if t.o.moving {
		fmt.Printf("%d moves of slots were begun\n", all.Moved)
	}
	for why, count := range t.skipped {
		fmt.Printf("skipped %d times: %s\n", count, why)
	}
	for _, one := range t.failed {
		fmt.Printf("FAILED: %s\n", one)
	}
}
