package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// moveWriters write to the slots that move, one more to slots of source and target that stay.
	moveWriters = 3
	// movePatience is how long a client waits for a reply: shorter than writers may be held.
	movePatience = 3 * time.Second
)

// slotRange is a range of slots that moves as a whole, with a text in braces for each slot.
type slotRange struct {
	first, last int
	tags        []string
}

func (r slotRange) String() string { return fmt.Sprintf("%d-%d", r.first, r.last) }

// moving are the ranges that move: two that each shard begins with. The rest of its slots stays.
var moving = func() (found []slotRange) {
	tags := slotTags()
	for number := range 2 * shards {
		first := number%shards*16384/shards + 200 + number/shards*1000
		r := slotRange{first: first, last: first + 29}
		for slot := r.first; slot <= r.last; slot++ {
			r.tags = append(r.tags, tags[slot])
		}
		found = append(found, r)
	}
	return found
}()

// staying are tags of slots that never leave their shard.
var staying = func() (found [shards]string) {
	tags := slotTags()
	for shard := range shards {
		found[shard] = tags[shard*16384/shards+4000]
	}
	return found
}()

// slotTags finds a tag for every slot.
var slotTags = sync.OnceValue(func() []string {
	found, missing := make([]string, 16384), 16384
	for n := 0; missing > 0; n++ {
		tag := "m" + strconv.Itoa(n)
		if slot := crc16(tag) % 16384; found[slot] == "" {
			found[slot] = tag
			missing--
		}
	}
	return found
})

// slotOf is the slot of a key with a tag.
func slotOf(key string) int {
	tag, _, _ := strings.Cut(key[1:], "}")
	return int(crc16(tag)) % 16384
}

// rover is a client of all nodes that follows MOVED.
type rover struct {
	c      *cluster
	conns  map[int]*conn
	owners map[int]int // of slots, as far as it was told
}

func newRover(c *cluster) *rover {
	return &rover{c: c, conns: map[int]*conn{}, owners: map[int]int{}}
}

func (r *rover) close() {
	for _, one := range r.conns {
		one.close()
	}
}

// ask sends commands about one slot to the node that it takes for the owner, which is told as well.
func (r *rover) ask(slot int, commands ...[]string) ([]reply, int, error) {
	node := r.owners[slot]
	one := r.conns[node]
	if one == nil {
		fresh, err := dial(r.c.nodes[node].address(), 300*time.Millisecond)
		if err != nil {
			r.elsewhere(slot)
			return nil, node, errNotSent
		}
		one, r.conns[node] = fresh, fresh
	}
	replies, err := one.ask(movePatience, commands...)
	if err != nil {
		one.close()
		delete(r.conns, node)
		r.elsewhere(slot)
	} else if replies[0].err != "" {
		r.learn(slot, replies[0].err)
	}
	return replies, node, err
}

func (r *rover) elsewhere(slot int) { r.owners[slot] = (r.owners[slot] + 1) % len(r.c.nodes) }

// learn takes up where a refusal says that a slot is.
func (r *rover) learn(slot int, refusal string) {
	fields := strings.Fields(refusal)
	if len(fields) == 3 && fields[0] == "MOVED" {
		if number := r.c.by(strings.TrimSuffix(fields[2], ":"+clientPort)); number >= 0 && number != r.owners[slot] {
			r.owners[slot] = number
			return
		}
	}
	time.Sleep(10 * time.Millisecond)
	r.elsewhere(slot)
}

