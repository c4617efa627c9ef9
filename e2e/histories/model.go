package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// outcome is what a client knows of an operation.
type outcome int

const (
	// confirmed: executed, and all replicas of the shard have acknowledged what was executed up to then.
	confirmed outcome = iota
	// unknown: it may take effect at any time from its beginning on, or never.
	unknown
)

// op is an operation on one key whose writes are followed by WAIT, and whose reads are followed by a write and WAIT
// on the same connection. What was refused, and a read that was not confirmed, is no operation.
type op struct {
	Client  int
	Key     string
	Name    string // set, get, incr, append; incr2 and get2 of a pair of keys, in MULTI
	Arg     string
	Out     string // what was answered, of a confirmed one
	Node    int
	Begin   int64 // ns since the start of the history
	End     int64
	Outcome outcome
}

func (o op) isRead() bool { return o.Name == "get" || o.Name == "get2" }

// step executes an operation on the value of a key, "" where there is none; whether the answer fits.
func step(value string, o op) (bool, string) {
	answers := func(want string) bool { return o.Outcome == unknown || o.Out == want }
	switch o.Name {
	case "set":
		return true, o.Arg
	case "get":
		return answers(value), value
	case "append":
		value += o.Arg
		return answers(strconv.Itoa(len(value))), value
	case "incr", "incr2":
		count, _ := strconv.Atoi(value)
		value = strconv.Itoa(count + 1)
		if o.Name == "incr2" {
			return answers(value + " " + value), value
		}
		return answers(value), value
	case "get2":
		return answers(value + " " + value), value
	}
	panic("no operation is called " + o.Name)
}

var model = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) { return step(state.(string), input.(op)) },
	DescribeOperation: func(input, _ any) string {
		o, answer := input.(op), "?"
		if o.Outcome == confirmed {
			answer = o.Out
		}
		return fmt.Sprintf("%s(%s) at node %d: %s", o.Name, o.Arg, o.Node, answer)
	},
}

// checkPatience bounds the search for an order of one key's operations.
const checkPatience = 20 * time.Second

// linearizable says whether the operations of one key have an order that explains every answer. An operation whose
// outcome is unknown ends never: the checker may put it behind all others, where it changes nothing.
func linearizable(ops []op) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	history := make([]porcupine.Operation, 0, len(ops))
	for _, o := range ops {
		end := o.End
		if o.Outcome == unknown {
			end = math.MaxInt64
		}
		history = append(history, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Begin, Return: end})
	}
	return porcupine.CheckOperationsVerbose(model, history, checkPatience)
}

// missing names the confirmed APPENDs whose words are not in the last value, and tells of INCRs that are not counted.
// The checker finds the same; this says which write is gone.
func missing(ops []op, last string) []string {
	var gone []string
	counted := 0
	for _, o := range ops {
		if o.Outcome != confirmed {
			continue
		}
		switch o.Name {
		case "append":
			if !strings.Contains(last, o.Arg) {
				gone = append(gone, fmt.Sprintf("append(%s), confirmed by node %d", o.Arg, o.Node))
			}
		case "incr", "incr2":
			counted++
		}
	}
	if value, _ := strconv.Atoi(last); counted > value && counted > 0 {
		gone = append(gone, fmt.Sprintf("%d of %d confirmed increments", counted-value, counted))
	}
	return gone
}

// answer is a request that a node has answered as the owner of its slot, with the epoch that it held its slots by.
type answer struct {
	Node    int
	Epoch   int64
	IsWrite bool
	Begin   int64
	End     int64
}

// window is for how long an owner went on answering after its successor had begun to: from the first answer by a
// later epoch to the beginning of the last request that was answered by an earlier one. What was on its way when
// the successor began counts for nothing: it may have been answered before.
func window(answers []answer, isWrite bool) (longest int64, by answer) {
	first := map[int64]int64{}
	for _, a := range answers {
		if end, known := first[a.Epoch]; !known || a.End < end {
			first[a.Epoch] = a.End
		}
	}
	for _, a := range answers {
		for epoch, end := range first {
			if a.IsWrite == isWrite && epoch > a.Epoch && a.Begin-end > longest {
				longest, by = a.Begin-end, a
			}
		}
	}
	return longest, by
}
