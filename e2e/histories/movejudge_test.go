package main

import "testing"

// incr and push are writes that were answered; a reply of -1 is one that nobody knows of.
func incr(reply int, begin, end int64) write { return wrote("", reply, begin, end) }

func push(value string, reply int, begin, end int64) write { return wrote(value, reply, begin, end) }

func wrote(value string, reply int, begin, end int64) write {
	w := write{Key: "k", Value: value, Reply: reply, Begin: begin, End: end, Outcome: acknowledged}
	if reply < 0 {
		w.Outcome = unknown
	}
	return w
}

func TestWritesOfMoves(t *testing.T) {
	at := span{10, 12}
	list := func(values ...string) last { return last{list: values} }
	cases := []struct {
		claim        string
		lost, broken int
		writes       []write
		end          last
		what         flushing
	}{
		{"all increments are counted", 0, 0, []write{incr(1, 0, 1), incr(2, 2, 3)}, last{count: 2}, notFlushed},
		{"the last increment is missing", 1, 0, []write{incr(1, 0, 1), incr(2, 2, 3)}, last{count: 1}, notFlushed},
		{"an increment is missing, and later ones count over it", 1, 0, []write{incr(1, 0, 1), incr(2, 2, 3), incr(2, 4, 5)}, last{count: 2}, notFlushed},
		{"two increments at once have one reply", 1, 0, []write{incr(1, 0, 3), incr(1, 1, 2)}, last{count: 1}, notFlushed},
		{"an increment of which nobody knows may count", 0, 0, []write{incr(1, 0, 1), incr(-1, 2, 3)}, last{count: 2}, notFlushed},
		{"or not", 0, 0, []write{incr(1, 0, 1), incr(-1, 2, 3)}, last{count: 1}, notFlushed},
		{"more is counted than was sent", 0, 1, []write{incr(1, 0, 1)}, last{count: 2}, notFlushed},
		{"all values are there", 0, 0, []write{push("a", 1, 0, 1), push("b", 2, 2, 3)}, list("a", "b"), notFlushed},
		{"a value is missing", 1, 0, []write{push("a", 1, 0, 1), push("b", 2, 2, 3)}, list("a"), notFlushed},
		{"a value in the middle is missing", 1, 1, []write{push("a", 1, 0, 1), push("b", 2, 2, 3), push("c", 3, 4, 5)}, list("a", "c"), notFlushed},
		{"a value is there twice", 0, 1, []write{push("a", 1, 0, 1)}, list("a", "a"), notFlushed},
		{"two values have changed places", 0, 2, []write{push("a", 1, 0, 1), push("b", 2, 2, 3)}, list("b", "a"), notFlushed},
		{"a value is there that nobody has sent", 0, 1, []write{push("a", 1, 0, 1)}, list("a", "z"), notFlushed},
		{"what a flush took is gone", 0, 0, []write{push("a", 1, 0, 1), push("b", 1, 20, 21)}, list("b"), flushed},
		{"what a flush took is there again", 0, 1, []write{push("a", 1, 0, 1), push("b", 2, 20, 21)}, list("a", "b"), flushed},
		{"what came after a flush is missing", 1, 0, []write{push("a", 1, 0, 1), push("b", 1, 20, 21)}, list(), flushed},
		{"a write beside a flush may be gone", 0, 0, []write{push("a", 1, 0, 1), push("b", 1, 11, 13)}, list(), flushed},
		{"or be there", 0, 0, []write{push("a", 1, 0, 1), push("b", 1, 11, 13)}, list("b"), flushed},
		{"a flush elsewhere takes nothing", 1, 0, []write{push("a", 1, 0, 1)}, list(), notFlushed},
		{"a slot that moved may have been flushed", 0, 0, []write{push("a", 1, 0, 1), push("b", 1, 20, 21)}, list("b"), maybeFlushed},
		{"or not", 0, 0, []write{push("a", 1, 0, 1), push("b", 2, 20, 21)}, list("a", "b"), maybeFlushed},
		{"but not in part", 1, 2, []write{push("a", 1, 0, 1), push("b", 2, 2, 3), push("c", 3, 20, 21)}, list("a", "b"), maybeFlushed},
		{"a counter was flushed", 0, 0, []write{incr(7, 0, 1), incr(1, 20, 21)}, last{count: 1}, flushed},
		{"a counter was flushed and has gone on as before", 0, 1, []write{incr(7, 0, 1), incr(8, 20, 21)}, last{count: 8}, flushed},
	}
	for _, c := range cases {
		v := judgeKey(c.writes, c.end, c.what, at)
		if len(v.lost) != c.lost || len(v.broken) != c.broken {
			t.Errorf("%s: lost %v, broken %v", c.claim, v.lost, v.broken)
		}
	}
}

func TestMovingRangesAreOfTheirShards(t *testing.T) {
	for number, r := range moving {
		for at, tag := range r.tags {
			slot := slotOf("{" + tag + "}:x")
			if slot != r.first+at || slot*shards/16384 != number%shards {
				t.Errorf("range %d: %s has slot %d", number, tag, slot)
			}
		}
	}
}
