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
	// workers of a shard send operations that are checked.
	workers = 3
	// probePause is the time between two requests of a probe, and so how exactly windows are measured.
	probePause = 25 * time.Millisecond
	// probesMax bounds the requests of a probe that wait for a process which stands still.
	probesMax = 150
)

// kinds of keys, with the names of their write and their read.
var kinds = [][3]string{{"register", "set", "get"}, {"counter", "incr", "get"}, {"log", "append", "get"}, {"pair", "incr2", "get2"}}

// tags are texts in braces whose slots belong to the shards.
var tags = func() (found [shards]string) {
	for n := 0; ; n++ {
		tag, missing := "s"+strconv.Itoa(n), false
		shard := int(crc16(tag)) % 16384 * shards / 16384
		if found[shard] == "" {
			found[shard] = tag
		}
		for _, one := range found {
			missing = missing || one == ""
		}
		if !missing {
			return found
		}
	}
}()

// crc16 is the checksum that slots are made of.
func crc16(text string) uint16 {
	var sum uint16
	for _, b := range []byte(text) {
		sum ^= uint16(b) << 8
		for range 8 {
			carry := sum & 0x8000
			sum <<= 1
			if carry != 0 {
				sum ^= 0x1021
			}
		}
	}
	return sum
}

// load is what clients do from before a fault until the cluster is well again, with keys of its own.
type load struct {
	c      *cluster
	number int
	stop   chan struct{}
	wait   sync.WaitGroup

	mutex   sync.Mutex
	ops     map[string][]op
	answers [shards][]answer
	// Words that were appended without WAIT and acknowledged.
	acked [shards][]string
}

func (l *load) key(shard int, kind string) string {
	return fmt.Sprintf("{%s}:%d:%s", tags[shard], l.number, kind)
}

func startLoad(c *cluster, number int, seed uint64) *load {
	l := &load{c: c, number: number, stop: make(chan struct{}), ops: map[string][]op{}}
	for shard := range shards {
		for worker := range workers {
			client := shard*workers + worker
			random := rand.New(rand.NewPCG(seed, uint64(number*100+client)))
			l.wait.Go(func() { l.work(shard, client, random) })
		}
		l.wait.Go(func() { l.append(shard) })
	}
	for _, n := range c.nodes {
		l.wait.Go(func() { l.probe(n) })
	}
	return l
}

func (l *load) end() {
	close(l.stop)
	l.wait.Wait()
}

func (l *load) isOver() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// client is a client of one shard, which finds the owner as clients of clusters do.
type client struct {
	c     *cluster
	shard int
	node  int
	conns map[int]*conn
}

func (l *load) client(shard int) *client {
	return &client{c: l.c, shard: shard, node: shard, conns: map[int]*conn{}}
}

func (k *client) close() {
	for _, one := range k.conns {
		one.close()
	}
}

// ask sends commands to the node that is taken for the owner. Without an error all replies are there.
func (k *client) ask(patience time.Duration, commands ...[]string) ([]reply, error) {
	one := k.conns[k.node]
	if one == nil {
		fresh, err := dial(k.c.nodes[k.node].address(), 300*time.Millisecond)
		if err != nil {
			k.next()
			return nil, errNotSent
		}
		one = fresh
		k.conns[k.node] = one
	}
	replies, err := one.ask(patience, commands...)
	if err != nil {
		one.close()
		delete(k.conns, k.node)
		k.next()
	}
	return replies, err
}

var errNotSent = fmt.Errorf("no connection")

// next goes on with another node of the shard, or of the cluster where slots move.
func (k *client) next() {
	if k.c.moving {
		k.node = (k.node + 1) % len(k.c.nodes)
		return
	}
	members := k.c.members(k.shard)
	for at, number := range members {
		if number == k.node {
			k.node = members[(at+1)%len(members)]
			return
		}
	}
}

// learn takes up where a refusal says that the slot is.
func (k *client) learn(refusal string) {
	fields := strings.Fields(refusal)
	if len(fields) == 3 && fields[0] == "MOVED" {
		if number := k.c.by(strings.TrimSuffix(fields[2], ":"+clientPort)); number >= 0 && number != k.node {
			k.node = number
			return
		}
	}
	k.next()
}

// work sends operations that are followed by WAIT for all replicas.
func (l *load) work(shard, number int, random *rand.Rand) {
	k := l.client(shard)
	defer k.close()
	for count := 0; !l.isOver(); count++ {
		kind := kinds[random.IntN(len(kinds))]
		o := op{Client: number, Key: l.key(shard, kind[0]), Name: kind[1]}
		if random.IntN(5) < 2 {
			o.Name = kind[2]
		}
		if o.Name == "set" || o.Name == "append" {
			o.Arg = fmt.Sprintf("%d-%d;", number, count)
		}
		pause := time.Duration(2+random.IntN(8)) * time.Millisecond
		if !l.do(k, o) {
			pause = 50 * time.Millisecond
		}
		time.Sleep(pause)
	}
}

