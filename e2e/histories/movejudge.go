package main

import (
	"fmt"
	"slices"
)

// acknowledged: a reply came, and no WAIT has confirmed it.
const acknowledged outcome = 2

// write is an INCR, or an RPUSH of a value that is sent once, as its client saw it. What was refused is no write.
type write struct {
	Key     string
	Value   string // of RPUSH; "" of INCR
	Client  int
	Node    int
	Reply   int // the counter, or the length of the list
	Begin   int64
	End     int64
	Outcome outcome
}

func (w write) isKnown() bool { return w.Outcome != unknown }

func (w write) String() string {
	what := "INCR"
	if w.Value != "" {
		what = "RPUSH " + w.Value
	}
	return fmt.Sprintf("%s %s answered %d by node %d at %.3f s", what, w.Key, w.Reply, w.Node, float64(w.End)/1e9)
}

// span is from one moment to another, in ns since the start of the history.
type span struct{ Begin, End int64 }

// flushing says what a FLUSHALL may have done to a key.
type flushing int

const (
	notFlushed flushing = iota
	// maybeFlushed: the key's slot moved from or to the node that was flushed.
	maybeFlushed
	flushed
)

// last is what a key has in the end: the value of a counter, or the elements of a list.
type last struct {
	count int
	list  []string
}

// verdict is what came of a key: writes that were answered and are missing, and what no loss explains.
type verdict struct {
	lost   []write
	broken []string
}

func (v verdict) isClean() bool { return len(v.lost) == 0 && len(v.broken) == 0 }

// judgeKey holds the writes of a key against its last value. A FLUSHALL splits them: those that ended ahead of it are gone,
// all or none, those that began after it are there, and those beside it may be either.
func judgeKey(writes []write, end last, what flushing, at span) verdict {
	if what != flushed {
		whole := judgeWrites(writes, end, nil)
		if what == notFlushed || whole.isClean() {
			return whole
		}
	}
	var after []write
	var gone []string
	for _, w := range writes {
		switch {
		case w.Begin > at.End:
			after = append(after, w)
		case !w.isKnown() || w.End >= at.Begin:
			// It may be there: as if nobody knew what came of it.
			w.Outcome = unknown
			after = append(after, w)
		default:
			gone = append(gone, w.Value)
		}
	}
	return judgeWrites(after, end, gone)
}

// judgeWrites judges without a FLUSHALL; gone are values that must not be there.
func judgeWrites(writes []write, end last, gone []string) verdict {
	if len(writes) > 0 && writes[0].Value == "" || len(end.list) == 0 && end.count > 0 {
		return judgeCounter(writes, end.count)
	}
	return judgeList(writes, end.list, gone)
}

// judgeCounter: replies are all different, later ones greater, none above the last value, which is no more than was tried.
func judgeCounter(writes []write, count int) (v verdict) {
	known := slices.DeleteFunc(slices.Clone(writes), func(w write) bool { return !w.isKnown() })
	for at, w := range known {
		isLost := w.Reply > count
		for other, later := range known {
			isLost = isLost || later.Begin > w.End && later.Reply <= w.Reply || other > at && later.Reply == w.Reply
		}
		if isLost {
			v.lost = append(v.lost, w)
		}
	}
	if count > len(writes) {
		v.broken = append(v.broken, fmt.Sprintf("%d increments are counted, %d were sent", count, len(writes)))
	}
	return v
}

// judgeList: every value that was answered is there once, at the position that the answer said.
func judgeList(writes []write, list, gone []string) (v verdict) {
	places := map[string]int{}
	for at, value := range list {
		if _, isTwice := places[value]; isTwice {
			v.broken = append(v.broken, fmt.Sprintf("%s is there twice", value))
			continue
		}
		places[value] = at
	}
	sent := map[string]bool{}
	for _, w := range writes {
		sent[w.Value] = true
		at, isThere := places[w.Value]
		switch {
		case !w.isKnown():
		case !isThere:
			v.lost = append(v.lost, w)
		case at != w.Reply-1:
			v.broken = append(v.broken, fmt.Sprintf("%v is at %d", w, at+1))
		}
	}
	for _, value := range list {
		if slices.Contains(gone, value) {
			v.broken = append(v.broken, fmt.Sprintf("%s is there again after FLUSHALL", value))
		} else if !sent[value] {
			v.broken = append(v.broken, fmt.Sprintf("%s is there, and nobody has sent it", value))
		}
	}
	return v
}
