package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	shards     = 3
	clientPort = "7000"
	busPort    = "17000"
	// announced: a node announces the address that is so much above its own.
	announced = 100
)

// node is one server process and its folder.
type node struct {
	number  int
	kind    string // ours or stock
	ip      string // where the process listens
	shown   string // where the others are told to find it
	folder  string
	command []string
	process *os.Process
	ended   chan struct{}
	id      string

	mutex sync.Mutex
	asker *conn
}

// cluster is three shards: node n is of shard n % 3 for good, and all of a shard but one replicate that one.
type cluster struct {
	nodes    []*node
	replicas int // of each shard
	believes bool
	moving   bool // slots do not stay with their shards
	network  *network
	timeout  time.Duration
	began    time.Time
}

func (c *cluster) now() int64          { return int64(time.Since(c.began)) }
func (c *cluster) shard(node int) int  { return node % shards }
func (c *cluster) others(n int) []int  { return c.all(func(one int) bool { return one != n }) }
func (c *cluster) members(s int) []int { return c.all(func(one int) bool { return one%shards == s }) }

func (c *cluster) all(wanted func(int) bool) []int {
	var list []int
	for number := range c.nodes {
		if wanted(number) {
			list = append(list, number)
		}
	}
	return list
}

// by finds the node that has an address, its own or that which it announces; -1 for none.
func (c *cluster) by(ip string) int {
	return slices.IndexFunc(c.nodes, func(n *node) bool { return n.ip == ip || n.shown == ip })
}

// startCluster starts the nodes of a history and waits until the cluster is well.
func startCluster(o *options, lane int, p plan, folder string) (*cluster, error) {
	c := &cluster{replicas: p.replicas, believes: o.believes, moving: o.moving, network: newNetwork(), timeout: o.timeout, began: time.Now()}
	for number := range shards * (1 + p.replicas) {
		n := &node{number: number, kind: "ours", folder: filepath.Join(folder, strconv.Itoa(number))}
		binary := o.server
		if o.nodes == "stock" || o.nodes == "mixed" && number%2 == 1 {
			n.kind, binary = "stock", o.peer
		}
		n.ip = fmt.Sprintf("127.%d.%d.%d", o.net, lane, number+1)
		n.shown = fmt.Sprintf("127.%d.%d.%d", o.net, lane, number+1+announced)
		if err := os.MkdirAll(n.folder, 0o755); err != nil {
			return c, err
		}
		if o.disks == "" {
			if err := syscall.Mount("tmpfs", n.folder, "tmpfs", 0, "size="+p.disk); err != nil {
				return c, fmt.Errorf("a disk for node %d: %w", number, err)
			}
		}
		n.command = append(append(strings.Fields(binary), "--port", clientPort, "--bind", n.ip, "--dir", n.folder,
			"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.FormatInt(o.timeout.Milliseconds(), 10),
			"--cluster-announce-ip", n.shown, "--bind-source-addr", n.ip, "--cluster-allow-replica-migration", "no",
			"--save", "", "--appendonly", "yes", "--repl-diskless-sync-delay", "0", "--repl-timeout", "4",
			"--repl-ping-replica-period", "1", "--protected-mode", "no", "--shutdown-on-sigterm", "failover"), p.options...)
		c.nodes = append(c.nodes, n)
		for _, port := range []string{clientPort, busPort} {
			number := func(source net.IP) int { return c.by(source.String()) }
			if err := c.network.listen(n.shown+":"+port, n.number, n.ip+":"+port, number); err != nil {
				return c, err
			}
		}
	}
	for _, n := range c.nodes {
		if err := n.start(); err != nil {
			return c, err
		}
	}
	return c, c.join()
}

