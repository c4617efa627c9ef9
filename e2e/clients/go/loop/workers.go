// What the loops of Go's clients share; the head of xtask/src/loops.rs says what a loop does and prints.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// client is the library's own commands. Goroutines share it; a key that is missing is an empty text.
type client interface {
	set(key, value string) error
	get(key string) (string, error)
	del(key string) error
}

var tags = [3][4]int{{3, 7, 10, 11}, {1, 2, 5, 6}, {0, 4, 8, 13}}

const keyCount = 64

var out sync.Mutex

func tell(words ...any) {
	out.Lock()
	defer out.Unlock()
	fmt.Println(words...)
}

type worker struct {
	client       client
	group        int
	keys         []string
	acknowledged map[string]int
	unknown      map[string]map[int]bool

	lock          sync.Mutex
	writes, reads int
	gap           time.Duration
	gapAt, last   time.Time
}

func (w *worker) succeeded(reads, writes int) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.reads, w.writes = w.reads+reads, w.writes+writes
	w.look()
	w.last = time.Now()
}

func (w *worker) look() {
	if since := time.Since(w.last); since > w.gap {
		w.gap, w.gapAt = since, w.last
	}
}

func (w *worker) failed(what string, err error) {
	text := strings.Join(strings.Fields(err.Error()), " ")
	tell("error", time.Now().UnixMilli(), w.group, what, text[:min(len(text), 200)])
}

func (w *worker) run() {
	for count := 1; ; count++ {
		key := w.keys[count%keyCount]
		if err := w.client.set(key, key+"#"+strconv.Itoa(count)); err != nil {
			if w.unknown[key] == nil {
				w.unknown[key] = map[int]bool{}
			}
			w.unknown[key][count] = true
			w.failed("SET", err)
		} else {
			w.acknowledged[key] = count
			w.succeeded(0, 1)
		}
		other := w.keys[(count+keyCount/2)%keyCount]
		if found, err := w.client.get(other); err != nil {
			w.failed("GET", err)
		} else {
			w.succeeded(1, 0)
			w.judge(other, found)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (w *worker) judge(key, found string) {
	text, is_of_key := strings.CutPrefix(found, key+"#")
	number, err := strconv.Atoi(text)
	if found != "" && (!is_of_key || err != nil) {
		tell("wrong", time.Now().UnixMilli(), w.group, key, found)
		return
	}
	if number != w.acknowledged[key] && !w.unknown[key][number] {
		tell("lost", time.Now().UnixMilli(), w.group, key, number, "in place of", w.acknowledged[key])
		w.acknowledged[key] = number
	}
}

// loop runs until the input ends.
func loop(client client, name, version string) {
	var workers []*worker
	for group := range 3 {
		w := &worker{client: client, group: group, acknowledged: map[string]int{}, unknown: map[string]map[int]bool{}}
		for at := range keyCount {
			key := fmt.Sprintf("{%d}:%s:%d", tags[group][at%4], name, at)
			if err := client.del(key); err != nil {
				fmt.Println("failed:", err)
				os.Exit(1)
			}
			w.keys = append(w.keys, key)
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		w.last = time.Now()
		go w.run()
	}
	tell("ready", version)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		writes, reads, gap, gapAt := 0, 0, time.Duration(-1), time.Time{}
		for _, w := range workers {
			w.lock.Lock()
			w.look()
			writes, reads = writes+w.writes, reads+w.reads
			if w.gap > gap {
				gap, gapAt = w.gap, w.gapAt
			}
			w.writes, w.reads, w.gap = 0, 0, 0
			w.lock.Unlock()
		}
		tell("report", writes, reads, gap.Milliseconds(), gapAt.UnixMilli())
	}
}