// read asks until a node answers, as one does when the cluster is well.
func (r *rover) read(key string, words ...string) (reply, error) {
	why := error(nil)
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
		replies, _, err := r.ask(slotOf(key), words)
		if err == nil && replies[0].err == "" {
			return replies[0], nil
		}
		if why = err; err == nil {
			why = fmt.Errorf("%s", replies[0].err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return reply{}, fmt.Errorf("%s is not answered though the cluster is well: %w", strings.Join(words, " "), why)
}

// moveLoad is what clients do from before a move until the cluster is whole again, with keys of its own.
type moveLoad struct {
	c      *cluster
	keys   []string
	stop   chan struct{}
	wait   sync.WaitGroup
	mutex  sync.Mutex
	writes map[string][]write
}

// keysOf are a counter and a list for each tag.
func keysOf(number int, tags []string) (keys []string) {
	for _, tag := range tags {
		keys = append(keys, fmt.Sprintf("{%s}:%d:counter", tag, number), fmt.Sprintf("{%s}:%d:list", tag, number))
	}
	return keys
}

func isCounter(key string) bool { return strings.HasSuffix(key, ":counter") }

// startMoveLoad writes to four slots of a range, and to one of source and target each that stays.
func startMoveLoad(c *cluster, number int, r slotRange, shardsOf []int, seed uint64) *moveLoad {
	l := &moveLoad{c: c, stop: make(chan struct{}), writes: map[string][]write{}}
	random := rand.New(rand.NewPCG(seed, uint64(number)))
	var tags, beside []string
	for _, at := range random.Perm(len(r.tags))[:4] {
		tags = append(tags, r.tags[at])
	}
	for _, shard := range shardsOf {
		beside = append(beside, staying[shard])
	}
	groups := [][]string{keysOf(number, tags), keysOf(number, beside)}
	for client := range moveWriters + 1 {
		keys := groups[client/moveWriters]
		own := rand.New(rand.NewPCG(seed, uint64(number*100+client)))
		l.wait.Go(func() { l.work(client, keys, own) })
	}
	l.keys = append(groups[0], groups[1]...)
	return l
}

func (l *moveLoad) end() {
	close(l.stop)
	l.wait.Wait()
}

func (l *moveLoad) isOver() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// work writes, and has one write in four confirmed by WAIT.
func (l *moveLoad) work(client int, keys []string, random *rand.Rand) {
	r := newRover(l.c)
	defer r.close()
	for count := 0; !l.isOver(); count++ {
		w := write{Client: client, Key: keys[random.IntN(len(keys))]}
		if !isCounter(w.Key) {
			w.Value = fmt.Sprintf("%d-%d", client, count)
		}
		l.write(r, w, random.IntN(4) == 0)
		time.Sleep(time.Duration(1+random.IntN(4)) * time.Millisecond)
	}
}

// write sends a write until a node has executed it, or nobody knows whether one has.
func (l *moveLoad) write(r *rover, w write, waits bool) {
	commands := [][]string{{"INCR", w.Key}}
	if w.Value != "" {
		commands = [][]string{{"RPUSH", w.Key, w.Value}}
	}
	if waits {
		commands = append(commands, []string{"WAIT", strconv.Itoa(l.c.replicas), "200"})
	}
	for !l.isOver() {
		w.Begin = l.c.now()
		replies, node, err := r.ask(slotOf(w.Key), commands...)
		w.End, w.Node, w.Outcome = l.c.now(), node, unknown
		if err == errNotSent {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if len(replies) > 0 && replies[0].err != "" {
			continue
		}
		if len(replies) > 0 {
			w.Outcome = acknowledged
			w.Reply, _ = strconv.Atoi(replies[0].text)
			if waits && err == nil && replies[1].text == strconv.Itoa(l.c.replicas) {
				w.Outcome = confirmed
			}
		}
		l.mutex.Lock()
		l.writes[w.Key] = append(l.writes[w.Key], w)
		l.mutex.Unlock()
		return
	}
}

// mover has the slots of all tags move from node to node, if the cluster is one in which they do.
type mover struct {
	stop  chan struct{}
	wait  sync.WaitGroup
	begun int
}

func startMover(c *cluster, random *rand.Rand) *mover {
	m := &mover{stop: make(chan struct{})}
	if c.moving {
		m.wait.Go(func() { m.move(c, random) })
	}
	return m
}

// end waits until no move is begun any more; how many were.
func (m *mover) end() int {
	close(m.stop)
	m.wait.Wait()
	return m.begun
}

// move asks one node after the other until one takes the order: the owner. The target may be a replica, or dead: then the job
// fails.
func (m *mover) move(c *cluster, random *rand.Rand) {
	r := newRover(c)
	defer r.close()
	for {
		slot := slotOf("{" + tags[random.IntN(shards)] + "}")
		number, target := strconv.Itoa(slot), c.nodes[random.IntN(len(c.nodes))]
		for range c.nodes {
			replies, _, err := r.ask(slot, []string{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", number, number, "NODE", target.id})
			if err == nil && replies[0].err == "" {
				m.begun++
				break
			}
		}
		select {
		case <-m.stop:
			return
		case <-time.After(time.Duration(10+random.IntN(50)) * time.Millisecond):
		}
	}
}
