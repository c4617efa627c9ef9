package main

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

func did(name, arg, out string, begin, end int64) op {
	return op{Key: "k", Name: name, Arg: arg, Out: out, Begin: begin, End: end}
}

func open(name, arg string, begin int64) op {
	return op{Key: "k", Name: name, Arg: arg, Begin: begin, End: begin + 1, Outcome: unknown}
}

func TestHistories(t *testing.T) {
	cases := []struct {
		claim string
		holds bool
		ops   []op
	}{
		{"a value that was set is read", true, []op{did("set", "a", "OK", 0, 1), did("get", "", "a", 2, 3)}},
		{"a confirmed write is missing", false, []op{did("set", "a", "OK", 0, 1), did("get", "", "", 2, 3)}},
		{"an old value is read after a new one", false, []op{
			did("set", "a", "OK", 0, 1), did("set", "b", "OK", 2, 3), did("get", "", "b", 4, 5), did("get", "", "a", 6, 7)}},
		{"a read beside a write may see either value", true, []op{
			did("set", "a", "OK", 0, 1), did("set", "b", "OK", 2, 9), did("get", "", "a", 3, 4), did("get", "", "b", 5, 6)}},
		{"a read beside a write does not go back", false, []op{
			did("set", "a", "OK", 0, 1), did("set", "b", "OK", 2, 9), did("get", "", "b", 3, 4), did("get", "", "a", 5, 6)}},
		{"a write of unknown outcome may never happen", true, []op{
			did("set", "a", "OK", 0, 1), open("set", "b", 2), did("get", "", "a", 10, 11)}},
		{"a write of unknown outcome may happen late", true, []op{
			did("set", "a", "OK", 0, 1), open("set", "b", 2), did("get", "", "a", 10, 11), did("get", "", "b", 20, 21)}},
		{"a write of unknown outcome happens once", false, []op{
			open("set", "b", 0), did("get", "", "b", 10, 11), did("set", "c", "OK", 12, 13), did("get", "", "b", 20, 21)}},
		{"nothing is read before its write begins", false, []op{did("get", "", "b", 0, 1), open("set", "b", 2)}},
		{"two increments have two answers", true, []op{did("incr", "", "1", 0, 5), did("incr", "", "2", 0, 5)}},
		{"two increments have one answer", false, []op{did("incr", "", "1", 0, 5), did("incr", "", "1", 0, 5)}},
		{"an increment of unknown outcome is counted or not", true, []op{
			open("incr", "", 0), did("incr", "", "2", 5, 6), open("incr", "", 7), did("get", "", "2", 9, 10)}},
		{"an increment of unknown outcome is taken back", false, []op{
			open("incr", "", 0), did("incr", "", "2", 5, 6), did("get", "", "1", 9, 10)}},
		{"an append answers the length", true, []op{did("append", "x;", "2", 0, 1), did("append", "yy;", "5", 2, 3), did("get", "", "x;yy;", 4, 5)}},
		{"an append happens twice", false, []op{did("append", "x;", "2", 0, 1), did("get", "", "x;x;", 4, 5)}},
		{"a pair changes together", true, []op{did("incr2", "", "1 1", 0, 1), did("get2", "", "1 1", 2, 3)}},
		{"half of a transaction", false, []op{did("incr2", "", "1 1", 0, 1), open("incr2", "", 2), did("get2", "", "2 1", 4, 5)}},
	}
	for _, one := range cases {
		want := porcupine.Illegal
		if one.holds {
			want = porcupine.Ok
		}
		if got, _ := linearizable(one.ops); got != want {
			t.Errorf("%s: %v, want %v", one.claim, got, want)
		}
	}
}

func TestMissingNamesWhatIsGone(t *testing.T) {
	ops := []op{did("append", "x;", "2", 0, 1), open("append", "y;", 2), did("append", "z;", "4", 3, 4)}
	if gone := missing(ops, "x;"); len(gone) != 1 || gone[0] != "append(z;), confirmed by node 0" {
		t.Error(gone)
	}
	if gone := missing([]op{did("incr", "", "1", 0, 1), did("incr", "", "2", 2, 3)}, "1"); len(gone) != 1 {
		t.Error(gone)
	}
	if gone := missing(ops, "x;z;"); gone != nil {
		t.Error(gone)
	}
}

func TestWindow(t *testing.T) {
	cases := []struct {
		claim   string
		want    int64
		answers []answer
	}{
		{"one owner", 0, []answer{{0, 1, false, 0, 1}, {0, 1, false, 50, 51}}},
		{"owners in turn", 0, []answer{{0, 1, false, 0, 1}, {1, 2, false, 10, 11}, {0, 3, false, 20, 21}}},
		{"the old owner answers on", 19, []answer{{0, 1, false, 0, 1}, {1, 2, false, 10, 11}, {0, 1, false, 30, 31}}},
		{"its request was on its way when the successor began", 0, []answer{{0, 1, false, 5, 40}, {1, 2, false, 10, 11}}},
		{"a write of the old owner is no read", 0, []answer{{1, 2, false, 10, 11}, {0, 1, true, 30, 31}}},
		{"a write of the successor begins the window of reads", 19, []answer{{1, 2, true, 10, 11}, {0, 1, false, 30, 31}}},
	}
	for _, one := range cases {
		if got, _ := window(one.answers, false); got != one.want {
			t.Errorf("%s: %d, want %d", one.claim, got, one.want)
		}
	}
}