// join makes a cluster of nodes that run.
func (c *cluster) join() error {
	for _, n := range c.nodes {
		if err := n.ready(); err != nil {
			return err
		}
		reply, err := n.ask("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		n.id = reply.text
		if n.number < shards {
			first, last := n.number*16384/shards, (n.number+1)*16384/shards-1
			n.ask("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
			n.ask("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(n.number+1))
		}
		if n.number > 0 {
			c.nodes[0].ask("CLUSTER", "MEET", n.shown, clientPort, busPort)
		}
	}
	known := func() bool {
		return !slices.ContainsFunc(c.nodes, func(n *node) bool {
			reply, err := n.ask("CLUSTER", "NODES")
			return err != nil || strings.Count(reply.text, " connected") != len(c.nodes)
		})
	}
	if err := until(30*time.Second, known); err != nil {
		return fmt.Errorf("nodes do not get to know each other: %w", err)
	}
	for _, n := range c.nodes[shards:] {
		n.ask("CLUSTER", "REPLICATE", c.nodes[c.shard(n.number)].id)
	}
	return c.well(30 * time.Second)
}

// until asks again and again, and gives up at last.
func until(patience time.Duration, holds func() bool) error {
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("waited for %v in vain", patience)
		}
	}
	return nil
}

// well waits until every node serves, all have one view, and the replicas have what their primaries have.
func (c *cluster) well(patience time.Duration) error {
	why := ""
	err := until(patience, func() bool { why = c.ailment(); return why == "" })
	if err != nil {
		return fmt.Errorf("the cluster does not get well: %s: %w", why, err)
	}
	return nil
}

// ailment says what keeps the cluster from being well; "" for nothing.
func (c *cluster) ailment() string {
	view := ""
	for _, n := range c.nodes {
		info, err := n.ask("CLUSTER", "INFO")
		if err != nil {
			return fmt.Sprintf("node %d does not answer (%v)", n.number, err)
		}
		if !strings.Contains(info.text, "cluster_state:ok") {
			return fmt.Sprintf("node %d does not serve", n.number)
		}
		nodes, err := n.ask("CLUSTER", "NODES")
		if err != nil || strings.Contains(nodes.text, "fail") {
			return fmt.Sprintf("node %d suspects somebody", n.number)
		}
		var lines []string
		for line := range strings.Lines(nodes.text) {
			f := strings.Fields(line)
			lines = append(lines, strings.Join(append([]string{f[0], strings.TrimPrefix(f[2], "myself,"), f[3], f[6]}, f[8:]...), " "))
		}
		slices.Sort(lines)
		if one := strings.Join(lines, "\n"); view == "" {
			view = one
		} else if view != one {
			return fmt.Sprintf("node %d has another view than node 0", n.number)
		}
		replication, err := n.ask("INFO", "replication")
		isPrimary := strings.Contains(replication.text, "role:master")
		if err != nil || !isPrimary && !strings.Contains(replication.text, "master_link_status:up") {
			return fmt.Sprintf("node %d is not in sync", n.number)
		}
		if isPrimary && strings.Count(replication.text, "state=online") != c.replicas {
			return fmt.Sprintf("node %d lacks replicas", n.number)
		}
	}
	return ""
}

// primary is the node that owns the slots of a shard, by its own word.
func (c *cluster) primary(shard int) int {
	for _, number := range c.members(shard) {
		if reply, err := c.nodes[number].ask("ROLE"); err == nil && len(reply.items) > 0 && reply.items[0].text == "master" {
			return number
		}
	}
	return shard
}

func (c *cluster) close() {
	for _, n := range c.nodes {
		n.kill()
	}
	c.network.close()
}

func (n *node) address() string { return n.ip + ":" + clientPort }

func (n *node) start() error {
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(n.command[0], n.command[1:]...)
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), clockEnvironment(n)...)
	// Servers end with this program, whatever ends it.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startOnThread(command); err != nil {
		return err
	}
	n.process, n.ended = command.Process, make(chan struct{})
	go func(ended chan struct{}) { command.Wait(); close(ended) }(n.ended)
	return nil
}

// log is beside the node's folder, whose disk may be full.
func (n *node) log() string { return n.folder + ".log" }

func (n *node) ready() error {
	err := until(10*time.Second, func() bool {
		_, err := n.ask("PING")
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("node %d (%s) does not start: %w", n.number, n.kind, err)
	}
	return nil
}

func (n *node) isRunning() bool {
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

func (n *node) kill() {
	if n.process != nil {
		n.process.Kill()
		<-n.ended
	}
}

func (n *node) signal(number syscall.Signal) { n.process.Signal(number) }

// ask sends one command on a connection that is kept for questions.
func (n *node) ask(words ...string) (reply, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for range 2 {
		isNew := n.asker == nil
		if isNew {
			fresh, err := dial(n.address(), time.Second)
			if err != nil {
				return reply{}, err
			}
			n.asker = fresh
		}
		replies, err := n.asker.ask(time.Second, words)
		if err == nil {
			if replies[0].err != "" {
				return replies[0], fmt.Errorf("%s", replies[0].err)
			}
			return replies[0], nil
		}
		n.asker.close()
		n.asker = nil
		if isNew {
			return reply{}, err
		}
	}
	return reply{}, fmt.Errorf("node %d does not answer", n.number)
}

// askAll asks on a connection of its own; an error of the server among the replies stays there.
func (n *node) askAll(commands [][]string) ([]reply, error) {
	one, err := dial(n.address(), time.Second)
	if err != nil {
		return nil, err
	}
	defer one.close()
	return one.ask(15*time.Second, commands...)
}

// unmount takes the nodes' disks away.
func (c *cluster) unmount(o *options) {
	for _, n := range c.nodes {
		if o.disks == "" {
			syscall.Unmount(n.folder, syscall.MNT_DETACH)
		}
	}
}