// do executes an operation and notes what came of it; whether it was confirmed.
func (l *load) do(k *client, o op) bool {
	o.Node, o.Begin = k.node, l.c.now()
	wait := []string{"WAIT", strconv.Itoa(l.c.replicas), strconv.FormatInt(l.c.timeout.Milliseconds(), 10)}
	commands := append(o.commands(), wait)
	replies, err := k.ask(l.c.timeout+time.Second, commands...)
	o.End = l.c.now()
	if err == errNotSent {
		return false
	}
	// The reply to the operation is that ahead of WAIT's.
	at := len(commands) - 2
	if len(replies) > at {
		answer := replies[at]
		if answer.err != "" {
			if err == nil {
				k.learn(answer.err)
			}
			return false
		}
		o.Out = o.read(answer)
	}
	o.Outcome = unknown
	if err == nil && (l.c.believes || replies[at+1].text == strconv.Itoa(l.c.replicas)) {
		o.Outcome = confirmed
	}
	if o.Outcome == confirmed || !o.isRead() {
		l.mutex.Lock()
		l.ops[o.Key] = append(l.ops[o.Key], o)
		l.mutex.Unlock()
	}
	return o.Outcome == confirmed
}

// commands are those of the operation. WAIT waits for what its connection has written, and for nothing where the
// connection has only read: so a read is followed by a write.
func (o op) commands() [][]string {
	fence := []string{"SET", o.Key[:strings.IndexByte(o.Key, '}')+1] + ":fence", "x"}
	multi, exec := []string{"MULTI"}, []string{"EXEC"}
	switch o.Name {
	case "set":
		return [][]string{{"SET", o.Key, o.Arg}}
	case "append":
		return [][]string{{"APPEND", o.Key, o.Arg}}
	case "incr":
		return [][]string{{"INCR", o.Key}}
	case "incr2":
		return [][]string{multi, {"INCR", o.Key + "1"}, {"INCR", o.Key + "2"}, exec}
	case "get":
		return [][]string{multi, {"GET", o.Key}, fence, exec}
	case "get2":
		return [][]string{multi, {"GET", o.Key + "1"}, {"GET", o.Key + "2"}, fence, exec}
	}
	panic("no operation is called " + o.Name)
}

// read makes the answer a text as the model has it.
func (o op) read(r reply) string {
	switch {
	case o.Name == "get" && len(r.items) == 2:
		return r.items[0].text
	case (o.Name == "get2" || o.Name == "incr2") && len(r.items) >= 2:
		return r.items[0].text + " " + r.items[1].text
	}
	return r.text
}

// append appends words without WAIT: what a user writes who takes what comes.
func (l *load) append(shard int) {
	k := l.client(shard)
	defer k.close()
	for count := 0; !l.isOver(); count++ {
		word := strconv.Itoa(count) + ";"
		replies, err := k.ask(time.Second, []string{"APPEND", l.key(shard, "unwaited"), word})
		if err == nil && replies[0].err == "" {
			l.mutex.Lock()
			l.acked[shard] = append(l.acked[shard], word)
			l.mutex.Unlock()
		} else if err == nil {
			k.learn(replies[0].err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// probe asks one node again and again, whoever owns the slots, and also while the process stands still: a request
// that came meanwhile is the first that the node executes when it goes on.
func (l *load) probe(n *node) {
	idle := make(chan *conn, probesMax)
	var under sync.WaitGroup
	room := make(chan struct{}, probesMax)
	for count := 0; !l.isOver(); count++ {
		select {
		case room <- struct{}{}:
			shard := l.c.shard(n.number)
			if l.c.moving {
				shard = count / 2 % shards
			}
			key := l.key(shard, "probe")
			request := []string{"GET", key}
			if count%2 == 0 {
				request = []string{"SET", key, strconv.Itoa(count)}
			}
			under.Go(func() {
				defer func() { <-room }()
				l.probeOnce(n, shard, request, idle)
			})
		default:
		}
		time.Sleep(probePause)
	}
	under.Wait()
	close(idle)
	for one := range idle {
		one.close()
	}
}

func (l *load) probeOnce(n *node, shard int, request []string, idle chan *conn) {
	var one *conn
	select {
	case one = <-idle:
	default:
		fresh, err := dial(n.address(), time.Second)
		if err != nil {
			return
		}
		one = fresh
	}
	begin := l.c.now()
	replies, err := one.ask(10*time.Second, []string{"MULTI"}, request, []string{"CLUSTER", "INFO"}, []string{"EXEC"})
	if err != nil {
		one.close()
		return
	}
	idle <- one
	executed := replies[3].items
	if len(executed) != 2 || executed[0].err != "" {
		return
	}
	_, rest, _ := strings.Cut(executed[1].text, "cluster_my_epoch:")
	number, _, _ := strings.Cut(rest, "\r")
	epoch, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return
	}
	a := answer{Node: n.number, Epoch: epoch, IsWrite: request[0] == "SET", Begin: begin, End: l.c.now()}
	l.mutex.Lock()
	l.answers[shard] = append(l.answers[shard], a)
	l.mutex.Unlock()
}
