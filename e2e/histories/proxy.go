package main

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// network carries what the nodes of one cluster say to each other: each node announces an address of ours, at which
// connections are accepted and passed on. Who dials is known by the source address. Clients go around it, so that
// they reach both sides of a cut.
type network struct {
	mutex  sync.Mutex
	change *sync.Cond
	cuts   map[[2]int]bool          // nothing passes from the first node to the second
	delays map[[2]int]time.Duration // each piece is delayed by up to so much
	pairs  map[*passage]bool
	closed bool
	ears   []net.Listener
}

// passage is one connection between two nodes.
type passage struct {
	from, to int
	sockets  [2]*net.TCPConn
	// tears: the next piece that passes is cut in its middle, and the connection is reset.
	tears bool
}

func newNetwork() *network {
	n := &network{cuts: map[[2]int]bool{}, delays: map[[2]int]time.Duration{}, pairs: map[*passage]bool{}}
	n.change = sync.NewCond(&n.mutex)
	return n
}

// listen accepts what is meant for a node. number says which node has a source address.
func (n *network) listen(at string, to int, target string, number func(net.IP) int) error {
	ear, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	n.ears = append(n.ears, ear)
	go func() {
		for {
			socket, err := ear.Accept()
			if err != nil {
				return
			}
			source := socket.RemoteAddr().(*net.TCPAddr).IP
			if from := number(source); from >= 0 {
				go n.pass(&passage{from: from, to: to, sockets: [2]*net.TCPConn{socket.(*net.TCPConn), nil}}, source, target)
			} else {
				socket.Close()
			}
		}
	}()
	return nil
}

// pass makes the other half of a connection, when nothing is cut between the two, and moves bytes both ways.
func (n *network) pass(p *passage, source net.IP, target string) {
	defer p.sockets[0].Close()
	n.await(func() bool { return !n.cuts[[2]int{p.from, p.to}] && !n.cuts[[2]int{p.to, p.from}] })
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: source}, Timeout: time.Second}
	socket, err := dialer.Dial("tcp", target)
	if err != nil {
		return
	}
	p.sockets[1] = socket.(*net.TCPConn)
	defer socket.Close()
	n.mutex.Lock()
	n.pairs[p] = true
	n.mutex.Unlock()
	var both sync.WaitGroup
	for side := range 2 {
		both.Go(func() { n.move(p, side) })
	}
	both.Wait()
	n.mutex.Lock()
	delete(n.pairs, p)
	n.mutex.Unlock()
}

// move passes on what one end sends; side 0 is who has dialled.
func (n *network) move(p *passage, side int) {
	way := [2]int{p.from, p.to}
	if side == 1 {
		way = [2]int{p.to, p.from}
	}
	defer p.sockets[1-side].CloseWrite()
	piece := make([]byte, 64<<10)
	for {
		count, err := p.sockets[side].Read(piece)
		if count > 0 {
			tears, delay := n.await(func() bool { return !n.cuts[way] }), time.Duration(0)
			n.mutex.Lock()
			tears = tears && p.tears
			delay = n.delays[way]
			n.mutex.Unlock()
			if delay > 0 {
				time.Sleep(time.Duration(rand.Int64N(int64(delay))))
			}
			if tears {
				p.sockets[1-side].Write(piece[:count/2])
				p.reset()
				return
			}
			if _, err := p.sockets[1-side].Write(piece[:count]); err != nil {
				p.sockets[side].Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// await returns when something holds of the network, and at its end.
func (n *network) await(holds func() bool) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for !holds() && !n.closed {
		n.change.Wait()
	}
	return true
}

func (p *passage) reset() {
	for _, socket := range p.sockets {
		socket.SetLinger(0)
		socket.Close()
	}
}

// cut stops what passes from one set of nodes to another, or lets it pass again.
func (n *network) cut(from, to []int, isCut bool) {
	n.mutex.Lock()
	for _, one := range from {
		for _, other := range to {
			n.cuts[[2]int{one, other}] = isCut
		}
	}
	n.mutex.Unlock()
	n.change.Broadcast()
}

// delay slows what passes from and to a node.
func (n *network) delay(node, nodes int, most time.Duration) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for other := range nodes {
		n.delays[[2]int{node, other}], n.delays[[2]int{other, node}] = most, most
	}
}

// delayBetween slows what two nodes say to each other.
func (n *network) delayBetween(one, other int, most time.Duration) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.delays[[2]int{one, other}], n.delays[[2]int{other, one}] = most, most
}

// tear has the connections of a node end in the middle of their next message.
func (n *network) tear(node int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for p := range n.pairs {
		p.tears = p.tears || p.from == node || p.to == node
	}
}

// drop resets the connections of a node at once, as a router does that has forgotten them.
func (n *network) drop(node int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for p := range n.pairs {
		if p.from == node || p.to == node {
			p.reset()
		}
	}
}

func (n *network) close() {
	n.mutex.Lock()
	n.closed = true
	for p := range n.pairs {
		p.reset()
	}
	n.mutex.Unlock()
	n.change.Broadcast()
	for _, ear := range n.ears {
		ear.Close()
	}
}
