package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// owners are the owners of all slots by the view of a node. An error names slots with two or none.
func (c *cluster) owners(viewer int) ([16384]int, error) {
	var owners [16384]int
	for slot := range owners {
		owners[slot] = -1
	}
	nodes, err := c.nodes[viewer].ask("CLUSTER", "NODES")
	if err != nil {
		return owners, err
	}
	wrong := 0
	for line := range strings.Lines(nodes.text) {
		f := strings.Fields(line)
		number := slices.IndexFunc(c.nodes, func(n *node) bool { return n.id == f[0] })
		for _, word := range f[8:] {
			low, high, isRange := strings.Cut(word, "-")
			if !isRange {
				high = low
			}
			from, err := strconv.Atoi(low)
			to, err2 := strconv.Atoi(high)
			if err != nil || err2 != nil {
				continue
			}
			for slot := from; slot <= to; slot++ {
				if owners[slot] >= 0 {
					wrong++
				}
				owners[slot] = number
			}
		}
	}
	for _, owner := range owners {
		if owner < 0 {
			wrong++
		}
	}
	if wrong > 0 {
		return owners, fmt.Errorf("(e) %d slots have two owners or none by the view of node %d", wrong, viewer)
	}
	return owners, nil
}

// reunite does what an operator does with a shard of two primaries: a target that took slots over while it was cut off
// keeps these, and its replica, which has taken over meanwhile, keeps the rest. The one with fewer slots gives them to the
// other, and follows it.
func (c *cluster) reunite() (repaired string, err error) {
	for shard := range shards {
		owners, err := c.owners(c.primary(shard))
		if err != nil {
			return "", err
		}
		slots := map[int][]string{}
		for slot, owner := range owners {
			if c.shard(owner) == shard {
				slots[owner] = append(slots[owner], strconv.Itoa(slot), strconv.Itoa(slot))
			}
		}
		if len(slots) < 2 {
			continue
		}
		primaries := slices.SortedFunc(maps.Keys(slots), func(a, b int) int { return len(slots[b]) - len(slots[a]) })
		one, other := primaries[0], primaries[1]
		words := append([]string{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"}, slots[other]...)
		if _, err := c.nodes[other].ask(append(words, "NODE", c.nodes[one].id)...); err != nil {
			return "", fmt.Errorf("a shard of two primaries: %w", err)
		}
		err = until(30*time.Second, func() bool {
			_, err := c.nodes[other].ask("CLUSTER", "REPLICATE", c.nodes[one].id)
			return err == nil
		})
		if err != nil {
			return "", fmt.Errorf("node %d keeps its slots beside node %d: %w", other, one, err)
		}
		repaired = fmt.Sprintf("shard %d had two primaries: node %d gave %d slots to node %d", shard, other, len(slots[other])/2, one)
	}
	if repaired == "" {
		return "", fmt.Errorf("the cluster does not get well: %s", c.ailment())
	}
	return repaired, nil
}
